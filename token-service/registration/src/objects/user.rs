//! Users of the authorization server (protocol.md §1).

use argon2::{ARGON2ID_IDENT, Params, PasswordHash};
use data_encoding::BASE32_NOPAD;
use serde_json::json;
use zeroize::Zeroizing;

use super::account;
use crate::describe::checks::{MAX_CLAIM_LENGTH, check_secret_length, is_trimmed};
use crate::describe::member::{Fixed, Secret, member};
use crate::describe::reading::{Entry, claim, switch};
use crate::describe::shape::{Key, Shape};
use crate::describe::view::Derived;
use crate::describe::{Description, Field, Flag, Registered, Rule, flag, flags};
use crate::protection::{Hidden, Protected};
use document::Located;
use domain::remembered::ObjectKind;
use domain::{Excerpt, RegistryChange, User, Username, password_hash};

/// Length of a TOTP secret, in bytes. RFC 4226 §4 requires at least 128 bits.
pub const TOTP_SECRET_LENGTH: std::ops::RangeInclusive<usize> = 16..=64;

const FIELDS: &[Field<User>] = &[
    Field {
        given: "1 to 255 bytes.",
        required: true,
        column: true,
        rule: Rule::Name,
        members: &[&Fixed("username", |user: &User| user.username.as_str())],
        ..Field::new("username", "Username", "The account's username.")
    },
    Field {
        given: "Need not be unique.",
        flag: flag("email", "EMAIL"),
        column: true,
        members: &[&member!(User, email, |entry, key| entry
            .text(key, email)
            .map(Some))],
        ..Field::new(
            "email",
            "E-mail",
            "E-mail address, for legacy single sign-on.",
        )
    },
    Field {
        given: "Compared with that of non-interactive clients.",
        flag: flag("organization", "ORGANIZATION"),
        column: true,
        members: &[&member!(User, organization, claim)],
        ..Field::new("organization", "Organization", "The user's organization.")
    },
    Field {
        given: "`true` if absent.",
        flag: flags(
            ("enable", "The user may sign in and be named."),
            (
                "disable",
                "The user may neither sign in nor be named; ends sessions and revokes what was issued.",
            ),
            true,
        ),
        column: true,
        rule: Rule::Enabled,
        members: &[&member!(User, enabled, switch)],
        ..Field::new(
            "enabled",
            "Enabled",
            "Whether the user may sign in and be named.",
        )
    },
    Field {
        alternative: Some(PASSWORD_HASH),
        given: "8 to 1024 bytes.",
        flag: Some(Flag::File("password-file")),
        shown: Some(&[Derived::new(
            Key::always(
                "has_password",
                "Whether the user has a password.",
                Shape::Flag,
            ),
            "Password",
            |user: &User, _| Some(json!(user.password_hash.is_some())),
        )
        .card()]),
        rule: Rule::Hidden,
        members: &[&Secret {
            names: &["password_hash", "registered_password_digest"],
            owner: |user: &User| &user.username,
            get: |user| {
                let hash = user.password_hash.clone()?;
                let registered = user.registered_password_digest;
                Some(Protected::Hash { hash, registered })
            },
            set: |user, kept| {
                if let Protected::Hash { hash, registered } = kept {
                    user.password_hash = Some(hash);
                    user.registered_password_digest = registered;
                }
            },
            read: password,
        }],
        ..Field::new(
            "password",
            "Password",
            "The password; a new one ends the user's sessions and revokes what was issued.",
        )
    },
    Field {
        given: "128 to 512 bits.",
        flag: Some(Flag::File("totp-secret-file")),
        shown: Some(&[Derived::new(
            Key::always(
                "has_totp",
                "Whether the user has a registered second factor.",
                Shape::Flag,
            ),
            "TOTP",
            |user, _| Some(json!(user.totp_secret_sealed.is_some())),
        )]),
        rule: Rule::Hidden,
        members: &[&Secret {
            names: &["totp_secret_sealed"],
            owner: |user: &User| &user.username,
            get: |user| user.totp_secret_sealed.clone().map(Protected::Sealed),
            set: |user, kept| {
                if let Protected::Sealed(sealed) = kept {
                    user.totp_secret_sealed = Some(sealed);
                }
            },
            read: |entry| {
                entry
                    .text("totp_secret", totp_secret)
                    .map(Hidden::TotpSecret)
            },
        }],
        ..Field::new(
            "totp_secret",
            "TOTP",
            "The TOTP secret of the second factor, in BASE32; a new one ends the user's sessions and revokes what was \
               issued.",
        )
    },
    Field {
        given: "`false` if absent.",
        flag: flags(
            (
                "single-sign-on",
                "The legacy flow may find the user by e-mail.",
            ),
            (
                "no-single-sign-on",
                "The legacy flow may not find the user by e-mail.",
            ),
            false,
        ),
        members: &[&member!(User, single_sign_on, single_sign_on)],
        ..Field::new(
            "single_sign_on",
            "Single sign-on",
            "Whether the legacy flow may find the user by e-mail.",
        )
    },
    Field {
        flag: flag("account", "USER_ID,USERNAME,SITE"),
        column: true,
        rule: Rule::List,
        members: &[&member!(User, accounts, account::read)],
        ..Field::new(
            "accounts",
            "Linked accounts",
            "Linked project-information accounts.",
        )
    },
];

const PASSWORD_HASH: Key = Key::new(
    "password_hash",
    "In place of the password: an argon2id PHC string.",
    Shape::Text,
);

impl Registered for User {
    const KIND: ObjectKind = ObjectKind::User;
    const NAME_KEY: &'static str = "username";
    const DESCRIPTION: Description<Self> = Description {
        registration: (
            "UserRegistration",
            "A user's registration: an entry of `users` of a registrations file.",
        ),
        view: ("UserView", "A user."),
        fields: FIELDS,
    };

    fn name(&self) -> &str {
        self.username.as_str()
    }

    fn begin(entry: &mut Entry<'_, '_>) -> Option<Self> {
        let text = entry.section.required_text("username")?;
        let username = Username::parse(&text.value).filter(|_| is_trimmed(&text.value));
        let normal = username.as_ref().map(Username::to_string);
        let name = Located {
            value: normal.unwrap_or(text.value),
            place: text.place,
        };
        entry.name(Self::KIND, "username", &name);
        if username.is_none() {
            let message = "username: must have 1 to 255 bytes, no control characters, and no white space at \
                           its ends";
            entry.section.report(&name.place, message);
        }
        username.map(Self::new)
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

fn single_sign_on(entry: &mut Entry<'_, '_>, key: &'static str) -> Option<bool> {
    let flag = entry.section.flag(key)?;
    if flag.value && !entry.gives("email") {
        let message =
            format!("{key}: needs an email, because the legacy logon finds the user by it");
        entry.section.report(&flag.place, message);
    }
    Some(flag.value)
}

fn password(entry: &mut Entry<'_, '_>) -> Option<Hidden> {
    let plaintext = entry.text("password", |text| {
        check_secret_length(text)?;
        Ok::<_, String>(Zeroizing::new(text.to_owned()))
    });
    let hash = entry.section.parsed(PASSWORD_HASH.key, hash);
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

fn hash(text: &str) -> Result<String, &'static str> {
    let hash = PasswordHash::new(text)
        .map_err(|_| "is not a PHC string such as $argon2id$v=19$m=19456,t=2,p=1$..$..")?;
    if hash.algorithm != ARGON2ID_IDENT {
        return Err("is not an argon2id hash");
    }
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err("lacks its salt or its hash");
    }
    match Params::try_from(&hash) {
        Ok(_) if password_hash::is_within_bounds(&hash) => Ok(text.to_owned()),
        Ok(_) => Err(
            "costs too much: m is at most 131072 (128 MiB), t at most 16, and m times t at most 524288",
        ),
        Err(_) => Err("has parameters that argon2 does not allow"),
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
