//! Tests each profile with tokens from the vendor's documentation: the header, every claim, and the JWK. Access
//! tokens pass. ID tokens and refresh tokens are refused, even with the configured audience, which they should
//! never have.

use super::*;

const OURS: &str = "https://api.example.com";

struct Vendor {
    profile: &'static str,
    issuer: &'static str,
    /// `typ` of the vendor's tokens; `None` if absent.
    typ: Option<&'static str>,
    /// Members of the vendor's JWKs in addition to the key.
    jwk: Value,
}

impl Vendor {
    fn refusal(&self, claims: &Value) -> Option<Refusal> {
        self.refusal_of_typ(self.typ, claims)
    }

    /// Returns why a token with this `typ` and these claims, in addition to issuer and times, is refused.
    fn refusal_of_typ(&self, typ: Option<&str>, claims: &Value) -> Option<Refusal> {
        let signer = issuer(Algorithm::Rs256);
        let mut header = json!({"alg": "RS256", "kid": "vendor-1"});
        if let Some(typ) = typ {
            header["typ"] = json!(typ);
        }
        let mut body = json!({"iss": self.issuer, "iat": NOW, "exp": NOW + 3600});
        for (name, value) in claims.as_object().unwrap() {
            body = with(body, name, value.clone());
        }
        let token = signer.sign(&header.to_string(), &body.to_string());

        let mut jwk = signer.jwk("vendor-1");
        for name in ["alg", "use"] {
            jwk.as_object_mut().unwrap().remove(name);
        }
        jwk.as_object_mut()
            .unwrap()
            .extend(self.jwk.as_object().unwrap().clone());
        let keys = json!({"keys": [jwk]}).to_string();
        let algorithms = Algorithm::DEFAULT.into();
        let (keys, _) = KeySet::parse(keys.as_bytes(), &algorithms, &KeySet::default()).unwrap();
        let settings = json!({"issuer": self.issuer, "audiences": [OURS], "profile": self.profile});
        verify_under(&settings, &keys, &token, NOW).err()
    }

    #[track_caller]
    fn accepts(&self, claims: &Value) {
        assert_eq!(self.refusal(claims), None, "{claims}");
        let elsewhere = with(
            claims.clone(),
            "aud",
            json!("https://elsewhere.example.com"),
        );
        assert_eq!(self.refusal(&elsewhere), Some(Refusal::Audience));
    }

    /// Refused with its own audience and with the configured one.
    #[track_caller]
    fn refuses(&self, claims: &Value, why: Refusal) {
        for claims in [claims, &with(claims.clone(), "aud", json!(OURS))] {
            assert_eq!(self.refusal(claims), Some(why), "{claims}");
        }
    }
}

/// Keycloak 26: the payload has its own `typ`.
#[test]
fn keycloak() {
    let keycloak = Vendor {
        profile: "keycloak",
        issuer: "https://sso.example.com/realms/staff",
        typ: Some("JWT"),
        jwk: json!({"alg": "RS256", "use": "sig", "x5c": ["MIIC"], "x5t": "x", "x5t#S256": "x"}),
    };
    let person = json!({
        "auth_time": NOW, "jti": "onrtac:7c1e6a53", "aud": [OURS, "account"], "sub": "0d0b2a4e-67c5",
        "typ": "Bearer", "azp": "web", "sid": "5b1f", "acr": "1", "allowed-origins": ["https://app.example.com"],
        "realm_access": {"roles": ["offline_access", "uma_authorization"]},
        "resource_access": {"account": {"roles": ["view-profile"]}}, "scope": "openid email profile",
        "email_verified": true, "name": "Ada Lovelace", "preferred_username": "ada", "email": "ada@example.com",
    });
    let service = json!({
        "jti": "trrtcc:1", "aud": OURS, "sub": "5f7c", "typ": "Bearer", "azp": "batch", "acr": "1",
        "realm_access": {"roles": []}, "scope": "email profile", "email_verified": false, "clientHost": "10.0.0.1",
        "preferred_username": "service-account-batch", "clientAddress": "10.0.0.1", "client_id": "batch",
    });
    keycloak.accepts(&person);
    keycloak.accepts(&service);
    // Versions before 25 used this name for a session. From version 26 on, clients may request the `typ` of RFC
    // 9068.
    keycloak.accepts(&with(person.clone(), "session_state", json!("5b1f")));
    assert_eq!(keycloak.refusal_of_typ(Some("at+jwt"), &person), None);

    let id_token = json!({
        "auth_time": NOW, "jti": "1", "aud": "web", "sub": "0d0b2a4e-67c5", "typ": "ID", "azp": "web",
        "sid": "5b1f", "at_hash": "x", "acr": "1", "email_verified": true, "preferred_username": "ada",
    });
    keycloak.refuses(&id_token, Refusal::Kind);
    keycloak.refuses(&with(id_token, "at_hash", json!(null)), Refusal::Kind);
    // Keycloak signs these with HMAC unless a realm is configured otherwise.
    for typ in ["Refresh", "Offline"] {
        let refresh_token = json!({
            "jti": "2", "aud": "https://sso.example.com/realms/staff", "sub": "0d0b2a4e-67c5", "typ": typ,
            "azp": "web", "sid": "5b1f", "scope": "openid email profile",
        });
        keycloak.refuses(&refresh_token, Refusal::Kind);
    }
    let logout_token = json!({
        "jti": "3", "aud": "web", "sub": "0d0b2a4e-67c5", "typ": "Logout", "sid": "5b1f",
        "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
    });
    keycloak.refuses(&logout_token, Refusal::Kind);
    // What it issues to a client that sends a proof.
    let key = claims::Thumbprint::of(b"key").to_string();
    let bound = with(person, "cnf", json!({"jkt": key}));
    keycloak.accepts(&with(bound.clone(), "typ", json!("DPoP")));
    keycloak.refuses(&with(bound, "typ", json!("dpop")), Refusal::Kind);
}

/// Kubernetes 1.32: no `typ` in the header. Its API server issues no ID tokens and no refresh tokens.
#[test]
fn kubernetes() {
    let kubernetes = Vendor {
        profile: "kubernetes",
        issuer: "https://kubernetes.default.svc.cluster.local",
        typ: None,
        jwk: json!({"alg": "RS256", "use": "sig"}),
    };
    let of_pod = json!({
        "aud": [OURS], "jti": "aed34954-b33a", "nbf": NOW, "sub": "system:serviceaccount:shop:cart",
        "kubernetes.io": {
            "namespace": "shop",
            "node": {"name": "node-1", "uid": "646e7c5e"},
            "pod": {"name": "cart-0", "uid": "5e0bd49b"},
            "serviceaccount": {"name": "cart", "uid": "14ee3fa4"},
            "warnafter": NOW + 3607,
        },
    });
    kubernetes.accepts(&of_pod);
    // Before 1.32.
    kubernetes.accepts(&with(of_pod.clone(), "jti", json!(null)));
    // A token for the API server itself.
    let of_server = with(
        of_pod.clone(),
        "aud",
        json!(["https://kubernetes.default.svc.cluster.local"]),
    );
    assert_eq!(kubernetes.refusal(&of_server), Some(Refusal::Audience));
    // A token from a Secret never expires. It has another issuer, and its claims have other names.
    let of_secret = json!({
        "exp": null, "iat": null, "sub": "system:serviceaccount:shop:cart", "kubernetes.io/serviceaccount/namespace": "shop",
        "kubernetes.io/serviceaccount/secret.name": "cart-token", "kubernetes.io/serviceaccount/service-account.name": "cart",
    });
    kubernetes.refuses(&of_secret, Refusal::Kind);
    let mut unending = of_pod.clone();
    unending["exp"] = json!(null);
    assert_eq!(kubernetes.refusal(&unending), Some(Refusal::ExpiryMissing));
    assert_eq!(
        kubernetes.refusal_of_typ(Some("JWT"), &of_pod),
        Some(Refusal::Type)
    );
}

/// Auth0, with the token profile of Auth0. Its refresh tokens are not JWTs.
#[test]
fn auth0() {
    let auth0 = Vendor {
        profile: "auth0",
        issuer: "https://tenant.eu.auth0.com/",
        typ: Some("JWT"),
        jwk: json!({"alg": "RS256", "use": "sig", "x5c": ["MIID"], "x5t": "x"}),
    };
    let person = json!({
        "sub": "auth0|123456", "aud": [OURS, "https://tenant.eu.auth0.com/userinfo"], "azp": "my_client_id",
        "scope": "openid profile read:patients", "permissions": ["read:patients"],
        "https://example.com/claim": "of a rule",
    });
    let machine = json!({
        "sub": "my_client_id@clients", "aud": OURS, "azp": "my_client_id", "scope": "read:patients",
        "gty": "client-credentials",
    });
    auth0.accepts(&person);
    auth0.accepts(&machine);
    let id_token = json!({
        "nickname": "ada", "name": "ada@example.com", "picture": "https://s.gravatar.com/avatar/x",
        "updated_at": "2026-01-01T00:00:00.000Z", "email": "ada@example.com", "email_verified": true,
        "sub": "auth0|123456", "aud": "my_client_id", "sid": "x", "nonce": "n-1",
    });
    auth0.refuses(&id_token, Refusal::Kind);
    auth0.refuses(&with(id_token, "nonce", json!(null)), Refusal::Kind);
    let opaque = "v1.M0_q8V7c-dXbFjZr1kz4";
    let refusal = ParsedToken::parse(opaque, &[], &BTreeMap::new()).err();
    assert_eq!(refusal, Some(Refusal::Malformed));

    // The same API with the token profile of RFC 9068.
    let rfc9068 = Vendor {
        profile: "rfc9068",
        typ: Some("at+jwt"),
        ..auth0
    };
    let standard = with(
        with(person, "azp", json!(null)),
        "client_id",
        json!("my_client_id"),
    );
    rfc9068.accepts(&with(standard, "jti", json!("73WakrfVbNJBaAmhQtEeDv")));
}

/// Okta, a custom authorization server: no `typ` in the header. Its refresh tokens are not JWTs.
#[test]
fn okta() {
    let okta = Vendor {
        profile: "okta",
        issuer: "https://example.okta.com/oauth2/default",
        typ: None,
        jwk: json!({"alg": "RS256", "use": "sig"}),
    };
    let person = json!({
        "ver": 1, "jti": "AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE", "aud": OURS,
        "cid": "0oabucvyc38HLL1ef0h7", "uid": "00uefkmgvYCHsTuDf0h7", "scp": ["openid", "email"],
        "auth_time": NOW, "sub": "ada@example.com",
    });
    let service = json!({
        "ver": 1, "jti": "AT.1", "aud": OURS, "cid": "0oa1", "scp": ["items"], "sub": "0oa1",
    });
    okta.accepts(&person);
    okta.accepts(&service);
    let id_token = json!({
        "sub": "00uefkmgvYCHsTuDf0h7", "name": "Ada", "email": "ada@example.com", "ver": 1, "aud": "0oabucvyc38HLL1ef0h7",
        "jti": "ID.radCQMOQUmyv", "amr": ["pwd"], "idp": "00oeqkz2TQjlT0d7p0h7", "nonce": "n-1",
        "preferred_username": "ada@example.com", "auth_time": NOW, "at_hash": "x",
    });
    okta.refuses(&id_token, Refusal::Kind);
    let bare = with(with(id_token, "nonce", json!(null)), "at_hash", json!(null));
    okta.refuses(&bare, Refusal::Kind);
    assert_eq!(
        okta.refusal_of_typ(Some("JWT"), &person),
        Some(Refusal::Type)
    );
}

/// Microsoft Entra ID, version 2.0 tokens: keys without `alg`. Its refresh tokens are not JWTs.
#[test]
fn entra() {
    let entra = Vendor {
        profile: "entra",
        issuer: "https://login.microsoftonline.com/aaaabbbb-0000-cccc-1111-dddd2222eeee/v2.0",
        typ: Some("JWT"),
        jwk: json!({"use": "sig", "x5t": "x", "x5c": ["MIIC"], "cloud_instance_name": "microsoftonline.com"}),
    };
    let person = json!({
        "aud": OURS, "nbf": NOW, "aio": "x", "azp": "00001111-aaaa-2222-bbbb-3333cccc4444", "azpacr": "0",
        "name": "Ada Lovelace", "oid": "11112222-bbbb-3333", "preferred_username": "ada@example.com", "rh": "x",
        "scp": "access_as_user", "sid": "x", "sub": "HKZpfaHyWadeOouYlitjrI", "tid": "aaaabbbb-0000-cccc-1111-dddd2222eeee",
        "uti": "fqiBqXLPj0eQa82S", "ver": "2.0",
    });
    let application = json!({
        "aud": OURS, "nbf": NOW, "aio": "x", "azp": "00001111-aaaa-2222-bbbb-3333cccc4444", "azpacr": "1",
        "oid": "11112222-bbbb-3333", "rh": "x", "roles": ["Items.Read"], "sub": "11112222-bbbb-3333",
        "tid": "aaaabbbb-0000-cccc-1111-dddd2222eeee", "uti": "x", "ver": "2.0", "idtyp": "app",
    });
    entra.accepts(&person);
    entra.accepts(&application);
    let id_token = json!({
        "aud": "00001111-aaaa-2222-bbbb-3333cccc4444", "nbf": NOW, "aio": "x", "name": "Ada Lovelace", "nonce": "n-1",
        "oid": "11112222-bbbb-3333", "preferred_username": "ada@example.com", "rh": "x", "sub": "x",
        "tid": "aaaabbbb-0000-cccc-1111-dddd2222eeee", "uti": "x", "ver": "2.0",
    });
    entra.refuses(&id_token, Refusal::Kind);
    entra.refuses(&with(id_token, "nonce", json!(null)), Refusal::Kind);
    // Version 1.0 has the client id in `appid`.
    let version_1 = with(
        with(person.clone(), "azp", json!(null)),
        "appid",
        json!("00001111-aaaa"),
    );
    entra.refuses(&version_1, Refusal::Kind);
    // Tokens for Microsoft Graph have a nonce in the header, so that others cannot verify the signature, and
    // another audience.
    let graph = with(person, "aud", json!("https://graph.microsoft.com"));
    assert_eq!(entra.refusal(&graph), Some(Refusal::Audience));
}

/// Amazon Cognito: no `typ` in the header, and no `aud` unless the client names a resource. Its refresh tokens are
/// encrypted.
#[test]
fn cognito() {
    let cognito = Vendor {
        profile: "cognito",
        issuer: "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_example",
        typ: None,
        jwk: json!({"alg": "RS256", "use": "sig"}),
    };
    let person = json!({
        "sub": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "device_key": "x", "cognito:groups": ["admin"], "token_use": "access",
        "scope": "aws.cognito.signin.user.admin items/read", "auth_time": NOW, "version": 2, "jti": "dddd", "origin_jti": "aaaa",
        "event_id": "x", "client_id": OURS, "username": "ada",
    });
    let machine = json!({
        "sub": OURS, "token_use": "access", "scope": "items/read", "auth_time": NOW, "version": 2, "jti": "1", "client_id": OURS,
    });
    cognito.accepts(&person);
    cognito.accepts(&machine);
    cognito.accepts(&with(
        with(machine.clone(), "client_id", json!("x")),
        "aud",
        json!(OURS),
    ));
    let other_client = with(
        machine.clone(),
        "client_id",
        json!("57cbishk4j24pabc1234567890"),
    );
    assert_eq!(cognito.refusal(&other_client), Some(Refusal::Audience));
    let no_audience = with(machine, "aud", json!([]));
    assert_eq!(cognito.refusal(&no_audience), Some(Refusal::Audience));
    let id_token = json!({
        "sub": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "cognito:groups": ["admin"], "email_verified": true, "at_hash": "x",
        "cognito:username": "ada", "aud": OURS, "client_id": OURS, "event_id": "x", "token_use": "id", "auth_time": NOW,
        "jti": "2", "email": "ada@example.com",
    });
    cognito.refuses(&id_token, Refusal::Kind);
    cognito.refuses(&with(id_token, "at_hash", json!(null)), Refusal::Kind);
}

/// Each profile refuses the tokens that every profile must refuse.
#[test]
fn rfc9068_is_strict_about_typ() {
    let rfc9068 = Vendor {
        profile: "rfc9068",
        issuer: "https://as.example.com",
        typ: Some("at+jwt"),
        jwk: json!({"alg": "RS256", "use": "sig"}),
    };
    let access_token =
        json!({"aud": OURS, "sub": "ada", "client_id": "web", "jti": "1", "scope": "read"});
    rfc9068.accepts(&access_token);
    for typ in [
        None,
        Some("JWT"),
        Some("rt+jwt"),
        Some("logout+jwt"),
        Some("dpop+jwt"),
        Some("secevent+jwt"),
    ] {
        assert_eq!(
            rfc9068.refusal_of_typ(typ, &access_token),
            Some(Refusal::Type),
            "{typ:?}"
        );
    }
}
