//! `[[users]]` and `[[users.accounts]]`.

use std::collections::BTreeMap;

use argon2::{ARGON2ID_IDENT, Params, PasswordHash};
use data_encoding::BASE32_NOPAD;
use url::Url;
use zeroize::Zeroizing;

use super::fields::{MAX_CLAIM_LENGTH, check_secret_length, claim_text, is_trimmed, unique};
use document::{Located, Place, Section};
use domain::password_hash;
use domain::user::{CredentialsVersion, LinkedAccount, User, Username};

/// Length of a TOTP secret, in bytes: RFC 4226 §4 requires 128 bits.
pub const TOTP_SECRET_LENGTH: std::ops::RangeInclusive<usize> = 16..=64;

/// A user as registered: with secrets that the registry keeps only hashed or sealed. It has no `Debug`.
pub struct UserRegistration {
    /// The user without password and second factor.
    pub user: User,
    /// The password; without one the stored password, if any, stays as it is.
    pub password: Option<PasswordRegistration>,
    /// The TOTP secret; without one the stored secret, if any, stays as it is.
    pub totp_secret: Option<Zeroizing<Vec<u8>>>,
}

/// How a password was registered.
pub enum PasswordRegistration {
    /// As it is typed.
    Plaintext(Zeroizing<String>),
    /// As an argon2id PHC string.
    Hash(String),
}

pub(super) fn read(
    mut section: Section<'_>,
    usernames: &mut BTreeMap<String, Place>,
) -> Option<UserRegistration> {
    let username = username(&mut section, usernames);
    let email = section.parsed("email", email).map(|email| email.value);
    let password = password(&mut section);
    let totp_secret = section.parsed("totp_secret", totp_secret);
    let organization = section.parsed("organization", claim_text);
    let single_sign_on = section.flag("single_sign_on");
    if let Some(flag) = single_sign_on.as_ref().filter(|flag| flag.value)
        && email.is_none()
    {
        let message =
            "single_sign_on: needs an email, because the legacy logon finds the user by it";
        section.report(&flag.place, message);
    }
    let enabled = section.flag("enabled").is_none_or(|flag| flag.value);
    let mut seen = BTreeMap::new();
    let accounts = section
        .sections("accounts")
        .into_iter()
        .filter_map(|account| linked_account(account, &mut seen))
        .collect();
    section.finish();
    Some(UserRegistration {
        user: User {
            username: username?,
            email,
            password_hash: None,
            registered_password_digest: None,
            totp_secret_sealed: None,
            organization: organization.map(|organization| organization.value),
            single_sign_on: single_sign_on.is_some_and(|flag| flag.value),
            accounts,
            enabled,
            credentials_version: CredentialsVersion::default(),
        },
        password,
        totp_secret: totp_secret.map(|secret| secret.value),
    })
}

fn username(section: &mut Section<'_>, seen: &mut BTreeMap<String, Place>) -> Option<Username> {
    let text = section.required_text("username")?;
    let username = Username::parse(&text.value).filter(|_| is_trimmed(&text.value));
    let normal = Located {
        value: username
            .as_ref()
            .map_or(text.value.clone(), Username::to_string),
        place: text.place.clone(),
    };
    unique(section, "username", &normal, seen);
    if username.is_none() {
        let message = "username: must have 1 to 255 bytes, no control characters, and no white space at \
                       its ends";
        section.report(&text.place, message);
    }
    username
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

fn password(section: &mut Section<'_>) -> Option<PasswordRegistration> {
    let plaintext = section.parsed("password", |text| {
        check_secret_length(text)?;
        Ok::<_, String>(Zeroizing::new(text.to_owned()))
    });
    let hash = section.parsed("password_hash", hash);
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
