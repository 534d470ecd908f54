use super::issue::code_record;
use super::*;
use domain::clock::Timestamp;
use domain::redirect_uri::RedirectUriUse;
use domain::{
    ClientId, CredentialsVersion, IntegrationType, LinkedAccount, RedirectUriPattern, Session,
    SessionStage, User, Username,
};

const ISSUER: &str = "https://lobby.example.com";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const WEB: &str = "client_id=web&redirect_uri=https%3A%2F%2Fapp.example.com%2Fcb";
const APP: &str = "client_id=app&redirect_uri=http%3A%2F%2F127.0.0.1%3A8000%2Fcb";

fn client(client_id: &str, integration: IntegrationType) -> Client {
    Client {
        client_id: ClientId::parse(client_id).unwrap(),
        name: client_id.to_owned(),
        integration,
        scopes: Scope::parse("admin projects").unwrap(),
        enabled: true,
    }
}

fn user(username: &str, accounts: usize) -> User {
    User {
        username: Username::parse(username).unwrap(),
        email: None,
        password_hash: None,
        registered_password_digest: None,
        totp_secret_sealed: None,
        organization: None,
        single_sign_on: false,
        accounts: (1..=accounts)
            .map(|number| LinkedAccount {
                user_id: number.to_string(),
                username: format!("{username}{number}"),
                site: format!("https://us{number}.example.com"),
            })
            .collect(),
        enabled: true,
        credentials_version: CredentialsVersion::default(),
    }
}

fn registry() -> Registry {
    let pattern = |text, use_| vec![RedirectUriPattern::parse(text, use_).unwrap()];
    let disabled = Client {
        enabled: false,
        ..client(
            "disabled",
            IntegrationType::WebServer {
                secrets: vec![],
                redirect_uris: pattern("https://app.example.com/cb", RedirectUriUse::WebServer),
            },
        )
    };
    Registry::new(
        [
            client(
                "web",
                IntegrationType::WebServer {
                    secrets: vec![],
                    redirect_uris: pattern("https://app.example.com/cb", RedirectUriUse::WebServer),
                },
            ),
            client(
                "app",
                IntegrationType::Installed {
                    redirect_uris: pattern("http://127.0.0.1:*/cb", RedirectUriUse::Installed),
                },
            ),
            client(
                "machine",
                IntegrationType::UserBound {
                    secrets: vec![],
                    bound_user: Username::parse("one").unwrap(),
                },
            ),
            disabled,
        ],
        [
            user("none", 0),
            user("one", 1),
            user("three", 3),
            User {
                enabled: false,
                ..user("gone", 1)
            },
        ],
    )
}

fn validate(query: &str) -> Result<AuthorizationRequest, AuthorizeError> {
    AuthorizationRequest::validate(query.as_bytes(), &registry())
}

fn refusal(query: &str) -> RedirectError {
    match validate(query) {
        Err(AuthorizeError::Redirect(_, error)) => error,
        other => panic!("{query}: {other:?}"),
    }
}

fn unsafe_request(query: &str) -> UnsafeRequest {
    match validate(query) {
        Err(AuthorizeError::Unsafe(reason)) => reason,
        other => panic!("{query}: {other:?}"),
    }
}

#[test]
fn a_web_server_request_with_everything_and_unknown_parameters() {
    let request = validate(&format!(
        "response_type=code&{WEB}&state=a%20b&scope=projects&code_challenge={CHALLENGE}\
         &code_challenge_method=S256&nonce=1&prompt=&login_hint"
    ))
    .unwrap();
    assert_eq!(request.client().client_id.as_str(), "web");
    assert_eq!(request.scope, Scope::parse("projects").unwrap());
    assert_eq!(
        request.code_challenge,
        Some(Digest::of(b"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"))
    );
    assert_eq!(request.prompt(), Prompt::WhenNeeded);
}

/// D-9: absent or empty means all registered scopes; PKCE is optional for Web Server Applications.
#[test]
fn a_minimal_request() {
    let request = validate(&format!("response_type=code&{WEB}&scope=&code_challenge=")).unwrap();
    assert_eq!(request.scope, Scope::parse("admin projects").unwrap());
    assert_eq!(request.code_challenge, None);
}

/// No known client, no registered redirect URI, no redirect.
#[test]
fn without_a_safe_destination_there_is_no_redirect() {
    let uri = "redirect_uri=https%3A%2F%2Fapp.example.com%2Fcb";
    for (query, reason) in [
        (uri.to_owned(), UnsafeRequest::ClientIdMissing),
        (format!("client_id=&{uri}"), UnsafeRequest::ClientIdMissing),
        (
            format!("{WEB}&client_id=web"),
            UnsafeRequest::ClientIdRepeated,
        ),
        (
            format!("client_id=nobody&{uri}"),
            UnsafeRequest::ClientUnknown,
        ),
        (
            format!("client_id=disabled&{uri}"),
            UnsafeRequest::ClientUnknown,
        ),
        (
            format!("client_id=machine&{uri}"),
            UnsafeRequest::ClientUnauthorized,
        ),
        (
            "client_id=web".to_owned(),
            UnsafeRequest::RedirectUriMissing,
        ),
        (
            format!("{WEB}&redirect%5Furi=x"),
            UnsafeRequest::RedirectUriRepeated,
        ),
        (
            "client_id=web&redirect_uri=https%3A%2F%2Fapp.example.com%2Fcb%23x".to_owned(),
            UnsafeRequest::RedirectUriUnregistered,
        ),
        (
            "client_id=app&redirect_uri=http%3A%2F%2Flocalhost%3A8000%2Fcb".to_owned(),
            UnsafeRequest::RedirectUriUnregistered,
        ),
    ] {
        assert_eq!(
            unsafe_request(&format!("response_type=code&{query}")),
            reason,
            "{query}"
        );
    }
    for query in [
        &format!("{WEB}&response_type=code&state=%ff"),
        &format!("{WEB}&response_type=code&state=%"),
        "%",
    ] {
        assert!(matches!(
            unsafe_request(query),
            UnsafeRequest::Unreadable(_)
        ));
    }
}

#[test]
fn with_a_safe_destination_the_client_is_told() {
    let pkce = |challenge: &str, method: &str| {
        format!(
            "response_type=code&{APP}&code_challenge={challenge}&code_challenge_method={method}"
        )
    };
    for (query, error, code) in [
        (
            format!("{WEB}&response_type=code&scope=projects&scope=projects"),
            RedirectError::ParameterRepeated("scope".to_owned()),
            "invalid_request",
        ),
        (
            WEB.to_owned(),
            RedirectError::ResponseTypeMissing,
            "invalid_request",
        ),
        (
            format!("{WEB}&response_type=token"),
            RedirectError::ResponseTypeUnsupported,
            "unsupported_response_type",
        ),
        (
            format!("{APP}&response_type=code"),
            RedirectError::ChallengeRequired,
            "invalid_request",
        ),
        (
            format!("{WEB}&response_type=code&code_challenge={CHALLENGE}"),
            RedirectError::ChallengeMethodMissing,
            "invalid_request",
        ),
        (
            pkce(CHALLENGE, "plain"),
            RedirectError::ChallengeMethodUnsupported,
            "invalid_request",
        ),
        (
            pkce("", "S256"),
            RedirectError::ChallengeMissingForMethod,
            "invalid_request",
        ),
        (
            pkce(&CHALLENGE[1..], "S256"),
            RedirectError::ChallengeMalformed,
            "invalid_request",
        ),
        (
            pkce(&format!("{CHALLENGE}A"), "S256"),
            RedirectError::ChallengeMalformed,
            "invalid_request",
        ),
        (
            pkce(&format!("{}%2B", &CHALLENGE[1..]), "S256"),
            RedirectError::ChallengeMalformed,
            "invalid_request",
        ),
        (
            format!("{WEB}&response_type=code&scope=projects+root"),
            RedirectError::ScopeNotPermitted,
            "invalid_scope",
        ),
        (
            format!("{WEB}&response_type=code&scope=%22"),
            RedirectError::ScopeNotPermitted,
            "invalid_scope",
        ),
        (
            format!("{WEB}&response_type=code&prompt=none+login"),
            RedirectError::PromptUnsupported,
            "invalid_request",
        ),
    ] {
        assert_eq!(refusal(&query), error, "{query}");
        assert_eq!(error.code(), code);
    }
}

/// `state` comes back as it was sent, `iss` always comes with it.
#[test]
fn answers_echo_the_state_and_name_the_issuer() {
    let state = "a b+c&d=e\u{e9}\u{1f980}\"'\\%;#/?";
    let query: String = form_urlencoded::Serializer::new(format!("response_type=code&{WEB}"))
        .append_pair("state", state)
        .finish();
    let request = validate(&query).unwrap();
    for location in [
        request.destination.with_code("abc", ISSUER),
        request
            .destination
            .with_error(&RedirectError::Cancelled, ISSUER),
    ] {
        assert!(location.starts_with("https://app.example.com/cb?"));
        assert!(location.is_ascii());
        let answer: std::collections::HashMap<_, _> = url::Url::parse(&location)
            .unwrap()
            .query_pairs()
            .into_owned()
            .collect();
        assert_eq!(answer["state"], state);
        assert_eq!(answer["iss"], ISSUER);
    }
    let Err(AuthorizeError::Redirect(destination, error)) =
        validate(&format!("{WEB}&response_type=code&state=1&state=2"))
    else {
        panic!("a repeated state is refused");
    };
    assert!(!destination.with_error(&error, ISSUER).contains("state="));
}

#[test]
fn descriptions_keep_to_the_allowed_characters() {
    for error in [
        RedirectError::ParameterRepeated("sta\"te\\\n".to_owned()),
        RedirectError::ResponseTypeMissing,
        RedirectError::ResponseTypeUnsupported,
        RedirectError::ChallengeRequired,
        RedirectError::ChallengeMalformed,
        RedirectError::ChallengeMethodMissing,
        RedirectError::ChallengeMethodUnsupported,
        RedirectError::ChallengeMissingForMethod,
        RedirectError::ScopeNotPermitted,
        RedirectError::PromptUnsupported,
        RedirectError::LoginRequired,
        RedirectError::AccountSelectionRequired,
        RedirectError::InteractionRequired,
        RedirectError::NoLinkedAccount,
        RedirectError::Cancelled,
    ] {
        assert!(
            error
                .description()
                .bytes()
                .all(|byte| matches!(byte, 0x20 | 0x21 | 0x23..=0x5b | 0x5d..=0x7e)),
            "{error:?}"
        );
    }
}

#[test]
fn what_pages_carry_on_is_the_same_request_without_prompt() {
    let request = validate(&format!(
        "response_type=code&{WEB}&state=%0d%0a%C3%A9&prompt=login&x=1"
    ))
    .unwrap();
    assert_eq!(request.prompt(), Prompt::Login);
    assert!(
        request
            .continuation()
            .bytes()
            .all(|byte| byte.is_ascii_graphic())
    );
    let again = validate(request.continuation()).unwrap();
    assert_eq!(again.prompt(), Prompt::WhenNeeded);
    assert_eq!(again.destination, request.destination);
    assert_eq!(again.continuation(), request.continuation());
    assert_eq!(
        validate(&again.sign_in_again()).unwrap().prompt(),
        Prompt::Login
    );
}

fn session(username: &str, stage: SessionStage) -> Option<Session> {
    Some(Session {
        username: Username::parse(username).unwrap(),
        stage,
        amr: vec!["USERNAME_PASSWORD".to_owned()],
        authenticated_at: Timestamp::from_seconds(1),
        expires_at: Timestamp::from_seconds(2),
        ends_at: Timestamp::from_seconds(2),
        credentials_version: CredentialsVersion::default(),
    })
}

#[test]
fn the_next_step_follows_from_prompt_and_session() {
    use SessionStage::{SecondFactorOwed, SignedIn as Complete};
    let step = |prompt, session| next_step(prompt, session, Confirmation::NotNeeded, &registry());

    for prompt in [Prompt::WhenNeeded, Prompt::Login] {
        assert_eq!(step(prompt, None), Step::SignIn);
        assert_eq!(step(prompt, session("gone", Complete)), Step::SignIn);
        assert_eq!(step(prompt, session("removed", Complete)), Step::SignIn);
    }
    assert_eq!(step(Prompt::Login, session("one", Complete)), Step::SignIn);
    assert_eq!(
        step(Prompt::WhenNeeded, session("one", SecondFactorOwed)),
        Step::SecondFactor
    );
    assert!(matches!(
        step(Prompt::WhenNeeded, session("none", Complete)),
        Step::NoAccount(_)
    ));
    assert_eq!(
        step(Prompt::Never, session("none", Complete)),
        Step::Refuse(RedirectError::NoLinkedAccount)
    );
    for prompt in [Prompt::WhenNeeded, Prompt::Never] {
        assert!(
            matches!(step(prompt, session("one", Complete)), Step::Issue(_, account) if account.user_id == "1")
        );
    }
    assert!(matches!(
        step(Prompt::WhenNeeded, session("three", Complete)),
        Step::SelectAccount(_)
    ));
    for owing in [
        None,
        session("gone", Complete),
        session("one", SecondFactorOwed),
    ] {
        assert_eq!(
            step(Prompt::Never, owing),
            Step::Refuse(RedirectError::LoginRequired)
        );
    }
    assert_eq!(
        step(Prompt::Never, session("three", Complete)),
        Step::Refuse(RedirectError::AccountSelectionRequired)
    );
}

/// D-34, RFC 8252 §8.6.
#[test]
fn a_live_session_alone_gives_no_code_to_a_native_client() {
    let step = |prompt, confirmation, username: &str| {
        let session = session(username, SessionStage::SignedIn);
        next_step(prompt, session, confirmation, &registry())
    };
    let when_needed = |confirmation| step(Prompt::WhenNeeded, confirmation, "one");
    assert!(matches!(
        when_needed(Confirmation::Needed),
        Step::Confirm(..)
    ));
    assert!(matches!(when_needed(Confirmation::Given), Step::Issue(..)));
    for confirmation in [Confirmation::Needed, Confirmation::Given] {
        assert_eq!(
            step(Prompt::Never, confirmation, "one"),
            Step::Refuse(RedirectError::InteractionRequired)
        );
        // Choosing an account is an act of the person.
        assert!(matches!(
            step(Prompt::WhenNeeded, confirmation, "three"),
            Step::SelectAccount(_)
        ));
    }
}

/// A form could not carry it on after the person has typed a password.
#[test]
fn a_request_that_pages_cannot_carry_is_refused_at_once() {
    let request = |state: &str| validate(&format!("{WEB}&response_type=code&state={state}"));
    assert!(request(&"s".repeat(11 * 1024)).is_ok());
    for state in ["s".repeat(13 * 1024), "%C3%A9".repeat(2 * 1024 + 100)] {
        assert_eq!(
            request(&state),
            Err(AuthorizeError::Unsafe(UnsafeRequest::TooLarge))
        );
    }
}

#[test]
fn a_code_stands_for_request_session_and_account() {
    let request = validate(&format!(
        "response_type=code&{APP}&code_challenge={CHALLENGE}&code_challenge_method=S256"
    ))
    .unwrap();
    let session = session("three", SessionStage::SignedIn).unwrap();
    let signed_in = SignedIn::of(session.clone(), &registry()).unwrap();
    assert_eq!(signed_in.account("2", "https://us1.example.com"), None);
    let account = signed_in.account("2", "https://us2.example.com").unwrap();
    let record = code_record(&request, &signed_in, account, Timestamp::from_seconds(60));
    assert_eq!(record.client_id.as_str(), "app");
    assert_eq!(record.redirect_uri, "http://127.0.0.1:8000/cb");
    assert_eq!(record.code_challenge, Digest::from_base64url(CHALLENGE));
    assert_eq!(record.username.as_str(), "three");
    assert_eq!(record.account.user_id, "2");
    assert_eq!(record.amr, session.amr);
    assert_eq!(record.authenticated_at, session.authenticated_at);
    assert_eq!(record.expires_at, Timestamp::from_seconds(60));
}

/// OpenID Connect Core §3.1.2.1.
#[test]
fn max_age_bounds_how_long_ago_the_sign_in_was() {
    let request = |extra: &str| validate(&format!("{WEB}&response_type=code{extra}")).unwrap();
    let signed_in = session("one", SessionStage::SignedIn).unwrap();
    let later = |seconds| signed_in.authenticated_at + std::time::Duration::from_secs(seconds);
    let accepts = |extra: &str, seconds| request(extra).accepts(&signed_in, later(seconds));
    assert!(accepts("", 1_000_000));
    assert!(accepts("&max_age=60", 60));
    assert!(!accepts("&max_age=60", 61));
    assert!(!accepts("&max_age=0", 0), "asks again, as prompt=login");
    assert!(request("&max_age=60").continuation().contains("max_age=60"));
    assert!(!request("&max_age=0").continuation().contains("max_age"));
    for malformed in ["-1", "+1", "1.5", "x", "99999999999999999999"] {
        let query = format!("{WEB}&response_type=code&max_age={malformed}").replace("=+", "=%2B");
        assert!(
            matches!(
                validate(&query),
                Err(AuthorizeError::Redirect(_, RedirectError::MaxAgeMalformed))
            ),
            "{malformed}"
        );
    }
}

#[test]
fn a_login_hint_is_carried_on() {
    let hinted = validate(&format!(
        "{WEB}&response_type=code&login_hint=ada%40example.com"
    ))
    .unwrap();
    assert_eq!(hinted.login_hint(), Some("ada@example.com"));
    let carried = validate(hinted.continuation()).unwrap();
    assert_eq!(carried.login_hint(), Some("ada@example.com"));
}
