//! The schemes of stored password hashes, which the index of users counts.

/// Maximum number of schemes that unknown names share: those that most users have.
const MOST_SCHEMES: usize = 1000;

/// Algorithm, version and parameters of a stored hash, as text: the part before salt and hash.
pub fn scheme(hash: &str) -> Option<&str> {
    let (rest, _hash) = hash.rsplit_once('$')?;
    let (scheme, _salt) = rest.rsplit_once('$')?;
    Some(scheme)
}

/// A scheme, and the number of users whose stored hash has this scheme.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsedScheme {
    pub scheme: String,
    pub users: u64,
}

/// The schemes that most users have, in the order of their texts.
pub fn most_used(mut schemes: Vec<UsedScheme>) -> Vec<UsedScheme> {
    schemes.sort_by(|one, other| other.users.cmp(&one.users).then_with(|| one.cmp(other)));
    schemes.truncate(MOST_SCHEMES);
    schemes.sort();
    schemes
}
