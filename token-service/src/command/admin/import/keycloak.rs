//! Realms as Keycloak exports them (`RealmRepresentation` of its documentation), read one client or user at a time.

use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::Context as _;
use claims::json::BYTE_ORDER_MARK;
use data_encoding::BASE32_NOPAD;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value, json};

use super::{Import, has_password};
use domain::Scope;
use domain::redirect_uri::{RedirectUriPattern, RedirectUriUse};

type Object = Map<String, Value>;

/// The clients that every realm has, for Keycloak itself.
const OWN_CLIENTS: [&str; 6] = [
    "account",
    "account-console",
    "admin-cli",
    "broker",
    "realm-management",
    "security-admin-console",
];

/// The scopes that every realm has: they choose claims, which tokens of this service have anyway or never.
const OWN_SCOPES: [&str; 13] = [
    "acr",
    "address",
    "basic",
    "email",
    "microprofile-jwt",
    "offline_access",
    "openid",
    "organization",
    "phone",
    "profile",
    "roles",
    "service_account",
    "web-origins",
];

/// Members that [`client`] and [`user`] read, and members that say nothing outside of Keycloak.
const CLIENT_MEMBERS: &str = "access bearerOnly clientAuthenticatorType clientId defaultClientScopes \
    directAccessGrantsEnabled enabled fullScopeAllowed id implicitFlowEnabled name \
    nodeReRegistrationTimeout notBefore optionalClientScopes protocol publicClient redirectUris \
    rootUrl secret serviceAccountsEnabled standardFlowEnabled surrogateAuthRequired";
const USER_MEMBERS: &str = "access createdTimestamp credentials disableableCredentialTypes email enabled id notBefore \
    requiredActions serviceAccountClientId federatedIdentities totp username";

const NO_ROLES: &str = "this service has scopes of clients and no roles";
const PASSWORDS: &str = "people sign in with a password";

/// Why members are left out. All others have no equivalent.
const REASONS: [(&str, &str); 15] = [
    (
        "attributes",
        "none here; pages have the language of the browser",
    ),
    ("authorizationSettings", "the resource server decides"),
    ("clientRoles", NO_ROLES),
    (
        "consentRequired",
        "pages ask where an app could be forged (D-34)",
    ),
    (
        "emailVerified",
        "links by mail go to the address, verified or not",
    ),
    ("federatedUsers", PASSWORDS),
    (
        "federationLink",
        "the password is at a directory; set one here",
    ),
    ("groups", "this service has no groups"),
    (
        "identityProviders",
        "configure them as [[identity_providers]]",
    ),
    (
        "protocolMappers",
        "docs/protocol/api.md has the claims of tokens",
    ),
    ("realmRoles", NO_ROLES),
    (
        "requiredActions",
        "only UPDATE_PASSWORD is imported, as must_change_password",
    ),
    ("roles", NO_ROLES),
    ("scopeMappings", NO_ROLES),
    ("webOrigins", "origins of redirect URIs count"),
];

/// What the export does not say.
#[derive(Clone, Copy)]
pub(super) struct Given<'g> {
    /// The site of the users' accounts.
    pub(super) site: Option<&'g str>,
    /// The issuers of identity providers, each behind the alias in the realm.
    pub(super) issuers: &'g [(String, String)],
}

/// Reads the export at `path`.
///
/// # Errors
/// If the file is not an export, or the service cannot be asked.
pub(super) fn read(path: &Path, given: Given<'_>, import: &mut Import<'_>) -> anyhow::Result<()> {
    let name = path.display();
    let file = File::open(path).with_context(|| name.to_string())?;
    let mut file = BufReader::new(file);
    let mark = BYTE_ORDER_MARK.as_bytes();
    if file.fill_buf().is_ok_and(|start| start.starts_with(mark)) {
        file.consume(mark.len());
    }
    let mut json = serde_json::Deserializer::from_reader(file);
    let mut failure = None;
    let mut realm = Realm {
        given,
        import,
        failure: &mut failure,
        settings: Vec::new(),
    };
    let read = (&mut realm).deserialize(&mut json);
    let settings = realm.settings.join(", ");
    // A failed request ends the reading of the file.
    if let Some(failure) = failure {
        return Err(failure);
    }
    read.and_then(|()| json.end())
        .with_context(|| format!("{name} is not an export of a realm"))?;
    if !settings.is_empty() {
        import.report.note(format_args!(
            "settings of the realm are not imported, see docs/configuration.md: {settings}"
        ));
    }
    Ok(())
}

struct Realm<'r, 'i> {
    given: Given<'r>,
    import: &'r mut Import<'i>,
    failure: &'r mut Option<anyhow::Error>,
    /// Settings of the realm that have a value.
    settings: Vec<String>,
}

impl<'de> DeserializeSeed<'de> for &mut Realm<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Realm<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the object of one realm")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut realm: A) -> Result<(), A::Error> {
        while let Some(key) = realm.next_key::<String>()? {
            let (given, import, failure) = (self.given, &mut *self.import, &mut *self.failure);
            match key.as_str() {
                "users" => realm.next_value_seed(Each {
                    failure,
                    each: |user| self::user(user, given, import),
                })?,
                "clients" => realm.next_value_seed(Each {
                    failure,
                    each: |client| self::client(client, import),
                })?,
                "federatedUsers" => realm.next_value_seed(Each {
                    failure,
                    each: |_| {
                        leave_out("the realm", "federatedUsers", import);
                        Ok(())
                    },
                })?,
                "id" | "realm" | "enabled" => drop(realm.next_value::<IgnoredAny>()?),
                key => {
                    let value: Value = realm.next_value()?;
                    if REASONS.iter().any(|(known, _)| *known == key) && has_value(&value) {
                        leave_out("the realm", key, import);
                    } else if has_value(&value) {
                        self.settings.push(key.to_owned());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Passes each object of a list to the function, until it fails.
struct Each<'f, F> {
    failure: &'f mut Option<anyhow::Error>,
    each: F,
}

impl<'de, F: FnMut(Object) -> anyhow::Result<()>> DeserializeSeed<'de> for Each<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(Object) -> anyhow::Result<()>> Visitor<'de> for Each<'_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(object) = list.next_element()? {
            (self.each)(object).map_err(|failure| {
                *self.failure = Some(failure);
                A::Error::custom("stopped")
            })?;
        }
        Ok(())
    }
}

fn has_value(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => members.values().any(has_value),
    }
}

fn leave_out(of: &str, member: &str, import: &mut Import<'_>) {
    let reason = REASONS.iter().find(|(known, _)| *known == member);
    let reason = reason.map_or("no equivalent", |(_, reason)| *reason);
    import.count(format!("not imported: {member} of {of}"), reason);
}

fn leave_out_others(of: &str, object: &Object, read: &str, import: &mut Import<'_>) {
    for (member, value) in object {
        if read.split(' ').all(|known| known != member) && has_value(value) {
            leave_out(of, member, import);
        }
    }
}

fn text<'o>(object: &'o Object, key: &str) -> Option<&'o str> {
    object.get(key)?.as_str()
}

fn flag(object: &Object, key: &str, default: bool) -> bool {
    object.get(key).and_then(Value::as_bool).unwrap_or(default)
}

fn texts<'o>(object: &'o Object, key: &str) -> impl Iterator<Item = &'o str> {
    let list = object.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

fn client(client: Object, import: &mut Import<'_>) -> anyhow::Result<()> {
    let id = text(&client, "clientId").unwrap_or_default();
    let report = import.report;
    let say = |what: fmt::Arguments<'_>| report.left_out(format_args!("client {id}{what}"));
    let is_public = flag(&client, "publicClient", false);
    let secret = text(&client, "secret").unwrap_or_default();
    let method = text(&client, "clientAuthenticatorType").unwrap_or("client-secret");
    let masked = !secret.is_empty() && secret.bytes().all(|byte| byte == b'*');
    if OWN_CLIENTS.contains(&id) {
        import.clients.counts.read += 1;
        import.clients.counts.not_imported += 1;
        report.note(format_args!(
            "client {id} is not imported: a client of Keycloak itself"
        ));
        return Ok(());
    }
    let reasons = [
        (
            text(&client, "protocol").is_some_and(|protocol| protocol != "openid-connect"),
            "it does not use OpenID Connect",
        ),
        (
            flag(&client, "bearerOnly", false),
            "a resource server needs no registration; set up the guard in front of it",
        ),
        (
            !flag(&client, "standardFlowEnabled", true),
            "it does not use the authorization code; register a `user_bound` or `non_interactive` client in its place",
        ),
        (
            !is_public && method != "client-secret",
            "it does not authenticate with a client secret",
        ),
        (
            !is_public && masked,
            "the export masks its secret; export with `kc.sh export`, which does not",
        ),
    ];
    if let Some((_, reason)) = reasons.into_iter().find(|(is_unfit, _)| *is_unfit) {
        import.clients.counts.read += 1;
        import
            .clients
            .refuse(&format!("client {id}"), reason, report);
        return Ok(());
    }
    for (key, why) in [
        (
            "implicitFlowEnabled",
            "the implicit flow, which RFC 9700 §2.1.2 advises against",
        ),
        (
            "directAccessGrantsEnabled",
            "direct grants: people type passwords only at the sign-in page (RFC 9700 §2.4)",
        ),
        (
            "serviceAccountsEnabled",
            "its service account: register a `user_bound` client for it",
        ),
    ] {
        if flag(&client, key, false) {
            say(format_args!(" comes without {why}"));
        }
    }
    let (kind, use_) = match is_public {
        true => ("installed", RedirectUriUse::Installed),
        false => ("web_server", RedirectUriUse::WebServer),
    };
    if is_public {
        import.count(
            "clients without a secret",
            "they must send a code_challenge (PKCE, S256)",
        );
    }
    let root = text(&client, "rootUrl").unwrap_or_default();
    let mut redirect_uris = Vec::new();
    for uri in texts(&client, "redirectUris") {
        let uri = match uri.starts_with('/') {
            true => format!("{}{uri}", root.trim_end_matches('/')),
            false => uri.to_owned(),
        };
        let problem = match RedirectUriPattern::parse(&uri, use_) {
            _ if uri.ends_with('*') => "register each URI in full".to_owned(),
            Err(error) => error.to_string(),
            Ok(_) => {
                redirect_uris.push(uri);
                continue;
            }
        };
        say(format_args!(
            " comes without the redirect URI {uri}: {problem}"
        ));
    }
    let scopes = ["defaultClientScopes", "optionalClientScopes"];
    let scopes = scopes.into_iter().flat_map(|key| texts(&client, key));
    let (own, mut scopes): (Vec<&str>, Vec<&str>) =
        scopes.partition(|scope| OWN_SCOPES.contains(scope));
    scopes.retain(|scope| {
        let is_token = !scope.contains(' ') && Scope::parse(scope).is_some();
        if !is_token {
            say(format_args!(
                " comes without the scope {scope:?}: it is not a scope token (RFC 6749 §3.3)"
            ));
        }
        is_token
    });
    if !own.is_empty() {
        import.count(
            "not imported: scopes of Keycloak itself, such as profile, of clients",
            "they choose claims there",
        );
    }
    leave_out_others("clients", &client, CLIENT_MEMBERS, import);
    let mut entry = json!({
        "client_id": id,
        "type": kind,
        "enabled": flag(&client, "enabled", true),
        "redirect_uris": redirect_uris,
        "scopes": scopes,
    });
    if !is_public {
        entry["client_secret"] = secret.into();
    }
    // Names may be keys of translations, such as ${client_account}.
    if let Some(name) =
        text(&client, "name").filter(|name| !name.is_empty() && !name.starts_with("${"))
    {
        entry["name"] = name.into();
    }
    match entry {
        Value::Object(entry) => import.client(entry),
        _ => Ok(()),
    }
}

fn user(user: Object, given: Given<'_>, import: &mut Import<'_>) -> anyhow::Result<()> {
    let name = text(&user, "username").unwrap_or_default();
    let report = import.report;
    let say = |what: fmt::Arguments<'_>| report.left_out(format_args!("user {name}{what}"));
    if text(&user, "serviceAccountClientId").is_some() {
        import.users.counts.read += 1;
        import
            .users
            .refuse(&format!("user {name}"), "a service account", report);
        return Ok(());
    }
    let mut entry = Object::new();
    let mut put = |key: &str, value: Value| {
        let is_new = !entry.contains_key(key);
        entry.entry(key).or_insert(value);
        is_new
    };
    put("username", name.into());
    // Keycloak disables users without this member.
    put("enabled", flag(&user, "enabled", false).into());
    if let Some(email) = text(&user, "email").filter(|email| !email.is_empty()) {
        put("email", email.into());
    }
    match (given.site, text(&user, "id")) {
        (Some(site), Some(id)) => {
            put(
                "accounts",
                json!([{ "user_id": id, "username": name, "site": site }]),
            );
        }
        (Some(_), None) => say(format_args!(
            " comes without an account: the export has no id"
        )),
        (None, _) => import.count(
            "users without an account",
            "every token needs one: add accounts, or import with --site",
        ),
    }
    let federated = user.get("federatedIdentities").and_then(Value::as_array);
    let mut identities = Vec::new();
    for identity in federated.into_iter().flatten().filter_map(Value::as_object) {
        let alias = text(identity, "identityProvider").unwrap_or_default();
        let known = given.issuers.iter().find(|(known, _)| known == alias);
        match (known, text(identity, "userId")) {
            (Some((_, issuer)), Some(subject)) => {
                identities.push(json!({ "issuer": issuer, "subject": subject }));
            }
            _ => import.count(
                format!("not imported: identities of users at the identity provider {alias}"),
                "name its issuer with --identity-provider ALIAS=ISSUER",
            ),
        }
    }
    if !identities.is_empty() {
        put("identities", identities.into());
    }
    let credentials = user.get("credentials").and_then(Value::as_array);
    for credential in credentials
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
    {
        let kind = text(credential, "type").unwrap_or_default();
        let taken = match (kind, text(credential, "value")) {
            ("password", Some(password)) => Ok(("password", password.into())),
            ("password", None) => {
                let parts = ["credentialData", "secretData"];
                let parts = parts.map(|key| (key, text(credential, key).unwrap_or_default()));
                let hash = parts
                    .into_iter()
                    .collect::<std::collections::BTreeMap<_, _>>();
                Ok(("password_hash", json!(hash).to_string().into()))
            }
            ("otp", _) => totp_secret(credential).map(|secret| ("totp_secret", secret.into())),
            _ => Err("no equivalent"),
        };
        match taken {
            Ok((key, value)) => {
                if !put(key, value) {
                    say(format_args!(" comes without a further credential {kind}"));
                }
            }
            Err(why) => say(format_args!(" comes without the credential {kind}: {why}")),
        }
    }
    let is_asked = texts(&user, "requiredActions").any(|action| action == "UPDATE_PASSWORD");
    let is_temporary = (credentials.into_iter().flatten())
        .filter_map(Value::as_object)
        .any(|credential| flag(credential, "temporary", false));
    if is_asked || is_temporary {
        put("must_change_password", true.into());
    }
    // Whoever has no name is not imported.
    if !name.is_empty() && !has_password(&entry) {
        let has = |key| user.get(key).is_some_and(has_value);
        let has_passkey = (credentials.into_iter().flatten()).any(|credential| {
            let kind = credential.get("type").and_then(Value::as_str);
            kind.is_some_and(|kind| kind.starts_with("webauthn"))
        });
        let why = match () {
            () if has_passkey => "the passkey is not imported",
            () if has("federatedIdentities") => {
                "the issuer of the identity provider is not given (--identity-provider ALIAS=ISSUER)"
            }
            () if has("federationLink") => "the password is at a directory",
            () => "the export has no password",
        };
        report.locked_out(name, format_args!("{why}; "));
    }
    if texts(&user, "requiredActions").any(|action| action != "UPDATE_PASSWORD") {
        leave_out("users", "requiredActions", import);
    }
    leave_out_others("users", &user, USER_MEMBERS, import);
    import.user(entry)
}

/// The secret of an authenticator app, in BASE32.
fn totp_secret(credential: &Object) -> Result<String, &'static str> {
    let part = |key: &str| -> Option<Value> { serde_json::from_str(text(credential, key)?).ok() };
    let (Some(data), Some(secret)) = (part("credentialData"), part("secretData")) else {
        return Err("credentialData or secretData is missing");
    };
    let is = |key: &str, expected: Value| data.get(key).is_none_or(|value| *value == expected);
    let fits = is("subType", "totp".into())
        && is("digits", 6.into())
        && is("period", 30.into())
        && is("algorithm", "HmacSHA1".into());
    if !fits {
        return Err(
            "codes have 6 digits and change every 30 seconds (TOTP, SHA-1); set up an app again",
        );
    }
    let secret = secret
        .get("value")
        .and_then(Value::as_str)
        .ok_or("the secret is missing")?;
    match data.get("secretEncoding").and_then(Value::as_str) {
        Some(_) => Ok(secret.to_owned()),
        // The characters are the secret.
        None => Ok(BASE32_NOPAD.encode(secret.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_ends_the_reading_and_is_kept() {
        let mut failure = None;
        let mut seen = 0;
        let each = |_| {
            seen += 1;
            anyhow::ensure!(seen < 2, "the service is gone");
            Ok(())
        };
        let each = Each {
            failure: &mut failure,
            each,
        };
        let mut json = serde_json::Deserializer::from_str("[{}, {}, {}]");
        assert!(each.deserialize(&mut json).is_err());
        let failure = failure.map(|failure| failure.to_string());
        assert_eq!((seen, failure.as_deref()), (2, Some("the service is gone")));
    }
}
