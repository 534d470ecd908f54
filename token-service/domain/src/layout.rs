//! The layout of a store's rows, on which services that share the store agree.

use std::fmt;

/// The layout in use decides what a service may write. A service reads every layout from [`Self::FIRST`] to
/// [`Self::NEWEST`].
///
/// Services of an earlier and of a later version may share a PostgreSQL store. The store has the layout of the earlier
/// version until an operator finishes the upgrade with `token-service migrate --finish`. Until then the later version
/// writes nothing that the earlier version cannot read. Afterwards the earlier version refuses the store.
///
/// A version that adds a field to a row, a code, a pushed request or a registration:
///
/// 1. adds a constant here, and makes it [`Self::NEWEST`].
/// 2. adds the field as an `Option`. In a compact row (`store/src/row.rs`), the field is the last one of the type, the
///    `VERSION` of the row rises by 1, and `version` returns the new number only if the field is `Some`. In a
///    registration (JSON), the field has `#[serde(default, skip_serializing_if = "Option::is_none")]`. An earlier
///    version would ignore the field, and lose the field at its next change of the registration.
/// 3. sets the field only if `Store::layout` has reached the constant. If a person asks for the field before, as in a
///    registration, the answer says that the upgrade has to be finished first. Metadata name a feature only from then on.
/// 4. adds a migration to redb (`store/src/redb/tables.rs`), which may be empty. One service uses a file, so the start
///    finishes the upgrade.
/// 5. extends `lab/src/soak/upgrade.rs`: the earlier version refuses the store after the finish.
///
/// A new variant of an enum in a row counts as a field. The actions of the audit log are an exception: an earlier version
/// logs that it passes over such an entry, and the entry stays.
///
/// A new table, index or nullable column of PostgreSQL needs no layout, because earlier versions do not notice it: add the
/// statement to the `ADDITIONS` of `store/src/postgres/schema.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layout(u32);

impl Layout {
    /// The layout of 0.3.0.
    pub const FIRST: Self = Self(1);
    pub const NEWEST: Self = Self::FIRST;
    /// A layout of a later version, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub const LATER: Self = Self(Self::NEWEST.0 + 1);

    pub const fn number(self) -> u32 {
        self.0
    }

    /// The layout with this number; `None` if this version does not know the layout.
    pub fn known(number: i64) -> Option<Self> {
        let known = i64::from(Self::FIRST.0)..=i64::from(Self::NEWEST.0);
        let number = u32::try_from(number).ok()?;
        known.contains(&number.into()).then_some(Self(number))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use claims::Thumbprint;
    use serde::Serialize;
    use serde_json::Value;

    use crate::certificate::Certificate;
    use crate::client::{Client, ClientSecret, ClientVersion, IntegrationType};
    use crate::client_key::{AssertionAudience, ClientKey, KeyAuthentication, VerifyingKey};
    use crate::clock::Timestamp;
    use crate::digest::Digest;
    use crate::redirect_uri::RedirectUriUse;
    use crate::testing::{account, client_id, identity, scope, username};
    use crate::{
        CredentialsVersion, LegacyInstance, LinkedIdentity, Managed, PasswordLink,
        RedirectUriPattern, SealedSigningKey, User,
    };

    /// Adds the members of a JSON row and of the objects in it.
    fn add_members(path: &str, value: &Value, members: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    let path = format!("{path}.{name}");
                    add_members(&path, value, members);
                    members.insert(path);
                }
            }
            Value::Array(values) => {
                for value in values {
                    add_members(path, value, members);
                }
            }
            _ => {}
        }
    }

    fn members<T: Serialize>(table: &str, rows: &[T]) -> BTreeSet<String> {
        let mut members = BTreeSet::new();
        for row in rows {
            let row = serde_json::to_value(row).unwrap();
            add_members(table, &row, &mut members);
        }
        members
    }

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn integrations() -> [IntegrationType; 5] {
        let secrets = || vec![ClientSecret::of("secret")];
        let uri = RedirectUriPattern::parse("https://app.example.com", RedirectUriUse::WebServer);
        let redirect_uris = vec![uri.unwrap()];
        [
            IntegrationType::WebServer {
                secrets: secrets(),
                redirect_uris: redirect_uris.clone(),
            },
            IntegrationType::Installed { redirect_uris },
            IntegrationType::NonInteractive {
                secrets: secrets(),
                certificates: vec![Certificate {
                    alias: "demo".to_owned(),
                    sha1_thumbprint: [1; 20],
                    sha256_thumbprint: Some(Thumbprint::from_bytes([1; 32])),
                    public_key_der: vec![1],
                    not_before: NOW,
                    not_after: NOW,
                    parsed: Default::default(),
                }],
                organization: Some("acme".to_owned()),
            },
            IntegrationType::UserBound {
                secrets: secrets(),
                bound_user: username("ada"),
            },
            IntegrationType::Legacy {
                secrets: secrets(),
                redirect_templates: vec!["https://legacy.example.com".to_owned()],
                hostname: Some("us1.example.com".to_owned()),
            },
        ]
    }

    fn managed() -> Managed {
        Managed {
            file: "registrations.toml".to_owned(),
            line: Some(1),
            disables: true,
            suspended: true,
            secrets: [("SECRET".to_owned(), "hash".to_owned())].into(),
        }
    }

    /// A client of each type, with every member.
    fn clients() -> [Client; 5] {
        integrations().map(|integration| Client {
            client_id: client_id("web"),
            name: "Web".to_owned(),
            home_url: Some("https://web.example.com".to_owned()),
            integration,
            key_authentication: KeyAuthentication {
                keys: vec![ClientKey {
                    kid: "one".to_owned(),
                    public_key: VerifyingKey::Ed25519([1; 32]),
                }],
                client_assertion_audience: Some(AssertionAudience::TokenEndpoint),
                tls_client_certificates: vec![Thumbprint::from_bytes([1; 32])],
            },
            require_pushed_authorization_requests: true,
            requires_second_factor: true,
            identity_providers: vec!["https://sso.example.com".to_owned()],
            scopes: scope("projects"),
            enabled: true,
            dpop_bound_access_tokens: true,
            tls_client_certificate_bound_access_tokens: true,
            managed: Some(managed()),
            version: ClientVersion::new(1),
            tokens_from: NOW,
        })
    }

    /// The members of all rows. Each row has every member.
    fn all_members() -> BTreeSet<String> {
        let user = User {
            username: username("ada"),
            email: Some("ada@example.com".to_owned()),
            password_hash: Some("hash".to_owned()),
            registered_password_digest: Some(Digest::of(b"hash")),
            totp_secret_sealed: Some(vec![1]),
            organization: Some("acme".to_owned()),
            single_sign_on: true,
            accounts: vec![account("1")],
            identities: vec![LinkedIdentity {
                identity: identity("1"),
                by_email: true,
            }],
            enabled: true,
            managed: Some(managed()),
            password_link: Some(PasswordLink {
                digest: Digest::of(b"link"),
                expires_at: NOW,
                rests_on: CredentialsVersion::new(1),
            }),
            must_change_password: true,
            credentials_version: CredentialsVersion::new(1),
            tokens_from: NOW,
            accounts_from: vec![(account("1"), NOW)],
            sign_ins_from: NOW,
        };
        let instance = LegacyInstance {
            hostname: "us1.example.com".to_owned(),
            auth_server_hostname: "sso.example.com".to_owned(),
            enabled: true,
            managed: Some(managed()),
        };
        let key = SealedSigningKey {
            kid: "one".to_owned(),
            algorithm: claims::Algorithm::Es256,
            sealed_pkcs8: vec![1],
            created_at: NOW,
            signs_from: NOW,
            number: 1,
            retired_at: Some(NOW),
        };
        let all = [
            members("clients", &clients()),
            members("users", &[user]),
            members("legacy_instances", &[instance]),
            members("signing_keys", &[key]),
        ];
        all.into_iter().flatten().collect()
    }

    /// An earlier version loses a member that it does not know when it changes the row. If this fails, do as [`Layout`]
    /// says.
    #[test]
    fn json_rows_have_the_members_of_their_layout() {
        let found = all_members();
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        let first: Vec<&str> = FIRST.split_whitespace().collect();
        assert_eq!(found, first, "a new member needs a layout: domain::Layout");
    }

    /// The members of [`Layout::FIRST`]. Until 0.3.0 is released, a member may join them whose loss does no harm.
    const FIRST: &str = "
        clients.bound_user clients.certificates clients.certificates.alias clients.certificates.not_after
        clients.certificates.not_before clients.certificates.public_key_der clients.certificates.sha1_thumbprint clients.certificates.sha256_thumbprint
        clients.client_assertion_audience clients.client_id clients.dpop_bound_access_tokens clients.enabled
        clients.home_url clients.hostname clients.identity_providers clients.keys clients.keys.kid clients.keys.public_key clients.managed
        clients.managed.disables clients.managed.file clients.managed.line
        clients.managed.secrets clients.managed.secrets.SECRET clients.managed.suspended clients.name
        clients.organization clients.redirect_templates clients.redirect_uris clients.redirect_uris.exact
        clients.require_pushed_authorization_requests clients.requires_second_factor clients.scopes clients.secrets
        clients.tls_client_certificate_bound_access_tokens clients.tls_client_certificates clients.tokens_from
        clients.type clients.version legacy_instances.auth_server_hostname legacy_instances.enabled
        legacy_instances.hostname legacy_instances.managed legacy_instances.managed.disables
        legacy_instances.managed.file legacy_instances.managed.line
        legacy_instances.managed.secrets legacy_instances.managed.secrets.SECRET legacy_instances.managed.suspended
        signing_keys.algorithm signing_keys.created_at signing_keys.kid signing_keys.number signing_keys.retired_at
        signing_keys.sealed_pkcs8 signing_keys.signs_from users.accounts users.accounts.site users.accounts.user_id
        users.accounts.username users.accounts_from users.accounts_from.site users.accounts_from.user_id users.accounts_from.username users.credentials_version users.email users.enabled users.identities
        users.identities.by_email users.identities.issuer users.identities.subject users.managed
        users.managed.disables users.managed.file users.managed.line users.managed.secrets
        users.managed.secrets.SECRET users.managed.suspended users.must_change_password users.organization users.password_hash
        users.password_link users.password_link.digest users.password_link.expires_at users.password_link.rests_on
        users.registered_password_digest users.sign_ins_from users.single_sign_on users.tokens_from users.totp_secret_sealed
        users.username";
}
