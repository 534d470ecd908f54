//! From a query to a validated request, or to a refusal.

use super::*;
use crate::oauth::pkce::ChallengeError;

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

/// Without a known client and a registered redirect URI there is no redirect.
#[test]
fn without_a_safe_destination_there_is_no_redirect() {
    let uri = "redirect_uri=https%3A%2F%2Fapp.example.com%2Fcb";
    use UnsafeRequest as Unsafe;
    for (query, reason) in [
        (uri, Unsafe::ClientIdMissing),
        (&format!("client_id=&{uri}"), Unsafe::ClientIdMissing),
        (&format!("{WEB}&client_id=web"), Unsafe::ClientIdRepeated),
        (&format!("client_id=nobody&{uri}"), Unsafe::ClientUnknown),
        (
            &format!("client_id=machine&{uri}"),
            Unsafe::ClientUnauthorized,
        ),
        ("client_id=web", Unsafe::RedirectUriMissing),
        (
            &format!("{WEB}&redirect%5Furi=x"),
            Unsafe::RedirectUriRepeated,
        ),
        (&format!("{WEB}%23x"), Unsafe::RedirectUriUnregistered),
        (
            &APP.replace("127.0.0.1", "localhost"),
            Unsafe::RedirectUriUnregistered,
        ),
    ] {
        let query = format!("response_type=code&{query}");
        assert_eq!(unsafe_request(&query), reason, "{query}");
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
    use ChallengeError as C;
    use RedirectError as E;
    let web = |extra: &str| format!("{WEB}&response_type=code&{extra}");
    let pkce = |challenge: &str, method: &str| {
        format!(
            "response_type=code&{APP}&code_challenge={challenge}&code_challenge_method={method}"
        )
    };
    let challenge = |query, error| (query, E::Challenge(error), "invalid_request");
    let repeated = E::ParameterRepeated("scope".to_owned());
    let root = E::ScopeNotPermitted(Scope::parse("root").unwrap());
    let token = format!("{WEB}&response_type=token");
    let unsupported = "unsupported_response_type";
    for (query, error, code) in [
        (web("scope=a&scope=a"), repeated, "invalid_request"),
        (WEB.to_owned(), E::ResponseTypeMissing, "invalid_request"),
        (token, E::ResponseTypeUnsupported, unsupported),
        challenge(format!("{APP}&response_type=code"), C::Required),
        challenge(
            web(&format!("code_challenge={CHALLENGE}")),
            C::MethodMissing,
        ),
        challenge(pkce(CHALLENGE, "plain"), C::MethodUnsupported),
        challenge(pkce("", "S256"), C::MissingForMethod),
        challenge(pkce(&CHALLENGE[1..], "S256"), C::Malformed),
        challenge(pkce(&format!("{CHALLENGE}A"), "S256"), C::Malformed),
        challenge(pkce(&CHALLENGE.replace('M', "%2B"), "S256"), C::Malformed),
        (web("scope=projects+root"), root, "invalid_scope"),
        (web("scope=%22"), E::ScopeMalformed, "invalid_scope"),
        (
            web("prompt=none+login"),
            E::PromptUnsupported,
            "invalid_request",
        ),
        (web("dpop_jkt=x"), E::DpopKeyMalformed, "invalid_request"),
    ] {
        assert_eq!(refusal(&query), error, "{query}");
        assert_eq!(error.code(), code);
    }
}

/// RFC 9126 §6.
#[test]
fn a_client_of_pushed_requests_has_no_others() {
    let client = Arc::new(Client {
        require_pushed_authorization_requests: true,
        ..clients()[0].clone()
    });
    let query = format!("{WEB}&response_type=code");
    let read = UnidentifiedRequest::read(query.as_bytes()).unwrap();
    let refused = read.validate(Some(Arc::clone(&client)), NOW);
    let Err(AuthorizeError::Redirect(_, error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error, RedirectError::NotPushed);
    let pushed = UnidentifiedRequest::read_pushed(query.as_bytes()).unwrap();
    assert!(pushed.validate(Some(client), NOW).is_ok());
}

/// The response has `state` as sent, and always `iss`.
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
        RedirectError::Challenge(ChallengeError::Required),
        RedirectError::Challenge(ChallengeError::Malformed),
        RedirectError::Challenge(ChallengeError::MethodMissing),
        RedirectError::Challenge(ChallengeError::MethodUnsupported),
        RedirectError::Challenge(ChallengeError::MissingForMethod),
        RedirectError::ScopeMalformed,
        RedirectError::ScopeNotPermitted(Scope::parse("!#$").unwrap()),
        RedirectError::PromptUnsupported,
        RedirectError::LoginRequired,
        RedirectError::AccountSelectionRequired,
        RedirectError::InteractionRequired,
        RedirectError::NoLinkedAccount,
        RedirectError::Cancelled,
    ] {
        assert!(
            error
                .to_string()
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

/// A form could not pass on such a request after the person has typed a password.
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
fn a_login_hint_is_carried_on() {
    let hinted = validate(&format!(
        "{WEB}&response_type=code&login_hint=ada%40example.com"
    ))
    .unwrap();
    assert_eq!(hinted.login_hint(), Some("ada@example.com"));
    let carried = validate(hinted.continuation()).unwrap();
    assert_eq!(carried.login_hint(), Some("ada@example.com"));
}
