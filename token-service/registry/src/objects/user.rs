//! Users of the authorization server (protocol.md §1).

use data_encoding::{BASE32_NOPAD, HEXLOWER};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::account::{self, AccountView};
use super::identity::{self, IdentityView};
use crate::describe::checks::{MAX_CLAIM_LENGTH, check_secret_length, compared_text, is_trimmed};
use crate::describe::reading::{Entry, Registration};
use crate::describe::{Effects, Registered, Values, list, present, secret, single, state, states};
use document::Located;
use domain::clock::Timestamp;
use domain::object::ObjectKind;
use domain::{Excerpt, Identity, Managed, Observed, RegistryChange, User, Username, ambiguity};
use secrets::password;
use secrets::protection::Hidden;

/// Length of a TOTP secret, in bytes. RFC 4226 §4 requires at least 128 bits.
const TOTP_SECRET_LENGTH: std::ops::RangeInclusive<usize> = 16..=64;

/// Key of the duty to set another password.
pub(crate) const MUST_CHANGE_PASSWORD: &str = "must_change_password";

/// Key of the identities that no registration lists.
const BY_EMAIL: &str = "identities_by_email";

/// A user's registration: an entry of `users` of a registrations file.
#[derive(ToSchema)]
pub struct UserRegistration {
    /// The account's username. 1 to 255 bytes.
    pub username: String,
    /// E-mail address. Receives links for forgotten passwords, and legacy single sign-on finds the user by it. Need not be unique.
    pub email: Option<String>,
    /// The user's organization. Non-interactive clients of an organization act only for its users, and `[organizations]` may require
    /// a second factor of these users.
    pub organization: Option<String>,
    /// Whether the user may sign in and be named. `true` if absent.
    pub enabled: Option<bool>,
    /// The password; a new one ends the user's sessions and revokes what was issued. 8 to 1024 bytes.
    pub password: Option<String>,
    /// In place of the password: its hash by argon2, bcrypt, PBKDF2 or scrypt, also as Django or Keycloak stores it.
    pub password_hash: Option<String>,
    /// Whether the user must set another password at the next sign-in, before a code is issued. A password that the user or anybody
    /// else sets ends this. Sessions and tokens stay valid until then: `token-service grant revoke --user NAME` ends grants and tokens.
    pub must_change_password: Option<bool>,
    /// The TOTP secret of the second factor, in BASE32; a new one ends the user's sessions and revokes what was issued. 128 to
    /// 512 bits.
    pub totp_secret: Option<String>,
    /// Whether the legacy flow may find the user by e-mail. `false` if absent.
    pub single_sign_on: Option<bool>,
    /// Linked project-information accounts.
    pub accounts: Option<Vec<AccountView>>,
    /// Linked identities at identity providers. An identity belongs to at most one user.
    pub identities: Option<Vec<IdentityView>>,
}

/// A user.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct UserView {
    /// The account's username.
    pub username: String,
    /// E-mail address. Receives links for forgotten passwords, and legacy single sign-on finds the user by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The user's organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// Whether the user may sign in and be named.
    pub enabled: bool,
    /// Why the user cannot sign in: `disabled`, or neither a password nor an identity of an identity provider; absent if the user can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot_sign_in: Option<String>,
    /// Whether the user has a password.
    pub has_password: bool,
    /// Whether the user must set another password at the next sign-in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_change_password: bool,
    /// Whether the user has a registered second factor.
    pub has_totp: bool,
    /// Whether the user has a second factor, registered or set up by the user.
    pub has_second_factor: bool,
    /// When the user last signed in, in UTC; absent for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_sign_in_at: Option<String>,
    /// Whether the legacy flow may find the user by e-mail.
    pub single_sign_on: bool,
    /// Linked project-information accounts.
    pub accounts: Vec<AccountView>,
    /// Linked identities at identity providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identities: Option<Vec<IdentityView>>,
    /// Identities that a first sign-in linked by their verified e-mail address. No registration lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identities_by_email: Option<Vec<IdentityView>>,
    /// File and line that define the object; absent if commands define the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    /// In the answer to a change: the changed fields, each with the old and the new value unless they are secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<String>>,
    /// In the answer to a change: what is allowed but may surprise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

impl Registered for User {
    const KIND: ObjectKind = ObjectKind::User;
    const LIST: &'static str = "users";
    const NAME_KEY: &'static str = "username";
    const ONLY_VIEWED: &'static [&'static str] = &[
        "cannot_sign_in",
        "has_password",
        "has_totp",
        "has_second_factor",
        "last_sign_in_at",
        MUST_CHANGE_PASSWORD,
        BY_EMAIL,
        "managed_by",
    ];
    const ONLY_REGISTERED: &'static [&'static str] = &[
        "password",
        "password_hash",
        "totp_secret",
        MUST_CHANGE_PASSWORD,
    ];

    type Keys = UserRegistration;
    type View = UserView;

    fn name(&self) -> &str {
        self.username.as_str()
    }

    fn read(entry: &mut Entry<'_, '_>) -> Option<Registration<Self>> {
        let username = username(entry);
        let single_sign_on = single_sign_on(entry);
        let email = entry.text("email", email);
        let organization = entry.text("organization", compared_text);
        let enabled = entry.enabled();
        let password = password(entry);
        let must_change_password = entry.section.flag(MUST_CHANGE_PASSWORD);
        let must_change_password =
            must_change_password.map(|flag| Hidden::MustChangePassword(flag.value));
        let totp_secret = entry.text("totp_secret", totp_secret);
        let totp_secret = totp_secret.map(Hidden::TotpSecret);
        let accounts = account::read(entry);
        let identities = identity::read(entry);
        let user = Self {
            email,
            organization,
            enabled,
            single_sign_on,
            accounts,
            identities,
            ..Self::new(username?)
        };
        Some(Registration {
            hidden: (password.into_iter().chain(totp_secret))
                .chain(must_change_password)
                .collect(),
            ..Registration::of(user)
        })
    }

    fn view(&self, now: Timestamp, observed: &Observed, effects: Effects) -> UserView {
        let mut sign_ins = observed.sign_ins.iter();
        let sign_ins = sign_ins.find(|one| one.username == self.username);
        UserView {
            username: self.username.to_string(),
            email: self.email.clone(),
            organization: self.organization.clone(),
            enabled: self.enabled,
            cannot_sign_in: cannot_sign_in(self, now, observed),
            has_password: self.password_hash.is_some(),
            must_change_password: self.must_change_password,
            has_totp: self.totp_secret_sealed.is_some(),
            has_second_factor: self.totp_secret_sealed.is_some()
                || sign_ins.is_some_and(|one| one.has_own_second_factor),
            last_sign_in_at: sign_ins.and_then(|one| one.last_at).map(Timestamp::rfc3339),
            single_sign_on: self.single_sign_on,
            accounts: self.accounts.iter().map(AccountView::from).collect(),
            identities: present(identities(self, false).map(IdentityView::from)),
            identities_by_email: present(identities(self, true).map(IdentityView::from)),
            managed_by: self.managed.as_ref().map(ToString::to_string),
            changes: present(effects.changes),
            warnings: present(effects.warnings),
        }
    }

    fn values(&self) -> Vec<Values> {
        let totp_secret = self.totp_secret_sealed.iter();
        vec![
            single("email", &self.email),
            single("organization", &self.organization),
            state("enabled", self.enabled),
            secret("password", &self.password_hash),
            state(MUST_CHANGE_PASSWORD, self.must_change_password),
            secret(
                "totp_secret",
                totp_secret.map(|sealed| HEXLOWER.encode(sealed)),
            ),
            single("single_sign_on", [self.single_sign_on]),
            list("accounts", self.accounts.iter().map(account::text)),
            list("identities", identities(self, false)),
            states(BY_EMAIL, identities(self, true)),
        ]
    }

    fn user(&self) -> Option<&User> {
        Some(self)
    }

    fn user_mut(&mut self) -> Option<&mut User> {
        Some(self)
    }

    fn owner(&self) -> (Option<&Managed>, bool) {
        (self.managed.as_ref(), self.enabled)
    }

    fn owner_mut(&mut self) -> (&mut Option<Managed>, &mut bool) {
        (&mut self.managed, &mut self.enabled)
    }

    fn keep_versions(&mut self, before: &Self) {
        self.credentials_version = before.credentials_version;
        self.tokens_from = before.tokens_from;
        self.accounts_from.clone_from(&before.accounts_from);
        self.sign_ins_from = before.sign_ins_from;
    }

    fn find<'a>(stored: &'a Excerpt, name: &str) -> Option<&'a Self> {
        Some(stored.user(&Username::parse(name)?)?)
    }

    fn put(change: &mut RegistryChange) -> &mut Vec<Self> {
        &mut change.put_users
    }

    fn remove(&self, change: &mut RegistryChange) {
        change.remove_users.push(self.username.clone());
    }
}

/// Why the user cannot sign in; `None` if the user can.
fn cannot_sign_in(user: &User, now: Timestamp, observed: &Observed) -> Option<String> {
    if !user.enabled {
        return Some("disabled".to_owned());
    }
    if user.password_hash.is_some() || observed.by_provider.contains(&user.username) {
        return None;
    }
    let identity = match user.identities.is_empty() {
        true => "",
        false => ", and no identity provider of the configuration for the linked identities",
    };
    let link = user.password_link.as_ref();
    let link = link.filter(|link| now < link.expires_at && user.still_has(link.rests_on));
    let invited = link.map(|link| format!(", invited until {}", link.expires_at.rfc3339()));
    Some(format!(
        "no password{identity}{}",
        invited.unwrap_or_default()
    ))
}

fn identities(user: &User, by_email: bool) -> impl Iterator<Item = &Identity> {
    let linked = user.identities.iter();
    let linked = linked.filter(move |linked| linked.by_email == by_email);
    linked.map(|linked| &linked.identity)
}

fn username(entry: &mut Entry<'_, '_>) -> Option<Username> {
    let text = entry.section.required_text("username")?;
    let username = Username::parse(&text.value).filter(|_| is_trimmed(&text.value));
    let normal = username.as_ref().map(Username::to_string);
    let name = Located {
        value: normal.unwrap_or(text.value),
        place: text.place,
    };
    entry.name(ObjectKind::User, "username", &name);
    if let Some(problem) = username.as_ref().and_then(|name| ambiguity(name.as_str())) {
        // The debug form escapes invisible characters.
        let message = format!("username: {:?} {problem}", name.value);
        entry.section.report(&name.place, message);
    }
    if username.is_none() {
        let message = "username: must have 1 to 255 bytes, no control characters, and no white space at its ends";
        entry.section.report(&name.place, message);
    }
    username
}

fn single_sign_on(entry: &mut Entry<'_, '_>) -> bool {
    let Some(flag) = entry.section.flag("single_sign_on") else {
        return false;
    };
    if flag.value && !entry.section.has("email") {
        let message =
            "single_sign_on: needs an email, because the legacy logon finds the user by it";
        entry.section.report(&flag.place, message);
    }
    flag.value
}

fn password(entry: &mut Entry<'_, '_>) -> Option<Hidden> {
    let plaintext = entry.text("password", |text| {
        check_secret_length(text)?;
        Ok::<_, String>(Zeroizing::new(text.to_owned()))
    });
    let hash = entry.section.parsed("password_hash", password::registered);
    if let (Some(_), Some(hash)) = (&plaintext, &hash) {
        let message = "password_hash: password is there too; keep one of the two";
        entry.section.report(&hash.place, message);
    }
    let hash = hash.map(|hash| Hidden::PasswordHash(hash.value));
    plaintext.map(Hidden::Password).or(hash)
}

fn email(text: &str) -> Result<String, &'static str> {
    let legal = text.len() <= MAX_CLAIM_LENGTH
        && !text.chars().any(|c| c.is_control() || c.is_whitespace())
        && ambiguity(text).is_none()
        && text
            .split_once('@')
            .is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty());
    if legal {
        Ok(text.to_owned())
    } else {
        Err("is not an e-mail address")
    }
}

fn totp_secret(text: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    // Accepts the forms that authenticator apps show: in groups, in any case, with or without padding.
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
