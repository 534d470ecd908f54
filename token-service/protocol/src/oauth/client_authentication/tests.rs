use super::*;
use domain::testing::{installed, web_server};

fn authenticate_with(headers: &[&str], form: &str) -> Result<PresentedClient, TokenError> {
    authenticate_over(None, headers, form)
}

/// Over a connection with this certificate.
fn authenticate_over(
    certificate: Option<Thumbprint>,
    headers: &[&str],
    form: &str,
) -> Result<PresentedClient, TokenError> {
    let registered = [
        web_server("web", &["first:+%41", "second"], &[]),
        web_server("we:b", &["secret"], &[]),
        installed("app", &[]),
        with_certificates("tls", &[], &[b"one", b"two"]),
        with_certificates("both", &["secret"], &[b"one"]),
    ];
    let headers: Vec<&[u8]> = headers.iter().map(|header| header.as_bytes()).collect();
    let form = Parameters::parse(form.as_bytes()).unwrap();
    let claim = Claim::read(&headers, &form)?;
    let found = claim.client_ids().into_iter().find_map(|claimed| {
        let mut registered = registered.iter();
        registered.find(|client| client.client_id.as_str() == claimed.as_str())
    });
    let found = Arc::new(found.ok_or(TokenError::UnknownClient)?.clone());
    let now = Timestamp::from_seconds(1_800_000_000);
    claim.check(found, certificate, &Settings::default(), now)
}

fn with_certificates(id: &str, secrets: &[&str], certificates: &[&[u8]]) -> Client {
    Client {
        key_authentication: KeyAuthentication {
            tls_client_certificates: certificates.iter().map(|der| Thumbprint::of(der)).collect(),
            ..KeyAuthentication::default()
        },
        ..web_server(id, secrets, &[])
    }
}

fn basic(credentials: &str) -> String {
    format!("Basic {}", BASE64.encode(credentials))
}

fn outcome(headers: &[&str], form: &str) -> Result<(String, bool), TokenError> {
    authenticate_with(headers, form).map(|presented| {
        (
            presented.client().client_id.to_string(),
            presented.is_authenticated(),
        )
    })
}

/// Form-encoded and verbatim secrets, `:` `+` `%` included.
#[test]
fn rfc6749_s2_3_1_basic_is_read_encoded_and_verbatim() {
    let web = Ok(("web".to_owned(), true));
    assert_eq!(outcome(&[&basic("web:first:+%41")], ""), web);
    assert_eq!(outcome(&[&basic("web:first%3A%2B%2541")], ""), web);
    assert_eq!(outcome(&[&basic("web:second")], "client_id=web"), web);
    assert_eq!(
        outcome(&[&basic("web:second").replace("Basic", "bAsIc  ")], ""),
        web
    );
    assert_eq!(
        outcome(&[basic("web:second").trim_end_matches('=')], ""),
        web
    );
    assert_eq!(
        outcome(&[&basic("we%3Ab:secret")], ""),
        Ok(("we:b".to_owned(), true))
    );
}

#[test]
fn a_client_id_alone_names_but_does_not_prove() {
    assert_eq!(outcome(&[], "client_id=app"), Ok(("app".to_owned(), false)));
    assert_eq!(outcome(&[], "client_id=web"), Ok(("web".to_owned(), false)));
    let web = authenticate_with(&[], "client_id=web").unwrap();
    assert_eq!(web.fully_authenticated(), Err(TokenError::SecretRequired));
    assert!(
        authenticate_with(&[], "client_id=app")
            .unwrap()
            .fully_authenticated()
            .is_ok()
    );
}

/// D-31.
#[test]
fn rfc6749_s3_2_an_empty_secret_was_not_sent() {
    let named = Ok(("app".to_owned(), false));
    assert_eq!(outcome(&[], "client_id=app&client_secret="), named);
    let web = Ok(("web".to_owned(), true));
    let header = basic("web:second");
    assert_eq!(outcome(&[&header], "client_id=&client_secret="), web);
}

#[test]
fn everything_else_is_refused_for_its_own_reason() {
    let good = basic("web:second");
    for (headers, form, reason) in [
        (vec![], "", TokenError::NoClient),
        (vec![], "client_id=", TokenError::NoClient),
        (vec![], "client_id=nobody", TokenError::UnknownClient),
        (
            vec![],
            "client_id=web&client_secret=second",
            TokenError::SecretInBody,
        ),
        (
            vec![good.clone()],
            "client_secret=second",
            TokenError::SeveralAuthentications,
        ),
        (
            vec![good.clone(), good.clone()],
            "",
            TokenError::SeveralAuthentications,
        ),
        (
            vec![good.clone()],
            "client_id=app",
            TokenError::ClientIdDiffers,
        ),
        (vec![basic("web:wrong")], "", TokenError::WrongSecret),
        (vec![basic("web:")], "", TokenError::WrongSecret),
        (vec![basic("nobody:second")], "", TokenError::UnknownClient),
        (vec![basic("app:")], "", TokenError::PublicClientInHeader),
        (
            vec![basic("app:x")],
            "client_id=app",
            TokenError::PublicClientInHeader,
        ),
        (vec![basic("web")], "", TokenError::BasicMalformed),
        (vec!["Basic".into()], "", TokenError::BasicMalformed),
        (vec!["Basic !!!".into()], "", TokenError::BasicMalformed),
        (vec!["Basic /w==".into()], "", TokenError::BasicMalformed),
        (vec!["Bearer abc".into()], "", TokenError::BasicMalformed),
    ] {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        assert_eq!(outcome(&headers, form), Err(reason), "{headers:?} {form}");
    }
}

#[test]
fn rfc8705_s2_2_one_of_the_registered_certificates_authenticates() {
    let over = |der: Option<&[u8]>, headers: &[&str], form| {
        let presented = authenticate_over(der.map(Thumbprint::of), headers, form)?;
        presented.authenticated().map(|_| presented.clone())
    };
    let secret = basic("both:secret");
    for (der, headers, form, proof) in [
        (
            Some(b"one".as_slice()),
            &[][..],
            "client_id=tls",
            Ok(Proof::Certificate),
        ),
        (Some(b"two"), &[], "client_id=tls", Ok(Proof::Certificate)),
        (Some(b"one"), &[], "client_id=both", Ok(Proof::Certificate)),
        (
            Some(b"three"),
            &[],
            "client_id=tls",
            Err(TokenError::CertificateOther),
        ),
        (
            Some(b"two"),
            &[],
            "client_id=both",
            Err(TokenError::CertificateOther),
        ),
        (
            None,
            &[],
            "client_id=tls",
            Err(TokenError::CertificateRequired),
        ),
        (None, &[], "client_id=both", Err(TokenError::SecretRequired)),
        // A certificate alone names nobody, and clients without certificates do not authenticate so.
        (Some(b"one"), &[], "", Err(TokenError::NoClient)),
        (
            Some(b"one"),
            &[],
            "client_id=web",
            Err(TokenError::SecretRequired),
        ),
        (
            Some(b"one"),
            &[],
            "client_id=app",
            Err(TokenError::SecretRequired),
        ),
        // With a secret, the certificate only binds.
        (
            Some(b"two"),
            &[secret.as_str()],
            "",
            Ok(Proof::Secret(ClientSecret::of("secret"))),
        ),
    ] {
        let presented = over(der, headers, form).map(|presented| match presented {
            PresentedClient::Authenticated(_, proof) => proof,
            PresentedClient::Named(_) => panic!("{form}"),
        });
        assert_eq!(presented, proof, "{der:?} {form}");
    }
}

/// The verifier replaces a secret (D-25), not a certificate.
#[test]
fn a_client_with_certificates_always_authenticates() {
    let client = with_certificates("tls", &["secret"], &[b"one"]);
    assert!(!client.may_prove_by_verifier());
}
