//! Users of the authorization server (protocol.md §1).

use data_encoding::{BASE32_NOPAD, HEXLOWER};
use zeroize::Zeroizing;

use super::account::{self, AccountView};
use super::identity::{self, IdentityView};
use crate::describe::Rule::{List, Secret, Single, State, States};
use crate::describe::checks::{MAX_CLAIM_LENGTH, check_secret_length, compared_text, is_trimmed};
use crate::describe::fields::Flag::{Optional, SecretFile, Switch};
use crate::describe::fields::{Field, described};
use crate::describe::reading::{Entry, Registration};
use crate::describe::{Effects, Registered, present, texts};
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

described! {
    UserRegistration: "A user's registration: an entry of `users` of a registrations file.",
    UserView: "A user.",
    /// The account's username.
    needed username: String
        /// 1 to 255 bytes.
        => { label: "Username", };
    /// E-mail address. Receives links for forgotten passwords, and legacy single sign-on finds the user by it. Need not be unique.
    optional email: String => { rule: Single, label: "E-mail", flag: Optional("email", "EMAIL"), };
    /// The user's organization. Non-interactive clients of an organization act only for its users, and `[organizations]` may require
    /// a second factor of these users.
    optional organization: String
        => { rule: Single, label: "Organization", flag: Optional("organization", "ORGANIZATION"), };
    /// Whether the user may sign in and be named.
    preset enabled: bool
        /// `true` if absent.
        => { rule: State, label: "Enabled", flag: Switch(
            ["disable", "The user may neither sign in nor be named; ends sessions and revokes what was issued"],
            false,
            ["enable", "The user may sign in and be named"],
        ), };
    /// The password; a new one ends the user's sessions and revokes what was issued.
    given password: String
        /// 8 to 1024 bytes.
        => { rule: Secret, flag: SecretFile("password-file", "FILE"), };
    /// In place of the password: its hash by argon2, bcrypt, PBKDF2 or scrypt, also as Django or Keycloak stores it.
    given password_hash: String => {};
    /// Whether the user must set another password at the next sign-in, before a code is issued. A password that the user or anybody
    /// else sets ends this. Sessions and tokens stay valid until then: `token-service grant revoke --user NAME` ends grants and tokens.
    given must_change_password: bool => { rule: State, flag: Switch(
        [
            "must-change-password",
            "The service asks the user for another password at the next sign-in. Sessions and tokens stay valid until then; \
             grant revoke --user ends grants and tokens",
        ],
        true,
        ["may-keep-password", "Cancel --must-change-password: the user keeps the password"],
    ), };
    /// The TOTP secret of the second factor, in BASE32; a new one ends the user's sessions and revokes what was issued.
    given totp_secret: String
        /// 128 to 512 bits.
        => { rule: Secret, flag: SecretFile("totp-secret-file", "FILE"), };
    /// Why the user cannot sign in: `disabled`, or neither a password nor an identity of an identity provider; absent if the user can.
    noted cannot_sign_in: String => { label: "Cannot sign in", };
    /// Whether the user has a password.
    shown has_password: bool => { label: "Password", };
    /// Whether the user must set another password at the next sign-in; absent if not.
    noted must_change_password: bool => { label: "Must change password", };
    /// Whether the user has a registered second factor.
    shown has_totp: bool => {};
    /// Whether the user has a second factor, registered or set up by the user.
    shown has_second_factor: bool => { label: "Second factor", };
    /// When the user last signed in, in UTC; absent for never.
    noted last_sign_in_at: String => { label: "Last sign-in", };
    /// Whether the legacy flow may find the user by e-mail.
    preset single_sign_on: bool
        /// `false` if absent.
        => { rule: Single, label: "Single sign-on", flag: Switch(
            ["single-sign-on", "The legacy flow may find the user by e-mail"],
            true,
            ["no-single-sign-on", "The legacy flow may not find the user by e-mail"],
        ), };
    /// Linked project-information accounts.
    preset accounts: Vec<AccountView> => { rule: List, label: "Linked accounts", };
    /// Linked identities at identity providers.
    optional identities: Vec<IdentityView>
        /// An identity belongs to at most one user.
        => { rule: List, label: "Linked identities", };
    /// Identities that a first sign-in linked by their verified e-mail address. No registration lists them.
    noted identities_by_email: Vec<IdentityView> => { rule: States, label: "Identities by e-mail", };
}

impl Registered for User {
    const KIND: ObjectKind = ObjectKind::User;
    const LIST: &'static str = "users";
    const NAME_KEY: &'static str = "username";
    const FIELDS: &'static [Field] = FIELDS;

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
            must_change_password: self.must_change_password.then_some(true),
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

    fn compared(&self, key: &str) -> Option<Vec<String>> {
        match key {
            "password" => Some(texts(&self.password_hash)),
            MUST_CHANGE_PASSWORD => Some(texts([self.must_change_password])),
            "totp_secret" => {
                let sealed = self.totp_secret_sealed.iter();
                Some(texts(sealed.map(|sealed| HEXLOWER.encode(sealed))))
            }
            "accounts" => Some(texts(self.accounts.iter().map(account::text))),
            "identities" => Some(texts(identities(self, false))),
            "identities_by_email" => Some(texts(identities(self, true))),
            _ => None,
        }
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
