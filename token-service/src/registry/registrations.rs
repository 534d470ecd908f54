//! The registrations file (design section 3.5): clients, users and certificates as TOML.
//!
//! Nothing of it reaches the registry unless all of it is right.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use argon2::{ARGON2ID_IDENT, Params, PasswordHash};
use data_encoding::{BASE32_NOPAD, HEXLOWER_PERMISSIVE};
use url::Url;
use zeroize::Zeroizing;

use super::certificate::Certificate;
use super::client::{Client, ClientId, ClientSecret, IntegrationType};
use super::redirect_uri::{RedirectUriPattern, RedirectUriUse};
use super::scope::Scope;
use super::snapshot::Registry;
use super::user::{LinkedAccount, Username};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::document::{InvalidDocument, Located, Place, Problem, Problems, Section, Table};

/// The shortest client secret and password that are accepted, in bytes.
pub const MIN_SECRET_LENGTH: usize = 8;
/// Client secrets shorter than this, in bytes, are accepted with a warning: they may be guessed.
pub const GOOD_SECRET_LENGTH: usize = 32;
/// The longest client secret and password, in bytes.
pub const MAX_SECRET_LENGTH: usize = 1024;
/// The longest value that travels in a claim and in a header, in bytes.
pub const MAX_CLAIM_LENGTH: usize = 255;
/// Length of a TOTP secret, in bytes: RFC 4226 §4 requires 128 bits.
pub const TOTP_SECRET_LENGTH: std::ops::RangeInclusive<usize> = 16..=64;
/// Memory that a given password hash may ask for, in KiB: 1 GiB.
const MAX_HASH_MEMORY: u32 = 1024 * 1024;

/// A registrations file, checked.
pub struct Registrations {
    /// The clients, in the order of the file.
    pub clients: Vec<Client>,
    /// The users, in the order of the file.
    pub users: Vec<UserRegistration>,
    /// What is allowed but unwise.
    pub warnings: Vec<Problem>,
}

/// A user as registered: with secrets that the registry knows only hashed or sealed. It has no `Debug`.
pub struct UserRegistration {
    /// The account's username.
    pub username: Username,
    /// E-mail address.
    pub email: Option<String>,
    /// The password; without one the stored password, if any, stays as it is.
    pub password: Option<PasswordRegistration>,
    /// The TOTP secret; without one the stored secret, if any, stays as it is.
    pub totp_secret: Option<Zeroizing<Vec<u8>>>,
    /// Organization.
    pub organization: Option<String>,
    /// Legacy: may be found by e-mail.
    pub single_sign_on: bool,
    /// Linked accounts.
    pub accounts: Vec<LinkedAccount>,
    /// Whether the user may sign in or be named.
    pub enabled: bool,
}

/// How a password was registered.
pub enum PasswordRegistration {
    /// As it is typed.
    Plaintext(Zeroizing<String>),
    /// As an argon2id PHC string.
    Hash(String),
}

impl Registrations {
    /// Reads and checks the file at `path`.
    ///
    /// `stored` is the registry that the file will be added to: a `bound_user` may be there instead of in the
    /// file, and names must not collide with it. Pass an empty one when the file stands alone.
    ///
    /// # Errors
    /// [`InvalidDocument`] with every problem.
    pub fn load(path: &Path, stored: &Registry, now: Timestamp) -> Result<Self, InvalidDocument> {
        let problems = Problems::default();
        let warnings = Problems::default();
        let table = Table::read(path, &problems);
        let (clients, users) = Reader {
            stored,
            now,
            warnings: &warnings,
        }
        .read(Section::root(table, &problems));
        problems.none_or(Self {
            clients,
            users,
            warnings: warnings.into_sorted(),
        })
    }
}

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
    const fn keys(self) -> [(&'static str, bool); 6] {
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
        ]
    }
}

struct Reader<'a> {
    stored: &'a Registry,
    now: Timestamp,
    warnings: &'a Problems,
}

impl Reader<'_> {
    fn read(&self, mut root: Section<'_>) -> (Vec<Client>, Vec<UserRegistration>) {
        let mut names = Names::default();
        let mut users = Vec::new();
        for section in root.sections("users") {
            users.extend(self.user(section, &mut names));
        }
        let mut clients = Vec::new();
        for section in root.sections("clients") {
            clients.extend(self.client(section, &mut names));
        }
        self.check_names(&root, &names);
        root.finish();
        (clients, users)
    }

    /// Names across the whole file and the registry that it is added to.
    fn check_names(&self, root: &Section<'_>, names: &Names) {
        let stored_users: BTreeSet<&str> = self
            .stored
            .users()
            .map(|user| user.username.as_str())
            .collect();
        let stored_clients: BTreeSet<&str> = self
            .stored
            .clients()
            .map(|client| client.client_id.as_str())
            .collect();
        // RFC 9700 §4.15: a token of a client must not pass for one of a user.
        for (client_id, place) in &names.client_ids {
            if names.usernames.contains_key(client_id) || stored_users.contains(client_id.as_str())
            {
                root.report(
                    place,
                    format!("client_id: {client_id} is also a username (RFC 9700 §4.15)"),
                );
            }
        }
        for (username, place) in &names.usernames {
            if stored_clients.contains(username.as_str()) {
                root.report(
                    place,
                    format!("username: {username} is also a client_id (RFC 9700 §4.15)"),
                );
            }
        }
        for Located { value, place } in &names.bound_users {
            if !names.usernames.contains_key(value) && !stored_users.contains(value.as_str()) {
                root.report(place, format!("bound_user: there is no user {value}"));
            }
        }
    }

    fn user(&self, mut section: Section<'_>, names: &mut Names) -> Option<UserRegistration> {
        let username = section.required_text("username").and_then(|text| {
            unique(&section, "username", &text, &mut names.usernames);
            let username = Username::parse(&text.value).filter(|_| is_trimmed(&text.value));
            if username.is_none() {
                let message = "username: must have 1 to 255 bytes, no control characters, and no white space \
                               at its ends";
                section.report(&text.place, message);
            }
            username
        });
        let email = section.parsed("email", email).map(|email| email.value);
        let password = password(&mut section);
        let totp_secret = section.parsed("totp_secret", totp_secret);
        let organization = section.parsed("organization", claim_text);
        let single_sign_on = section
            .flag("single_sign_on")
            .is_some_and(|flag| flag.value);
        let enabled = section.flag("enabled").is_none_or(|flag| flag.value);
        let mut seen = BTreeMap::new();
        let mut accounts = Vec::new();
        for account in section.sections("accounts") {
            accounts.extend(linked_account(account, &mut seen));
        }
        section.finish();
        Some(UserRegistration {
            username: username?,
            email,
            password,
            totp_secret: totp_secret.map(|secret| secret.value),
            organization: organization.map(|organization| organization.value),
            single_sign_on,
            accounts,
            enabled,
        })
    }

    fn client(&self, mut section: Section<'_>, names: &mut Names) -> Option<Client> {
        let client_id = section.required_text("client_id").and_then(|text| {
            unique(&section, "client_id", &text, &mut names.client_ids);
            let client_id = ClientId::parse(&text.value);
            if client_id.is_none() {
                let message =
                    "client_id: must have 1 to 128 printable ASCII characters and no space";
                section.report(&text.place, message);
            }
            client_id
        });
        let name = section.parsed("name", display_name).map(|name| name.value);
        let scopes = scopes(&mut section);
        let enabled = section.flag("enabled").is_none_or(|flag| flag.value);
        section.required("type");
        let kind = section.parsed("type", Kind::parse).map(|kind| kind.value);
        let integration = match kind {
            Some(kind) => self.integration(&mut section, kind, names),
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

    fn integration(
        &self,
        section: &mut Section<'_>,
        kind: Kind,
        names: &mut Names,
    ) -> Option<IntegrationType> {
        for (key, allowed) in kind.keys() {
            if !allowed {
                section.refuse(key, &format!("not for a client of type {}", kind.name()));
            }
        }
        Some(match kind {
            Kind::WebServer => {
                let secrets = self.required_secret(section);
                let redirect_uris = redirect_uris(section, RedirectUriUse::WebServer);
                IntegrationType::WebServer {
                    secrets: vec![secrets?],
                    redirect_uris: redirect_uris?,
                }
            }
            Kind::Installed => IntegrationType::Installed {
                redirect_uris: redirect_uris(section, RedirectUriUse::Installed)?,
            },
            Kind::NonInteractive => {
                let secret = self.required_secret(section);
                let certificates = self.certificates(section);
                let organization = section.parsed("organization", claim_text);
                IntegrationType::NonInteractive {
                    secrets: vec![secret?],
                    certificates,
                    organization: organization.map(|organization| organization.value),
                }
            }
            Kind::UserBound => {
                let secret = self.required_secret(section);
                let bound_user = section.required_text("bound_user")?;
                let username = Username::parse(&bound_user.value);
                names.bound_users.push(bound_user);
                IntegrationType::UserBound {
                    secrets: vec![secret?],
                    // A text that is no username is no user either, which is reported with the others.
                    bound_user: username?,
                }
            }
            Kind::Legacy => {
                let secret = self.secret(section);
                let templates = required_texts(section, "redirect_uris")?;
                IntegrationType::Legacy {
                    secrets: secret.into_iter().collect(),
                    redirect_templates: templates.into_iter().map(|text| text.value).collect(),
                }
            }
        })
    }

    fn required_secret(&self, section: &mut Section<'_>) -> Option<ClientSecret> {
        if !section.has("client_secret") && !section.has("client_secret_sha256") {
            section.report(
                section.place(),
                "client_secret or client_secret_sha256 is missing",
            );
        }
        self.secret(section)
    }

    fn secret(&self, section: &mut Section<'_>) -> Option<ClientSecret> {
        let secret = section.parsed("client_secret", |text| {
            let printable = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
            if !printable {
                return Err("must be printable ASCII (RFC 6749 §A.2)".to_owned());
            }
            check_secret_length(text)?;
            Ok((ClientSecret::of(text), text.len()))
        });
        let digest = section.parsed("client_secret_sha256", |text| {
            sha256(text).map(ClientSecret::from_digest)
        });
        match (secret, digest) {
            (Some(secret), None) => {
                let (value, length) = secret.value;
                if length < GOOD_SECRET_LENGTH {
                    self.warnings.report(
                        &secret.place,
                        "client_secret: may be guessed; `openssl rand -base64 32` makes one that cannot",
                    );
                }
                Some(value)
            }
            (None, digest) => digest.map(|digest| digest.value),
            (Some(_), Some(digest)) => {
                let message =
                    "client_secret_sha256: client_secret is there too; keep one of the two";
                section.report(&digest.place, message);
                None
            }
        }
    }

    fn certificates(&self, section: &mut Section<'_>) -> Vec<Certificate> {
        section.required("certificates");
        let mut aliases = BTreeMap::new();
        let mut thumbprints = BTreeMap::new();
        let mut certificates = Vec::new();
        for mut section in section.sections("certificates") {
            let alias = section.required_text("alias");
            if let Some(alias) = &alias {
                unique(&section, "alias", alias, &mut aliases);
            }
            let pem = pem(&mut section);
            if let (Some(alias), Some((key, pem))) = (alias, pem) {
                match Certificate::from_pem(&alias.value, &pem.value) {
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
        if self.now > certificate.not_after {
            let message = format!(
                "the certificate {alias} has expired; assertions signed with it are refused"
            );
            self.warnings.report(place, message);
        } else if self.now < certificate.not_before {
            let message = format!("the certificate {alias} is not valid yet");
            self.warnings.report(place, message);
        }
    }
}

/// The names of the whole file, each with its first place.
#[derive(Default)]
struct Names {
    usernames: BTreeMap<String, Place>,
    client_ids: BTreeMap<String, Place>,
    bound_users: Vec<Located<String>>,
}

fn unique(
    section: &Section<'_>,
    what: &str,
    text: &Located<String>,
    seen: &mut BTreeMap<String, Place>,
) {
    if let Some(first) = seen.get(&text.value) {
        let message = format!("{what}: {} is already at {first}", text.value);
        section.report(&text.place, message);
    } else {
        seen.insert(text.value.clone(), text.place.clone());
    }
}

fn is_trimmed(text: &str) -> bool {
    text.trim() == text
}

/// Text that people see: any script, one line.
fn display_name(text: &str) -> Result<String, &'static str> {
    if text.len() <= MAX_CLAIM_LENGTH && is_trimmed(text) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("must be one line of at most 255 bytes without white space at its ends")
    }
}

/// Text that becomes a claim and, at the edge, a header: printable ASCII is what every proxy passes on.
fn claim_text(text: &str) -> Result<String, &'static str> {
    let printable = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
    if text.len() <= MAX_CLAIM_LENGTH && is_trimmed(text) && printable {
        Ok(text.to_owned())
    } else {
        Err("must be at most 255 characters of printable ASCII without spaces at its ends")
    }
}

fn email(text: &str) -> Result<String, &'static str> {
    let legal = text.len() <= MAX_CLAIM_LENGTH
        && !text.chars().any(|c| c.is_control() || c.is_whitespace())
        && text
            .split_once('@')
            .is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty());
    if legal {
        Ok(text.to_owned())
    } else {
        Err("is not an e-mail address")
    }
}

fn check_secret_length(text: &str) -> Result<(), String> {
    if (MIN_SECRET_LENGTH..=MAX_SECRET_LENGTH).contains(&text.len()) {
        Ok(())
    } else {
        Err(format!(
            "must have {MIN_SECRET_LENGTH} to {MAX_SECRET_LENGTH} bytes"
        ))
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

fn password(section: &mut Section<'_>) -> Option<PasswordRegistration> {
    let plaintext = section.parsed("password", |text| {
        check_secret_length(text)?;
        Ok::<_, String>(Zeroizing::new(text.to_owned()))
    });
    let hash = section.parsed("password_hash", password_hash);
    match (plaintext, hash) {
        (Some(_), Some(hash)) => {
            let message = "password_hash: password is there too; keep one of the two";
            section.report(&hash.place, message);
            None
        }
        (Some(plaintext), None) => Some(PasswordRegistration::Plaintext(plaintext.value)),
        (None, hash) => hash.map(|hash| PasswordRegistration::Hash(hash.value)),
    }
}

fn password_hash(text: &str) -> Result<String, &'static str> {
    let hash = PasswordHash::new(text)
        .map_err(|_| "is not a PHC string such as $argon2id$v=19$m=19456,t=2,p=1$..$..")?;
    if hash.algorithm != ARGON2ID_IDENT {
        return Err("is not an argon2id hash");
    }
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err("lacks its salt or its hash");
    }
    match Params::try_from(&hash) {
        Ok(params) if params.m_cost() <= MAX_HASH_MEMORY => Ok(text.to_owned()),
        Ok(_) => Err("asks for more than 1 GiB of memory"),
        Err(_) => Err("has parameters that argon2 does not allow"),
    }
}

fn totp_secret(text: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    // As authenticator apps show it: in groups, in any case, with padding or without.
    let compact: Zeroizing<String> = Zeroizing::new(
        text.chars()
            .filter(|c| *c != ' ')
            .collect::<String>()
            .trim_end_matches('=')
            .to_ascii_uppercase(),
    );
    let secret = BASE32_NOPAD
        .decode(compact.as_bytes())
        .map(Zeroizing::new)
        .map_err(|_| "is not BASE32 (RFC 4648 §6)".to_owned())?;
    if TOTP_SECRET_LENGTH.contains(&secret.len()) {
        Ok(secret)
    } else {
        let (least, most) = (TOTP_SECRET_LENGTH.start() * 8, TOTP_SECRET_LENGTH.end() * 8);
        Err(format!("must have {least} to {most} bits (RFC 4226 §4)"))
    }
}

fn linked_account(
    mut section: Section<'_>,
    seen: &mut BTreeMap<String, Place>,
) -> Option<LinkedAccount> {
    for key in ["user_id", "username", "site"] {
        section.required(key);
    }
    let user_id = section.parsed("user_id", claim_text);
    let username = section.parsed("username", claim_text);
    let site = section.parsed("site", site);
    if let (Some(user_id), Some(site)) = (&user_id, &site) {
        let account = Located {
            value: format!("{} at {}", user_id.value, site.value),
            place: user_id.place.clone(),
        };
        unique(&section, "linked account", &account, seen);
    }
    section.finish();
    Some(LinkedAccount {
        user_id: user_id?.value,
        username: username?.value,
        site: site?.value,
    })
}

/// The URL of an instance; clients send it back as `user_site`, so it is kept and compared as text.
fn site(text: &str) -> Result<String, &'static str> {
    const EXPECTED: &str =
        "expected an http or https URL of at most 255 characters of printable ASCII";
    let url = Url::parse(text).map_err(|_| EXPECTED)?;
    let legal = matches!(url.scheme(), "https" | "http")
        && text.len() <= MAX_CLAIM_LENGTH
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    if legal {
        Ok(text.to_owned())
    } else {
        Err(EXPECTED)
    }
}

fn scopes(section: &mut Section<'_>) -> Option<Scope> {
    let tokens = section.texts("scopes").unwrap_or_default();
    let mut legal = true;
    for Located { value, place } in &tokens {
        if value.contains(' ') || Scope::parse(value).is_none() {
            section.report(
                place,
                format!("scopes: {value:?} is not a scope token (RFC 6749 §3.3)"),
            );
            legal = false;
        }
    }
    let tokens: Vec<String> = tokens.into_iter().map(|token| token.value).collect();
    legal
        .then(|| Scope::try_from(tokens.join(" ")).ok())
        .flatten()
}

fn required_texts(section: &mut Section<'_>, key: &'static str) -> Option<Vec<Located<String>>> {
    section.required(key);
    let place = section.place().clone();
    let texts = section.texts(key)?;
    if texts.is_empty() {
        section.report(&place, format!("{key}: at least one is needed"));
        return None;
    }
    let mut seen = BTreeMap::new();
    for text in &texts {
        unique(section, key, text, &mut seen);
    }
    Some(texts)
}

fn redirect_uris(
    section: &mut Section<'_>,
    use_: RedirectUriUse,
) -> Option<Vec<RedirectUriPattern>> {
    let texts = required_texts(section, "redirect_uris")?;
    let mut patterns = Vec::new();
    for Located { value, place } in texts {
        match RedirectUriPattern::parse(&value, use_) {
            Ok(pattern) => patterns.push(pattern),
            Err(error) => section.report(&place, format!("redirect_uris: {value}: {error}")),
        }
    }
    Some(patterns)
}

/// The PEM text of a certificate, under the key that it came from.
fn pem(section: &mut Section<'_>) -> Option<(&'static str, Located<Vec<u8>>)> {
    if !section.has("file") && !section.has("pem") {
        section.report(section.place(), "file or pem is missing");
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
