//! Users of the authorization server (protocol.md §1).

use data_encoding::BASE32_NOPAD;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{account, changes};
use crate::describe::checks::{MAX_CLAIM_LENGTH, check_secret_length, claim_text, is_trimmed};
use crate::describe::reading::{Entry, Registration};
use crate::describe::{Description, Field, Flag, In, Registered, Rule, Shape};
use crate::protection::Hidden;
use document::Located;
use domain::clock::Timestamp;
use domain::object::ObjectKind;
use domain::{Excerpt, Managed, RegistryChange, SecretTimes, User, Username};
use protocol::sign_in::password;

/// Length of a TOTP secret, in bytes. RFC 4226 §4 requires at least 128 bits.
pub const TOTP_SECRET_LENGTH: std::ops::RangeInclusive<usize> = 16..=64;

const DESCRIPTION: Description = Description {
    kind: ObjectKind::User,
    list: "users",
    name_key: "username",
    name_value: "USERNAME",
    name_flag: None,
    registration: (
        "UserRegistration",
        "A user's registration: an entry of `users` of a registrations file.",
    ),
    view: ("UserView", "A user."),
    fields: &[
        Field {
            given: "1 to 255 bytes.",
            required: true,
            column: true,
            rule: Rule::None,
            ..Field::new("username", "Username", "The account's username.")
        },
        Field {
            given: "Need not be unique.",
            flag: Some(Flag::Value("email", "EMAIL")),
            column: true,
            rule: Rule::Optional,
            ..Field::new(
                "email",
                "E-mail",
                "E-mail address, for legacy single sign-on.",
            )
        },
        Field {
            given: "Compared with that of non-interactive clients.",
            flag: Some(Flag::Value("organization", "ORGANIZATION")),
            column: true,
            rule: Rule::Optional,
            ..Field::new("organization", "Organization", "The user's organization.")
        },
        Field {
            given: "`true` if absent.",
            flag: Some(Flag::Switch {
                on: ("enable", "The user may sign in and be named."),
                off: (
                    "disable",
                    "The user may neither sign in nor be named; ends sessions and revokes what was issued.",
                ),
                default: true,
            }),
            column: true,
            shape: Shape::Flag,
            rule: Rule::Enabled,
            ..Field::new(
                "enabled",
                "Enabled",
                "Whether the user may sign in and be named.",
            )
        },
        Field {
            given: "8 to 1024 bytes.",
            flag: Some(Flag::File("password-file")),
            place: In::Registrations,
            rule: Rule::Hidden,
            members: &["password_hash", "registered_password_digest"],
            ..Field::new(
                "password",
                "",
                "The password; a new one ends the user's sessions and revokes what was issued.",
            )
        },
        Field {
            place: In::Registrations,
            rule: Rule::None,
            ..Field::new(
                "password_hash",
                "",
                "In place of the password: its hash by argon2, bcrypt, PBKDF2 or scrypt, also as Django or Keycloak \
                 stores it.",
            )
        },
        Field {
            required: true,
            shape: Shape::Flag,
            ..Field::shown(
                "has_password",
                "Password",
                "Whether the user has a password.",
            )
        },
        Field {
            given: "128 to 512 bits.",
            flag: Some(Flag::File("totp-secret-file")),
            place: In::Registrations,
            rule: Rule::Hidden,
            members: &["totp_secret_sealed"],
            ..Field::new(
                "totp_secret",
                "",
                "The TOTP secret of the second factor, in BASE32; a new one ends the user's sessions and revokes what was \
               issued.",
            )
        },
        Field {
            required: true,
            column: true,
            shape: Shape::Flag,
            ..Field::shown(
                "has_totp",
                "TOTP",
                "Whether the user has a registered second factor.",
            )
        },
        Field {
            given: "`false` if absent.",
            flag: Some(Flag::Switch {
                on: (
                    "single-sign-on",
                    "The legacy flow may find the user by e-mail.",
                ),
                off: (
                    "no-single-sign-on",
                    "The legacy flow may not find the user by e-mail.",
                ),
                default: false,
            }),
            shape: Shape::Flag,
            ..Field::new(
                "single_sign_on",
                "Single sign-on",
                "Whether the legacy flow may find the user by e-mail.",
            )
        },
        Field {
            flag: Some(Flag::Value("account", "USER_ID,USERNAME,SITE")),
            column: true,
            shape: Shape::Records(&account::ACCOUNT),
            rule: Rule::List,
            text: account::text,
            ..Field::new(
                "accounts",
                "Linked accounts",
                "Linked project-information accounts.",
            )
        },
        changes::MANAGED,
        changes::CHANGES,
        changes::WARNINGS,
    ],
};

impl Registered for User {
    const DESCRIPTION: &'static Description = &DESCRIPTION;

    fn name(&self) -> &str {
        self.username.as_str()
    }

    fn read(entry: &mut Entry<'_, '_>) -> Option<Registration<Self>> {
        let username = username(entry);
        let single_sign_on = single_sign_on(entry);
        let email = entry.text("email", email);
        let organization = entry.text("organization", claim_text);
        let enabled = entry.enabled();
        let password = password(entry);
        let totp_secret = entry.text("totp_secret", totp_secret);
        let totp_secret = totp_secret.map(Hidden::TotpSecret);
        let accounts = account::read(entry);
        let user = Self {
            email,
            organization,
            enabled,
            single_sign_on,
            accounts,
            ..Self::new(username?)
        };
        Some(Registration {
            hidden: password.into_iter().chain(totp_secret).collect(),
            ..Registration::of(user)
        })
    }

    fn shown(&self, _: Timestamp, _: &[SecretTimes]) -> Value {
        json!({
            "has_password": self.password_hash.is_some(),
            "has_totp": self.totp_secret_sealed.is_some(),
            changes::MANAGED_KEY: self.managed.as_ref().map(ToString::to_string),
        })
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

fn username(entry: &mut Entry<'_, '_>) -> Option<Username> {
    let text = entry.section.required_text("username")?;
    let username = Username::parse(&text.value).filter(|_| is_trimmed(&text.value));
    let normal = username.as_ref().map(Username::to_string);
    let name = Located {
        value: normal.unwrap_or(text.value),
        place: text.place,
    };
    entry.name(ObjectKind::User, "username", &name);
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
