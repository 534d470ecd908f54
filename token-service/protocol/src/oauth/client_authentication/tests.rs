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
    let authentication = Authentication::read(&headers, &form)?;
    let found = authentication.client_ids().into_iter().find_map(|claimed| {
        let mut registered = registered.iter();
        registered.find(|client| client.client_id.as_str() == claimed.as_str())
    });
    let found = Arc::new(found.ok_or(TokenError::UnknownClient)?.clone());
    let now = Timestamp::from_seconds(1_800_000_000);
    authentication.check(found, certificate, &Settings::default(), now)
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
    let second = basic("web:second");
    for (header, form, client) in [
        (basic("web:first:+%41"), "", "web"),
        (basic("web:first%3A%2B%2541"), "", "web"),
        (second.clone(), "client_id=web", "web"),
        (second.replace("Basic", "bAsIc  "), "", "web"),
        (second.trim_end_matches('=').to_owned(), "", "web"),
        (basic("we%3Ab:secret"), "", "we:b"),
    ] {
        let authenticated = Ok((client.to_owned(), true));
        assert_eq!(outcome(&[&header], form), authenticated, "{header}");
    }
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
    let [good, wrong, empty] = ["web:second", "web:wrong", "web:"].map(basic);
    let [nobody, app, app_x, colonless] = ["nobody:second", "app:", "app:x", "web"].map(basic);
    use TokenError as E;
    for (headers, form, reason) in [
        (&[] as &[&str], "", E::NoClient),
        (&[], "client_id=", E::NoClient),
        (&[], "client_id=nobody", E::UnknownClient),
        (&[], "client_id=web&client_secret=second", E::SecretInBody),
        (&[&good], "client_secret=second", E::SeveralAuthentications),
        (&[&good, &good], "", E::SeveralAuthentications),
        (&[&good], "client_id=app", E::ClientIdDiffers),
        (&[&wrong], "", E::WrongSecret),
        (&[&empty], "", E::WrongSecret),
        (&[&nobody], "", E::UnknownClient),
        (&[&app], "", E::PublicClientInHeader),
        (&[&app_x], "client_id=app", E::PublicClientInHeader),
        (&[&colonless], "", E::BasicMalformed),
        (&["Basic"], "", E::BasicMalformed),
        (&["Basic !!!"], "", E::BasicMalformed),
        (&["Basic /w=="], "", E::BasicMalformed),
        (&["Bearer abc"], "", E::BasicMalformed),
    ] {
        assert_eq!(outcome(headers, form), Err(reason), "{headers:?} {form}");
    }
    // The header {"alg":"none"}, the claims {"iss":"web","sub":"web"}.
    let assertion = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJ3ZWIiLCJzdWIiOiJ3ZWIifQ.AA";
    use AssertionError::{ClientIdDiffers, UnknownClient};
    for (named, reason) in [("web", UnknownClient), ("app", ClientIdDiffers)] {
        let form = format!(
            "client_id={named}&client_assertion_type={}&client_assertion={assertion}",
            client::TYPE
        );
        assert_eq!(outcome(&[], &form), Err(E::ClientAssertion(reason)));
    }
}

#[test]
fn rfc8705_s2_2_one_of_the_registered_certificates_authenticates() {
    let over = |der: Option<&[u8]>, headers: &[&str], form| {
        let presented = authenticate_over(der.map(Thumbprint::of), headers, form)?;
        presented.authenticated().map(|_| presented.clone())
    };
    let secret = basic("both:secret");
    let [one, two, three] = [b"one".as_slice(), b"two", b"three"].map(Some);
    use TokenError as E;
    for (der, headers, form, proof) in [
        (one, &[][..], "client_id=tls", Ok(ProvenBy::Certificate)),
        (two, &[], "client_id=tls", Ok(ProvenBy::Certificate)),
        (one, &[], "client_id=both", Ok(ProvenBy::Certificate)),
        (three, &[], "client_id=tls", Err(E::CertificateOther)),
        (two, &[], "client_id=both", Err(E::CertificateOther)),
        (None, &[], "client_id=tls", Err(E::CertificateRequired)),
        (None, &[], "client_id=both", Err(E::SecretRequired)),
        // A certificate does not name a client, and clients without certificates do not authenticate so.
        (one, &[], "", Err(E::NoClient)),
        (one, &[], "client_id=web", Err(E::SecretRequired)),
        (one, &[], "client_id=app", Err(E::SecretRequired)),
        // With a secret, the certificate only binds.
        (
            two,
            &[secret.as_str()],
            "",
            Ok(ProvenBy::Secret(ClientSecret::of("secret"))),
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
