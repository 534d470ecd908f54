//! Every grant, with everything that a client may show.

use serde_json::{Value, json};
use tests::Artifacts;

use super::{Shown, assert_gives, identity, key, pkce, shared};
use crate::support::{
    Assertion, Browser, CREDENTIALS, Client, INSTALLED, JWT_BEARER, OwnPair, Reply, USER_BOUND,
    WEB, answered,
};

/// The fields of a token request.
type Fields = Vec<(&'static str, String)>;

/// One client for each type, with these demands.
fn clients(own: &OwnPair, demands: &Value) -> [Client; 4] {
    let demo = Artifacts::find().unwrap().repository.join("demo");
    let pem = std::fs::read_to_string(demo.join("non-interactive-demo.cert.pem")).unwrap();
    [
        (
            "web_server",
            json!({"redirect_uris": ["https://app.example.com/callback"]}),
        ),
        (
            "installed",
            json!({"redirect_uris": ["http://127.0.0.1:8765/callback"]}),
        ),
        (
            "non_interactive",
            json!({"certificates": [{"alias": "demo-2020", "pem": pem}]}),
        ),
        ("user_bound", json!({"bound_user": "grace@example.com"})),
    ]
    .map(|(kind, mut members)| {
        let demands = demands.as_object().unwrap().clone();
        members.as_object_mut().unwrap().extend(demands);
        own.register(kind, members)
    })
}

/// RFC 9449 §5, §5.2, RFC 8705 §3, §3.4: what each grant gives. A client with demands gets nothing else by any grant.
#[test]
fn every_grant_binds_to_what_is_shown_and_to_what_is_demanded() {
    let pair = shared();
    let browser = Browser::new(&pair.own.lobby());
    let (key, certificate) = (key(), identity());
    let shown = [
        Shown::NOTHING,
        Shown::key(&key),
        Shown::certificate(&certificate),
        Shown::both(&key, &certificate),
    ];
    let (proof, over_tls) = ("invalid_dpop_proof", "invalid_request");
    for (by_key, by_certificate, outcomes) in [
        (false, false, ["bearer", "key", "bearer", "key"]),
        (true, false, [proof, "key", proof, "key"]),
        (false, true, [over_tls, over_tls, "certificate", "both"]),
        (true, true, [over_tls, over_tls, proof, "both"]),
    ] {
        let demands = json!({
            "dpop_bound_access_tokens": by_key,
            "tls_client_certificate_bound_access_tokens": by_certificate,
        });
        let [web, installed, machine, bound] = clients(&pair.own, &demands);
        // What shows no more than is demanded.
        let least = Shown {
            key: by_key.then_some(&key),
            certificate: by_certificate.then_some(&certificate),
        };
        let code = |client: &Client| -> Fields {
            let code = pair.code(&browser, client, &[]);
            let pkce = client.secret.is_none().then(pkce);
            let fields = client.exchange_fields(&code, pkce.as_ref()).into_iter();
            fields
                .map(|(name, value)| (name, value.to_owned()))
                .collect()
        };
        let refresh = |client: &Client| -> Fields {
            let tokens = pair.token(least, client, &borrowed(&code(client)));
            let token = tokens.text("refresh_token");
            vec![
                ("grant_type", "refresh_token".to_owned()),
                ("refresh_token", token),
            ]
        };
        let assertion = |client: &Client| -> Fields {
            let assertion = Assertion::of("ada@example.com").with("iss", json!(client.id));
            vec![
                ("grant_type", JWT_BEARER.to_owned()),
                ("assertion", assertion.sign()),
            ]
        };
        let credentials = |_: &Client| -> Fields {
            let fields = CREDENTIALS.into_iter();
            fields
                .map(|(name, value)| (name, value.to_owned()))
                .collect()
        };
        type Grant<'a> = (&'a Client, &'a dyn Fn(&Client) -> Fields);
        let grants: [Grant; 6] = [
            (&web, &code),
            (&web, &refresh),
            (&installed, &code),
            (&installed, &refresh),
            (&machine, &assertion),
            (&bound, &credentials),
        ];
        for (client, grant) in grants {
            // A refused request uses up neither code nor token nor assertion.
            let mut fields = grant(client);
            for (shown, outcome) in shown.into_iter().zip(outcomes) {
                let reply = pair.token(shown, client, &borrowed(&fields));
                assert_gives(&reply, outcome, shown);
                if reply.status == 200 {
                    fields = grant(client);
                }
            }
        }
        let tokens = pair.token(shown[3], &bound, &CREDENTIALS);
        let told = pair.introspect(shown[3], &bound, &tokens.text("access_token"));
        let [cnf, token_type] = ["cnf", "token_type"].map(|name| told.get(name).cloned());
        assert_eq!(cnf, shown[3].confirmation(outcomes[3]));
        assert_eq!(token_type, Some(json!("DPoP")));
    }
    let audit = pair.own.done("audit --action tokens_issued");
    let entry = format!("certificate {}", super::thumbprint(&certificate));
    assert!(audit.contains(&entry), "{audit}");
    for demand in ["dpop-bound", "certificate-bound"] {
        let update = format!("client update legacy-demo --{demand}");
        let refused = pair.own.failed(&update);
        assert!(refused.contains("legacy"), "{refused}");
    }
    // A client that has not authenticated learns nothing of its registration.
    let [web, _, _, bound] = clients(
        &pair.own,
        &json!({"tls_client_certificate_bound_access_tokens": true}),
    );
    for (client, grant_type) in [
        (bound, "client_credentials"),
        (bound, "authorization_code"),
        (web, "authorization_code"),
    ] {
        let nobody = Client {
            secret: None,
            ..client
        };
        let stranger = pair.token(Shown::NOTHING, &nobody, &[("grant_type", grant_type)]);
        stranger.assert_error(401, "invalid_client");
    }
}

fn borrowed(fields: &Fields) -> Vec<(&'static str, &str)> {
    let fields = fields.iter();
    fields.map(|(name, value)| (*name, &**value)).collect()
}

/// D-39, RFC 8705 §4: refresh tokens of public clients are bound, refresh tokens of other clients are not. Neither a repeated request nor a
/// token whose reuse would revoke the grant helps a thief.
#[test]
fn a_grant_is_refreshed_only_with_what_it_is_bound_to() {
    let pair = shared();
    let [key, another] = [(); 2].map(|()| key());
    let [own, other] = [(); 2].map(|()| identity());
    let by_certificate = json!({"tls_client_certificate_bound_access_tokens": true});
    let [_, public, ..] = clients(&pair.own, &json!({}));
    let [web, certified, ..] = clients(&pair.own, &by_certificate);
    let (stolen_key, stolen_certificate) = (Shown::both(&key, &other), Shown::both(&another, &own));
    for (client, owner, outcome, thieves) in [
        (
            public,
            Shown::key(&key),
            "key",
            &[Shown::NOTHING, Shown::key(&another)][..],
        ),
        (
            certified,
            Shown::certificate(&own),
            "certificate",
            &[Shown::certificate(&other)],
        ),
        (
            certified,
            Shown::both(&key, &own),
            "both",
            &[stolen_key, stolen_certificate, Shown::certificate(&own)],
        ),
    ] {
        let first = pair.tokens(owner, &client).text("refresh_token");
        let stolen = |token: &str| {
            for thief in thieves {
                let reply = pair.refresh(*thief, &client, token);
                assert_gives(&reply, "invalid_grant", *thief);
            }
        };
        stolen(&first);
        let refreshed = pair.refresh(owner, &client, &first);
        assert_gives(&refreshed, outcome, owner);
        stolen(&first);
        let repeated = pair.refresh(owner, &client, &first);
        assert_gives(&repeated, outcome, owner);
        let second = refreshed.text("refresh_token");
        assert_eq!(repeated.text("refresh_token"), second);
        stolen(&second);
        assert_gives(&pair.refresh(owner, &client, &second), outcome, owner);
    }
    // A grant keeps its binding when the client may do without.
    let bound = pair.tokens(Shown::certificate(&own), &certified);
    let bound = bound.text("refresh_token");
    let update = format!("client update {} --certificate-optional", certified.id);
    pair.own.done(&update);
    let elsewhere = pair.refresh(Shown::NOTHING, &certified, &bound);
    assert_gives(&elsewhere, "invalid_grant", Shown::NOTHING);
    let same = pair.refresh(Shown::certificate(&own), &certified, &bound);
    assert_gives(&same, "bearer", Shown::NOTHING);

    let first = pair.tokens(Shown::both(&key, &own), &web);
    let first = first.text("refresh_token");
    for shown in [
        Shown::both(&another, &other),
        Shown::certificate(&other),
        Shown::both(&key, &own),
    ] {
        let outcome = shown.key.map_or("certificate", |_| "both");
        assert_gives(&pair.refresh(shown, &web, &first), outcome, shown);
    }

    // The demand binds access tokens from now on, but a refresh does not bind a grant (D-50).
    let before = pair.tokens(Shown::NOTHING, &public).text("refresh_token");
    pair.own.done(&format!(
        "client update {} --dpop-bound --certificate-bound",
        public.id
    ));
    let one = Shown::both(&key, &own);
    let refreshed = pair.refresh(one, &public, &before);
    assert_gives(&refreshed, "both", one);
    let next = Shown::both(&another, &other);
    let refreshed = pair.refresh(next, &public, &refreshed.text("refresh_token"));
    assert_gives(&refreshed, "both", next);
    pair.own
        .done(&format!("client update {} --dpop-optional", public.id));
    let certificate = Shown::certificate(&own);
    let refreshed = pair.refresh(certificate, &public, &refreshed.text("refresh_token"));
    assert_gives(&refreshed, "certificate", certificate);
}

/// RFC 9449 §10. The refused request uses up neither the code nor its proof.
#[test]
fn rfc9449_s10_a_code_is_bound_to_the_key_of_its_request() {
    let pair = shared();
    let browser = Browser::new(&pair.own.lobby());
    let (mine, other) = (key(), key());
    let url = format!("{}/auth/token", pair.own.lobby());
    for client in [WEB, INSTALLED] {
        let code = pair.code(&browser, &client, &[("dpop_jkt", &mine.thumbprint())]);
        let none = pair.exchange(Shown::NOTHING, &client, &code);
        assert_gives(&none, "invalid_grant", Shown::NOTHING);
        let proof = [("dpop", other.prove("POST", &url, None).unwrap())];
        let pkce = client.secret.is_none().then(pkce);
        let fields = client.exchange_fields(&code, pkce.as_ref());
        let with = |client: &Client, fields: &[(&str, &str)]| -> Reply {
            pair.post_with(None, client, "/auth/token", fields, &proof)
        };
        assert_gives(&with(&client, &fields), "invalid_grant", Shown::NOTHING);
        assert_gives(&with(&USER_BOUND, &CREDENTIALS), "key", Shown::key(&other));
        let mine = Shown::key(&mine);
        assert_gives(&pair.exchange(mine, &client, &code), "key", mine);
    }
    let malformed = browser.authorize(&WEB.request(&[("dpop_jkt", "short")]));
    let error = answered(&malformed, WEB.redirect_uri, "error");
    assert_eq!(error.as_deref(), Some("invalid_request"));
}
