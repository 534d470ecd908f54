//! Limits on the cost of checking a registered password hash.
//!
//! Checks with different parameters take different times, which would reveal who is registered. Therefore every check
//! does the work of all registered schemes ([`schemes`]), and no scheme may exceed the bounds in this module.

use argon2::{Params, PasswordHash};

/// Maximum memory of a password hash, in KiB: 128 MiB.
pub const MAX_MEMORY: u32 = 128 * 1024;

/// Maximum passes of a password hash.
pub const MAX_PASSES: u32 = 16;

/// Maximum of memory times passes, in KiB: about 13 times the work of a new hash.
pub const MAX_WORK: u64 = 512 * 1024;

/// Maximum number of schemes whose work every check does: the most expensive registered schemes.
const MOST_SCHEMES: usize = 4;

/// Algorithm, version and parameters of a PHC string, as text: the part before salt and hash.
#[must_use]
pub fn scheme(hash: &str) -> Option<&str> {
    let (rest, _hash) = hash.rsplit_once('$')?;
    let (scheme, _salt) = rest.rsplit_once('$')?;
    Some(scheme)
}

/// Memory times passes; `None` if `hash` is not an argon2 hash.
#[must_use]
pub fn work(hash: &PasswordHash) -> Option<u64> {
    let parameters = Params::try_from(hash).ok()?;
    Some(u64::from(parameters.m_cost()) * u64::from(parameters.t_cost()))
}

/// True if checking `hash` stays within the bounds.
#[must_use]
pub fn is_within_bounds(hash: &PasswordHash) -> bool {
    let within =
        |parameters: Params| parameters.m_cost() <= MAX_MEMORY && parameters.t_cost() <= MAX_PASSES;
    Params::try_from(hash).is_ok_and(within) && work(hash).is_some_and(|work| work <= MAX_WORK)
}

/// The work and the scheme of a hash; `None` if checking the hash exceeds the bounds.
#[must_use]
pub fn scheme_within_bounds(hash: &str) -> Option<(u64, &str)> {
    let parsed = PasswordHash::new(hash).ok()?;
    let work = work(&parsed).filter(|_| is_within_bounds(&parsed))?;
    Some((work, scheme(hash)?))
}

/// The distinct schemes of `hashes` within the bounds, the most expensive first.
pub fn schemes<'a>(hashes: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<(u64, &str)> = Vec::new();
    let mut last = "";
    for hash in hashes {
        let Some(scheme) = scheme(hash) else { continue };
        // Nearly all hashes have the same scheme.
        if scheme == last || found.iter().any(|(_, known)| *known == scheme) {
            continue;
        }
        if let Some(one) = scheme_within_bounds(hash) {
            found.push(one);
            last = scheme;
        }
    }
    let found = found.into_iter();
    most_expensive(found.map(|(work, scheme)| (work, scheme.to_owned())))
}

/// The most expensive of these distinct schemes, the most expensive first. Each scheme comes with its work.
pub fn most_expensive(schemes: impl Iterator<Item = (u64, String)>) -> Vec<String> {
    let mut schemes: Vec<(u64, String)> = schemes.collect();
    schemes.sort_by(|one, other| other.cmp(one));
    let most = schemes.into_iter().take(MOST_SCHEMES);
    most.map(|(_, scheme)| scheme).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(memory: u32, passes: u32) -> String {
        let salt_and_hash = "yDktG0K1Tk7h22spOXgPmA$GwMwFfwe0CGKrYdcHstP/5MtuYHf/9JfVYWUA0OXABc";
        format!("$argon2id$v=19$m={memory},t={passes},p=1${salt_and_hash}")
    }

    #[test]
    fn schemes_are_the_most_expensive_ones_within_the_bounds() {
        let mut hashes = vec!["plain".to_owned(), hash(1024 * 1024, 1), hash(64 * 1024, 9)];
        hashes.extend((1..=6).flat_map(|passes| [hash(8192, passes), hash(8192, passes)]));
        let expected: Vec<String> = [6, 5, 4, 3]
            .map(|passes| scheme(&hash(8192, passes)).unwrap().to_owned())
            .into();
        assert_eq!(schemes(hashes.iter().map(String::as_str)), expected);
    }
}
