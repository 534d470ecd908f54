//! `[[clients]]` and `[[clients.certificates]]`.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER_PERMISSIVE;

use super::fields::{MAX_SECRET_LENGTH, claim_text, display_name, required_texts, unique};
use super::{Completeness, Names};
use document::{Located, Place, Problems, Section};
use domain::certificate::{Certificate, CertificateState};
use domain::client::{Client, ClientId, ClientSecret, IntegrationType};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::redirect_template::RedirectTemplate;
use domain::redirect_uri::{RedirectUriPattern, RedirectUriUse};
use domain::scope::Scope;
use domain::user::Username;

/// Length of a client secret, in bytes. A shorter one may be guessed.
const SECRET_LENGTH: std::ops::RangeInclusive<usize> = 32..=MAX_SECRET_LENGTH;

/// The `type` of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    WebServer,
    Installed,
    NonInteractive,
    UserBound,
    Legacy,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::WebServer,
        Self::Installed,
        Self::NonInteractive,
        Self::UserBound,
        Self::Legacy,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::WebServer => "web_server",
            Self::Installed => "installed",
            Self::NonInteractive => "non_interactive",
            Self::UserBound => "user_bound",
            Self::Legacy => "legacy",
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == text);
        kind.ok_or_else(|| format!("expected one of {}", Self::ALL.map(Self::name).join(", ")))
    }

    /// Keys that only some types have, each with whether this type has it.
    const fn keys(self) -> [(&'static str, bool); 7] {
        let secret = !matches!(self, Self::Installed);
        [
            ("client_secret", secret),
            ("client_secret_sha256", secret),
            (
                "redirect_uris",
                matches!(self, Self::WebServer | Self::Installed | Self::Legacy),
            ),
            ("certificates", matches!(self, Self::NonInteractive)),
            ("organization", matches!(self, Self::NonInteractive)),
            ("bound_user", matches!(self, Self::UserBound)),
            ("hostname", matches!(self, Self::Legacy)),
        ]
    }
}

/// Reads one client after the other.
pub(super) struct Reader<'a> {
    pub(super) now: Timestamp,
    pub(super) completeness: Completeness,
    pub(super) warnings: &'a Problems,
    pub(super) names: &'a mut Names,
}

impl Reader<'_> {
    pub(super) fn read(&mut self, mut section: Section<'_>) -> Option<Client> {
        let client_id = self.client_id(&mut section);
        let name = section.parsed("name", display_name).map(|name| name.value);
        let scopes = scopes(&mut section);
        let enabled = section.flag("enabled").is_none_or(|flag| flag.value);
        section.required("type");
        let kind = section.parsed("type", Kind::parse).map(|kind| kind.value);
        let integration = match kind {
            Some(kind) => self.integration(&mut section, kind),
            None => {
                for (key, _) in Kind::Legacy.keys() {
                    section.skip(key);
                }
                None
            }
        };
        section.finish();
        let client_id = client_id?;
        Some(Client {
            name: name.unwrap_or_else(|| client_id.to_string()),
            client_id,
            integration: integration?,
            scopes: scopes?,
            enabled,
        })
    }

    fn client_id(&mut self, section: &mut Section<'_>) -> Option<ClientId> {
        let text = section.required_text("client_id")?;
        unique(section, "client_id", &text, &mut self.names.client_ids);
        let client_id = ClientId::parse(&text.value);
        if client_id.is_none() {
            let message = "client_id: must have 1 to 128 printable ASCII characters and no space";
            section.report(&text.place, message);
        }
        if text.value.contains(':') {
            let message = "client_id: must not have a colon, at which Basic splits client_id and client_secret";
            section.report(&text.place, message);
        }
        client_id
    }

    fn integration(&mut self, section: &mut Section<'_>, kind: Kind) -> Option<IntegrationType> {
        for (key, allowed) in kind.keys() {
            if !allowed {
                section.refuse(key, &format!("not for a client of type {}", kind.name()));
            }
        }
        // Everything is read before the first `?`, so that every problem is found.
        Some(match kind {
            Kind::WebServer => {
                let secrets = self.required_secret(section);
                let redirect_uris = self.redirect_uris(section, RedirectUriUse::WebServer);
                IntegrationType::WebServer {
                    secrets: secrets?,
                    redirect_uris: redirect_uris?,
                }
            }
            Kind::Installed => IntegrationType::Installed {
                redirect_uris: self.redirect_uris(section, RedirectUriUse::Installed)?,
            },
            Kind::NonInteractive => {
                let secrets = self.required_secret(section);
                let certificates = self.certificates(section);
                let organization = section.parsed("organization", claim_text);
                IntegrationType::NonInteractive {
                    secrets: secrets?,
                    certificates,
                    organization: organization.map(|organization| organization.value),
                }
            }
            Kind::UserBound => {
                let secrets = self.required_secret(section);
                let mut bound_user = section.required_text("bound_user")?;
                let username = Username::parse(&bound_user.value);
                if let Some(username) = &username {
                    bound_user.value = username.to_string();
                }
                self.names.bound_users.push(bound_user);
                IntegrationType::UserBound {
                    secrets: secrets?,
                    // A text that is no username is no user either, which is reported with the others.
                    bound_user: username?,
                }
            }
            Kind::Legacy => {
                let secret = self.secret(section);
                let hostname = section.text("hostname");
                IntegrationType::Legacy {
                    secrets: secret.into_iter().collect(),
                    redirect_templates: redirect_templates(section)?,
                    hostname: hostname.map(|hostname| hostname.value),
                }
            }
        })
    }

    /// The secrets that the registration gives: one, or none where it need not be whole.
    fn required_secret(&self, section: &mut Section<'_>) -> Option<Vec<ClientSecret>> {
        if !section.has("client_secret") && !section.has("client_secret_sha256") {
            if self.completeness == Completeness::Partial {
                return Some(Vec::new());
            }
            section.report(
                section.place(),
                "client_secret or client_secret_sha256 is missing",
            );
        }
        self.secret(section).map(|secret| vec![secret])
    }

    fn secret(&self, section: &mut Section<'_>) -> Option<ClientSecret> {
        let secret = section.parsed("client_secret", |text| {
            let printable = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
            if !printable {
                return Err("must be printable ASCII (RFC 6749 §A.2)".to_owned());
            }
            if !SECRET_LENGTH.contains(&text.len()) {
                let (least, most) = (SECRET_LENGTH.start(), SECRET_LENGTH.end());
                return Err(format!(
                    "must have {least} to {most} bytes, because shorter secrets can be guessed; \
                     `openssl rand -base64 32` generates a secret"
                ));
            }
            Ok(ClientSecret::of(text))
        });
        let digest = section.parsed("client_secret_sha256", |text| {
            sha256(text).map(ClientSecret::from_digest)
        });
        match (secret, digest) {
            (Some(secret), None) => Some(secret.value),
            (None, digest) => digest.map(|digest| digest.value),
            (Some(_), Some(digest)) => {
                let message =
                    "client_secret_sha256: client_secret is there too; keep one of the two";
                section.report(&digest.place, message);
                None
            }
        }
    }

    fn redirect_uris(
        &self,
        section: &mut Section<'_>,
        use_: RedirectUriUse,
    ) -> Option<Vec<RedirectUriPattern>> {
        let texts = required_texts(section, "redirect_uris")?;
        let mut patterns = Vec::new();
        for Located { value, place } in texts {
            match RedirectUriPattern::parse(&value, use_) {
                Ok(pattern) => {
                    // protocol.md §5.5 allows any scheme; RFC 8252 §7.1 asks for a domain's.
                    let scheme = value.split(':').next().unwrap_or_default();
                    if !scheme.contains('.') && !matches!(scheme, "http" | "https") {
                        let message = format!(
                            "redirect_uris: another app may claim {scheme}: too; a scheme that is a domain of \
                             yours in reverse, such as com.example.app:, is safer (RFC 8252 §7.1)"
                        );
                        self.warnings.report(&place, message);
                    }
                    patterns.push(pattern);
                }
                Err(error) => section.report(&place, format!("redirect_uris: {value}: {error}")),
            }
        }
        Some(patterns)
    }

    fn certificates(&self, section: &mut Section<'_>) -> Vec<Certificate> {
        if self.completeness == Completeness::Whole {
            section.required("certificates");
        }
        let listed = section.has("certificates");
        let mut aliases = BTreeMap::new();
        let mut thumbprints = BTreeMap::new();
        let mut certificates = Vec::new();
        let sections = section.sections("certificates");
        if listed && sections.is_empty() {
            section.report(section.place(), "certificates: at least one is needed");
        }
        for mut section in sections {
            let alias = section.required_text("alias");
            if let Some(alias) = &alias {
                unique(&section, "alias", alias, &mut aliases);
            }
            let pem = pem(&mut section);
            if let (Some(alias), Some((key, pem))) = (alias, pem) {
                match Certificate::read(&alias.value, &pem.value) {
                    Ok(certificate) => {
                        let x5t = Located {
                            value: certificate.x5t(),
                            place: pem.place,
                        };
                        unique(
                            &section,
                            "certificate with the thumbprint",
                            &x5t,
                            &mut thumbprints,
                        );
                        self.warn_of_validity(&certificate, &x5t.place);
                        certificates.push(certificate);
                    }
                    Err(error) => section.report(&pem.place, format!("{key}: {error}")),
                }
            }
            section.finish();
        }
        certificates
    }

    /// Only a warning: the clock may be wrong, and a certificate may be registered ahead of its time. Its use
    /// is refused (D-10).
    fn warn_of_validity(&self, certificate: &Certificate, place: &Place) {
        let alias = &certificate.alias;
        let message = match certificate.state(self.now) {
            CertificateState::Valid => return,
            CertificateState::Expired => format!(
                "the certificate {alias} has expired; assertions signed with it are refused"
            ),
            CertificateState::ExpiresSoon => {
                format!("the certificate {alias} expires within 30 days; register its successor")
            }
            CertificateState::NotYetValid => format!("the certificate {alias} is not valid yet"),
        };
        self.warnings.report(place, message);
    }
}

fn sha256(text: &str) -> Result<Digest, &'static str> {
    let hexadecimal = || {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Digest::from_bytes)
    };
    Digest::from_base64url(text)
        .or_else(hexadecimal)
        .ok_or("expected a SHA-256 digest: 64 hexadecimal digits, or 43 characters of base64url")
}

fn scopes(section: &mut Section<'_>) -> Option<Scope> {
    let tokens = section.texts("scopes").unwrap_or_default();
    let mut legal = true;
    for Located { value, place } in &tokens {
        if value.contains(' ') || Scope::parse(value).is_none() {
            let message = format!("scopes: {value:?} is not a scope token (RFC 6749 §3.3)");
            section.report(place, message);
            legal = false;
        }
    }
    let tokens: Vec<String> = tokens.into_iter().map(|token| token.value).collect();
    legal
        .then(|| Scope::try_from(tokens.join(" ")).ok())
        .flatten()
}

fn redirect_templates(section: &mut Section<'_>) -> Option<Vec<String>> {
    let templates = required_texts(section, "redirect_uris")?;
    for Located { value, place } in &templates {
        if let Err(error) = RedirectTemplate::parse(value) {
            section.report(place, format!("redirect_uris: {value}: {error}"));
        }
    }
    Some(templates.into_iter().map(|text| text.value).collect())
}

/// The PEM text of a certificate, under the key that it came from.
fn pem(section: &mut Section<'_>) -> Option<(&'static str, Located<Vec<u8>>)> {
    if !section.has("file") && !section.has("pem") {
        section.report(section.place(), "file or pem is missing");
    }
    if matches!(section.place(), Place::Json(_)) {
        section.refuse(
            "file",
            "the administration reads no files; send the text of the certificate in pem",
        );
    }
    let file = section.text("file");
    let inline = section.text("pem");
    match (file, inline) {
        (Some(_), Some(inline)) => {
            section.report(&inline.place, "pem: file is there too; keep one of the two");
            None
        }
        (Some(Located { value, place }), None) => match std::fs::read(place.resolve(&value)) {
            Ok(value) => Some(("file", Located { value, place })),
            Err(error) => {
                section.report(&place, format!("file: {value} cannot be read: {error}"));
                None
            }
        },
        (None, inline) => inline.map(|Located { value, place }| {
            let value = value.into_bytes();
            ("pem", Located { value, place })
        }),
    }
}
