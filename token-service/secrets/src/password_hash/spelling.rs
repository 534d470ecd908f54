//! The spellings of password hashes: PHC strings, bcrypt, Django and Keycloak.

use aws_lc_rs::pbkdf2;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use super::{Algorithm, PasswordHash};
use domain::password_scheme::scheme;

type Read<T> = Result<T, &'static str>;

/// Maximum length of a hash as text, in bytes. Keycloak's JSON is the longest form.
const MAX_LENGTH: usize = 1024;

const UNKNOWN: &str = "is not a hash by argon2, bcrypt, PBKDF2 or scrypt: expected a PHC string such as \
                       $argon2id$v=19$m=19456,t=2,p=1$..$.., bcrypt's $2b$.., or what Django or Keycloak stores";

const NO_PARAMETERS: &str = "has parameters that its algorithm does not allow";

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true)
    .with_encode_padding(false);

/// Base64, written without padding.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);

const BCRYPT_BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::BCRYPT, LENIENT);

/// # Errors
/// A problem that does not repeat the hash.
pub(super) fn read(text: &str) -> Read<PasswordHash> {
    if text.len() > MAX_LENGTH {
        return Err("is longer than 1024 bytes");
    }
    let fields: Vec<&str> = text.split('$').collect();
    match fields.as_slice() {
        ["", "argon2i" | "argon2d" | "argon2id", ..] => argon2(text),
        ["argon2", "argon2i" | "argon2d" | "argon2id", ..] => argon2(&text["argon2".len()..]),
        ["", "2a" | "2b" | "2y", cost, hash] | ["bcrypt", "", "2a" | "2b" | "2y", cost, hash] => {
            bcrypt(false, cost, hash)
        }
        ["bcrypt_sha256", "", "2a" | "2b" | "2y", cost, hash] => bcrypt(true, cost, hash),
        ["", "bcrypt", cost, salt, hash] => new(bcrypt_of(false, cost)?, salt, hash),
        ["", "bcrypt-sha256-hex", cost, salt, hash] => new(bcrypt_of(true, cost)?, salt, hash),
        [
            "",
            name @ ("pbkdf2" | "pbkdf2-sha1" | "pbkdf2-sha256" | "pbkdf2-sha512"),
            cost,
            salt,
            hash,
        ] => {
            // passlib writes only the iterations, and `.` for `+`.
            let cost = parameter(cost, "i").or_else(|| cost.parse().ok());
            new(
                pbkdf2(name, cost)?,
                &salt.replace('.', "+"),
                &hash.replace('.', "+"),
            )
        }
        [
            name @ ("pbkdf2_sha1" | "pbkdf2_sha256" | "pbkdf2_sha512"),
            cost,
            salt,
            hash,
        ] => {
            let algorithm = pbkdf2(&name.replace('_', "-"), cost.parse().ok())?;
            PasswordHash::new(algorithm, salt.as_bytes().to_vec(), decode(hash)?)
        }
        ["", "scrypt", cost, salt, hash] => {
            let [log_n, r, p] = ["ln", "r", "p"].map(|key| parameter(cost, key));
            new(scrypt(log_n, r, p)?, salt, hash)
        }
        ["scrypt", n, salt, r, p, hash] => {
            let n = n.parse::<u32>().ok().filter(|n| n.is_power_of_two());
            let algorithm = scrypt(n.map(u32::ilog2), r.parse().ok(), p.parse().ok())?;
            PasswordHash::new(algorithm, salt.as_bytes().to_vec(), decode(hash)?)
        }
        _ if text.starts_with('{') => keycloak(text),
        _ => Err(UNKNOWN),
    }
}

fn decode(text: &str) -> Read<Vec<u8>> {
    BASE64
        .decode(text)
        .map_err(|_| "has a salt or a hash that is not base64")
}

fn new(algorithm: Algorithm, salt: &str, hash: &str) -> Read<PasswordHash> {
    PasswordHash::new(algorithm, decode(salt)?, decode(hash)?)
}

/// The parameter `key` of a list such as `ln=17,r=8,p=1`.
fn parameter(list: &str, key: &str) -> Option<u32> {
    let mut pairs = list.split(',').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == key)?.1.parse().ok()
}

fn argon2(text: &str) -> Read<PasswordHash> {
    let hash = argon2::PasswordHash::new(text).map_err(|_| UNKNOWN)?;
    let parameters = argon2::Params::try_from(&hash).map_err(|_| NO_PARAMETERS)?;
    let kind = argon2::Algorithm::try_from(hash.algorithm.as_str()).map_err(|_| UNKNOWN)?;
    // Hashes from before version 19 name no version.
    let version =
        argon2::Version::try_from(hash.version.unwrap_or(16)).map_err(|_| NO_PARAMETERS)?;
    let (Some(salt), Some(output)) = (&hash.salt, &hash.hash) else {
        return Err("lacks its salt or its hash");
    };
    let algorithm = Algorithm::Argon2 {
        kind,
        version,
        parameters,
        scheme: scheme(text).unwrap_or_default().to_owned(),
    };
    PasswordHash::new(algorithm, salt.to_vec(), output.as_bytes().to_vec())
}

/// `hash` is 22 characters of salt and 31 of hash.
fn bcrypt(is_sha256: bool, cost: &str, hash: &str) -> Read<PasswordHash> {
    let (salt, hash) = hash
        .split_at_checked(22)
        .filter(|_| hash.len() == 53)
        .ok_or(UNKNOWN)?;
    let decode = |text| BCRYPT_BASE64.decode(text).map_err(|_| UNKNOWN);
    PasswordHash::new(
        bcrypt_of(is_sha256, &format!("r={cost}"))?,
        decode(salt)?,
        decode(hash)?,
    )
}

fn bcrypt_of(is_sha256: bool, cost: &str) -> Read<Algorithm> {
    let cost = parameter(cost, "r").filter(|cost| (4..=31).contains(cost));
    let cost = cost.ok_or(NO_PARAMETERS)?;
    Ok(Algorithm::Bcrypt { cost, is_sha256 })
}

fn pbkdf2(name: &str, iterations: Option<u32>) -> Read<Algorithm> {
    let (digest, length) = match name {
        "pbkdf2-sha256" => (pbkdf2::PBKDF2_HMAC_SHA256, 32),
        "pbkdf2-sha512" => (pbkdf2::PBKDF2_HMAC_SHA512, 64),
        _ => (pbkdf2::PBKDF2_HMAC_SHA1, 20),
    };
    let iterations = iterations.and_then(|number| number.try_into().ok());
    Ok(Algorithm::Pbkdf2 {
        digest,
        length,
        iterations: iterations.ok_or(NO_PARAMETERS)?,
    })
}

fn scrypt(log_n: Option<u32>, r: Option<u32>, p: Option<u32>) -> Read<Algorithm> {
    // `Params::new` multiplies r by p.
    let small = |number: Option<u32>| number.filter(|number| *number <= 1024);
    let (Some(log_n), Some(r), Some(p)) = (small(log_n), small(r), small(p)) else {
        return Err(NO_PARAMETERS);
    };
    let log_n = u8::try_from(log_n)
        .ok()
        .filter(|log_n| (1..32).contains(log_n));
    let parameters = scrypt::Params::new(log_n.ok_or(NO_PARAMETERS)?, r, p);
    Ok(Algorithm::Scrypt(parameters.map_err(|_| NO_PARAMETERS)?))
}

/// A credential of an export of Keycloak: `credentialData` and `secretData` contain JSON as text.
fn keycloak(text: &str) -> Read<PasswordHash> {
    let credential: Value = serde_json::from_str(text).map_err(|_| UNKNOWN)?;
    let part =
        |key: &str| -> Option<Value> { serde_json::from_str(credential.get(key)?.as_str()?).ok() };
    let missing = "lacks credentialData or secretData, each with JSON as text";
    let data = part("credentialData").ok_or(missing)?;
    let secret = part("secretData").ok_or(missing)?;
    let text = |key: &str| secret.get(key).and_then(Value::as_str);
    let (Some(salt), Some(hash)) = (text("salt"), text("value")) else {
        return Err("lacks its salt or its hash");
    };
    let iterations = data.get("hashIterations").and_then(Value::as_u64);
    let iterations = iterations.and_then(|number| u32::try_from(number).ok());
    let name = data
        .get("algorithm")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match name {
        "pbkdf2" | "pbkdf2-sha256" | "pbkdf2-sha512" => new(pbkdf2(name, iterations)?, salt, hash),
        "argon2" => {
            let more = |key: &str| {
                data.pointer(&format!("/additionalParameters/{key}/0"))?
                    .as_str()
            };
            let version = match more("version") {
                Some("1.0") => 16,
                _ => 19,
            };
            let [kind, memory, lanes] = ["type", "memory", "parallelism"].map(more);
            let (Some(kind), Some(memory), Some(lanes), Some(passes)) =
                (kind, memory, lanes, iterations)
            else {
                return Err(NO_PARAMETERS);
            };
            let [salt, hash] = [salt, hash].map(|text| text.trim_end_matches('='));
            argon2(&format!(
                "$argon2{kind}$v={version}$m={memory},t={passes},p={lanes}${salt}${hash}"
            ))
        }
        _ => Err(
            "is by an algorithm of Keycloak other than argon2, pbkdf2, pbkdf2-sha256 and pbkdf2-sha512",
        ),
    }
}
