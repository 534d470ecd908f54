//! The public keys of one issuer.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::json::present;
use serde_json::{Map, Value};

use crate::algorithm::Algorithm;
use crate::signature::{RSA, SignatureKey};

/// Most keys of a set. The guard searches the whole set for each new token.
pub const MAX_KEYS: usize = 100;

/// Longest JWKS that is read, in bytes.
pub const MAX_JWKS_BYTES: usize = 512 * 1024;

/// Members that make up a key, including private members, because the guard refuses a private key that was
/// published.
const MATERIAL: [&str; 15] = [
    "kty", "crv", "x", "y", "n", "e", "d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv",
];

/// Most unusable keys that a remark describes one by one.
const MAX_DESCRIBED: usize = 10;

#[derive(Debug)]
pub struct Key {
    pub kid: String,
    /// The only algorithm that the key verifies.
    pub algorithm: Algorithm,
    pub signature_key: SignatureKey,
    /// The members of the JWK that make up the key. Two keys are the same if these members are.
    material: Map<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    pub count: usize,
    /// Descriptions of the first ten keys.
    pub described: Vec<String>,
}

impl Skipped {
    fn note(&mut self, index: usize, why: &str) {
        self.count += 1;
        if self.described.len() < MAX_DESCRIBED {
            self.described.push(format!("key {index}: {why}"));
        }
    }

    /// All descriptions in one line.
    pub fn line(&self) -> String {
        let mut line = self.described.join("; ");
        let others = self.count.saturating_sub(self.described.len());
        if others > 0 {
            line.push_str(&format!("; and {others} more"));
        }
        line
    }
}

/// The keys of one issuer, by key identifier.
#[derive(Debug, Clone, Default)]
pub struct KeySet(Vec<Arc<Key>>);

impl KeySet {
    /// Reads a JWK set (RFC 7517 §5). Keys that the guard cannot use are left out and described.
    ///
    /// `algorithms` are the algorithms of the issuer's tokens. Each key verifies one algorithm (RFC 8725 §3.1): that of
    /// its `alg`, or else the only one of `algorithms` that fits its type. A key that is also in `previous` is
    /// taken from there, so that tokens verified with it stay in the cache and nothing is computed again.
    ///
    /// # Errors
    /// The text is not a JWK set.
    pub fn parse(
        text: &[u8],
        algorithms: &BTreeSet<Algorithm>,
        previous: &Self,
    ) -> Result<(Self, Skipped), String> {
        if text.len() > MAX_JWKS_BYTES {
            return Err(format!("larger than {MAX_JWKS_BYTES} bytes"));
        }
        let mut set = claims::json::parse_file(text).map_err(|error| error.to_string())?;
        match set.remove("keys") {
            Some(list @ Value::Array(_)) => Ok(Self::of_values(&list, algorithms, previous)),
            _ => Err("it has no list of keys".to_owned()),
        }
    }

    /// Reads the keys of a JSON list, and describes the keys that were left out.
    pub fn of_values(
        list: &Value,
        algorithms: &BTreeSet<Algorithm>,
        previous: &Self,
    ) -> (Self, Skipped) {
        let mut keys = Self::default();
        let mut skipped = Skipped::default();
        let values = list.as_array().map(Vec::as_slice).unwrap_or_default();
        for (index, value) in values.iter().enumerate() {
            let key = match value.as_object() {
                Some(_) if keys.0.len() >= MAX_KEYS => Err("one key too many"),
                Some(members) => Key::read(members, algorithms, previous, &keys),
                None => Err("not an object"),
            };
            match key {
                Ok(key) => keys.0.push(key),
                Err(why) => skipped.note(index, why),
            }
        }
        (keys, skipped)
    }

    /// The key of a token. Several keys may have the same `kid` if their algorithms differ (D-55, RFC 7517 §4.5).
    pub fn get(&self, kid: &str, algorithm: Algorithm) -> Option<&Arc<Key>> {
        let mut keys = self.0.iter();
        keys.find(|key| key.kid == kid && key.algorithm == algorithm)
    }

    pub fn has_kid(&self, kid: &str) -> bool {
        self.0.iter().any(|key| key.kid == kid)
    }

    /// True if exactly this key is still in the set.
    pub fn trusts(&self, key: &Arc<Key>) -> bool {
        self.0.iter().any(|other| Arc::ptr_eq(other, key))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Key {
    /// Reads one key, or takes it from `previous`. `others` are the keys before it in the set.
    fn read(
        members: &Map<String, Value>,
        algorithms: &BTreeSet<Algorithm>,
        previous: &KeySet,
        others: &KeySet,
    ) -> Result<Arc<Self>, &'static str> {
        if present(members, "use").is_some_and(|usage| usage != "sig") {
            return Err("not for signatures");
        }
        if present(members, "key_ops").is_some_and(|operations| !lists(operations, "verify")) {
            return Err("not for verifying");
        }
        let kid = text(members, "kid")
            .filter(|kid| !kid.is_empty())
            .ok_or("it has no kid")?;
        let algorithm = algorithm(members, algorithms)?;
        if others.get(kid, algorithm).is_some() {
            return Err("another key has the same kid and algorithm");
        }
        let material = material(members)?;
        let is_same = |key: &&Arc<Self>| key.material == material;
        if let Some(known) = previous.get(kid, algorithm).filter(is_same) {
            return Ok(Arc::clone(known));
        }
        Ok(Arc::new(Self {
            kid: kid.to_owned(),
            algorithm,
            signature_key: signature_key(&material, algorithm)?,
            material,
        }))
    }
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    present(members, name).and_then(Value::as_str)
}

/// The members that make up the key. RFC 7518 §6.3.1.1: a modulus has no leading zero byte, but Java's `BigInteger` adds one.
fn material(members: &Map<String, Value>) -> Result<Map<String, Value>, &'static str> {
    let of_key = MATERIAL.into_iter();
    let of_key = of_key.filter_map(|name| Some((name.to_owned(), present(members, name)?.clone())));
    let mut material: Map<String, Value> = of_key.collect();
    let padded = ["n", "e", "x", "y"].map(|name| text(members, name));
    if padded.into_iter().flatten().any(|text| text.ends_with('=')) {
        return Err("a member ends with =: base64url in a JWK has no padding");
    }
    let modulus = text(members, "n").and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    if let Some(bytes) = modulus.filter(|bytes| bytes.first() == Some(&0)) {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let modulus = URL_SAFE_NO_PAD.encode(bytes.get(zeros..).unwrap_or_default());
        material.insert("n".to_owned(), Value::String(modulus));
    }
    Ok(material)
}

/// The only algorithm that a key verifies. `algorithms` are the algorithms of the issuer's tokens.
fn algorithm(
    members: &Map<String, Value>,
    algorithms: &BTreeSet<Algorithm>,
) -> Result<Algorithm, &'static str> {
    let of_type: &[Algorithm] = match (text(members, "kty"), text(members, "crv")) {
        (Some("OKP"), Some("Ed25519")) => &[Algorithm::EdDsa],
        (Some("EC"), Some("P-256")) => &[Algorithm::Es256],
        (Some("EC"), Some("P-384")) => &[Algorithm::Es384],
        (Some("OKP" | "EC"), _) => return Err("its curve is not supported"),
        (Some("RSA"), _) => &RSA,
        _ => return Err("its type is not supported"),
    };
    if let Some(alg) = present(members, "alg") {
        let named = alg.as_str().and_then(Algorithm::from_name);
        let named = named
            .filter(|algorithm| of_type.contains(algorithm))
            .ok_or("its alg is not supported, or not one for its type")?;
        return match algorithms.contains(&named) {
            true => Ok(named),
            false => Err("the issuer's tokens do not use its algorithm"),
        };
    }
    let mut possible = of_type
        .iter()
        .filter(|possible| algorithms.contains(possible));
    match (possible.next(), possible.next()) {
        (Some(only), None) => Ok(*only),
        (None, _) => Err("the issuer's tokens do not use its algorithm"),
        (Some(_), Some(_)) => {
            Err("it has no alg, and its type could have several algorithms of the issuer's tokens")
        }
    }
}

fn lists(list: &Value, text: &str) -> bool {
    list.as_array()
        .is_some_and(|values| values.iter().any(|value| value == text))
}

/// Reads a key from its own JWK members (RFC 7518 §6, RFC 8037 §2). [`Key::read`] checks the other members.
fn signature_key(
    material: &Map<String, Value>,
    algorithm: Algorithm,
) -> Result<SignatureKey, &'static str> {
    let text = |name: &str| {
        material
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let bytes = |name: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(text(name));
        bytes.map_err(|_| "a member is not base64url")
    };
    let jwk = || serde_json::to_string(material).map_err(|_| "it cannot be read");
    match algorithm {
        // For the other algorithms, jwt-simple checks this.
        Algorithm::EdDsa | Algorithm::Es384 if material.contains_key("d") => Err("it is private"),
        Algorithm::EdDsa => SignatureKey::ed25519(&bytes("x")?),
        Algorithm::Es256 => SignatureKey::p256(&jwk()?),
        Algorithm::Es384 => SignatureKey::p384(&bytes("x")?, &bytes("y")?),
        Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512 | Algorithm::Ps256 => {
            SignatureKey::rsa(&jwk()?, algorithm)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Issuer;

    fn parse(keys: &[Value], previous: &KeySet) -> (KeySet, Skipped) {
        let text = json!({ "keys": keys }).to_string();
        KeySet::parse(
            text.as_bytes(),
            &Algorithm::ALL.iter().copied().collect(),
            previous,
        )
        .unwrap()
    }

    fn rsa_key(modulus: &[u8]) -> Value {
        json!({"kty": "RSA", "kid": "rsa", "alg": "RS256", "n": URL_SAFE_NO_PAD.encode(modulus), "e": "AQAB"})
    }

    #[test]
    fn rfc7518_s3_3_rsa_keys_have_2048_bits_or_more() {
        for (first, length, accepted) in [
            (0x80, 256, true),
            (0xff, 256, true),
            (0x80, 512, true),
            (0x7f, 256, false),
            (0x01, 256, false),
            (0x00, 257, true),
            (0x00, 256, false),
            (0xff, 255, false),
            (0x01, 257, true),
            (0x01, 513, false),
        ] {
            let mut modulus = vec![0xff; length];
            modulus[0] = first;
            let (keys, skipped) = parse(&[rsa_key(&modulus)], &KeySet::default());
            assert_eq!(
                !keys.is_empty(),
                accepted,
                "{first:#x} {length} {skipped:?}"
            );
        }
        assert!(parse(&[rsa_key(&[])], &KeySet::default()).0.is_empty());
    }

    /// What Java and .NET write.
    #[test]
    fn another_spelling_of_a_key_is_the_same_key() {
        let issuer = Issuer::new(Algorithm::Rs256);
        let (known, _) = parse(&[issuer.jwk("a")], &KeySet::default());
        let known = known.get("a", Algorithm::Rs256).unwrap();
        let same = |text: &[u8]| {
            let algorithms = [Algorithm::Rs256].into();
            let previous = KeySet(vec![Arc::clone(known)]);
            let (keys, skipped) = KeySet::parse(text, &algorithms, &previous).unwrap();
            assert!(keys.trusts(known), "{skipped:?}");
        };
        let modulus = URL_SAFE_NO_PAD.decode(issuer.jwk("a")["n"].as_str().unwrap());
        let mut long = issuer.jwk("a");
        long["n"] = json!(URL_SAFE_NO_PAD.encode([vec![0], modulus.unwrap()].concat()));
        let mut nulls = issuer.jwk("a");
        for name in ["use", "alg", "key_ops", "x5c", "x5t", "crv", "d", "oth"] {
            nulls[name] = json!(null);
        }
        for jwk in [&long, &nulls] {
            same(json!({ "keys": [jwk] }).to_string().as_bytes());
        }
        same(&["\u{feff}".as_bytes(), &issuer.jwks_of("a")].concat());
    }

    #[test]
    fn padding_names_itself() {
        for (algorithm, name) in [(Algorithm::Rs256, "n"), (Algorithm::Es256, "x")] {
            let mut jwk = Issuer::new(algorithm).jwk("a");
            jwk[name] = json!(format!("{}==", jwk[name].as_str().unwrap()));
            let (keys, skipped) = parse(&[jwk], &KeySet::default());
            assert!(
                keys.is_empty() && skipped.line().contains("no padding"),
                "{skipped:?}"
            );
        }
    }

    /// D-55, RFC 7517 §4.5. In any order, and without `alg` where the type of the key leaves one algorithm.
    #[test]
    fn rfc7517_s4_5_one_kid_names_a_key_for_each_algorithm() {
        let (rsa, ec) = (Issuer::new(Algorithm::Rs256), Issuer::new(Algorithm::Es256));
        let mut rs512 = rsa.jwk("a");
        rs512["alg"] = json!("RS512");
        let mut bare = ec.jwk("a");
        bare.as_object_mut().unwrap().remove("alg");
        let encryption = json!({"kid": "a", "use": "enc", "kty": "RSA", "alg": "RSA-OAEP", "n": "AQAB", "e": "AQAB"});
        let list = [rs512, encryption, bare, rsa.jwk("a")];
        let reversed: Vec<Value> = list.iter().rev().cloned().collect();
        for list in [list.as_slice(), &reversed] {
            let (keys, skipped) = parse(list, &KeySet::default());
            assert_eq!((keys.0.len(), skipped.count), (3, 1), "{skipped:?}");
            for algorithm in [Algorithm::Rs256, Algorithm::Rs512, Algorithm::Es256] {
                assert_eq!(keys.get("a", algorithm).unwrap().algorithm, algorithm);
            }
            assert!(keys.get("a", Algorithm::Rs384).is_none() && keys.has_kid("a"));
            let (again, _) = parse(list, &keys);
            assert!(keys.0.iter().all(|key| again.trusts(key)));
        }
        let other = Issuer::new(Algorithm::Rs256).jwk("a");
        let (keys, skipped) = parse(&[rsa.jwk("a"), other], &KeySet::default());
        assert_eq!(
            (keys.0.len(), skipped.count),
            (1, 1),
            "one key for one algorithm"
        );
    }

    #[test]
    fn a_published_private_key_is_no_key() {
        let issuer = Issuer::new(Algorithm::EdDsa);
        let mut jwk = issuer.jwk("a");
        jwk["d"] = json!(URL_SAFE_NO_PAD.encode([1; 32]));
        let (known, _) = parse(&[issuer.jwk("a")], &KeySet::default());
        for previous in [&KeySet::default(), &known] {
            assert!(parse(&[jwk.clone()], previous).0.is_empty());
        }
    }

    #[test]
    fn known_keys_are_taken_over_as_they_are() {
        for algorithm in Algorithm::ALL.iter().copied() {
            let (one, two) = (Issuer::new(algorithm), Issuer::new(algorithm));
            let (before, _) = parse(&[one.jwk("a"), two.jwk("b")], &KeySet::default());
            let swapped = [two.jwk("a"), two.jwk("b"), one.jwk("c")];
            let (after, _) = parse(&swapped, &before);
            let same = |kid: &str| {
                let [old, new] = [&before, &after].map(|keys| keys.get(kid, algorithm).unwrap());
                Arc::ptr_eq(old, new)
            };
            assert!(same("b"), "{algorithm:?}");
            assert!(!same("a"), "another key of the same name, {algorithm:?}");
            assert_eq!(after.0.len(), 3);
        }
    }

    /// RFC 8725 §3.1.
    #[test]
    fn a_key_without_alg_needs_a_list_that_leaves_one_algorithm() {
        let issuer = Issuer::new(Algorithm::Ps256);
        let mut jwk = issuer.jwk("a");
        jwk.as_object_mut().unwrap().remove("alg");
        let text = json!({"keys": [jwk]}).to_string();
        let read = |algorithms: &[Algorithm]| {
            let algorithms = algorithms.iter().copied().collect();
            let (keys, skipped) =
                KeySet::parse(text.as_bytes(), &algorithms, &KeySet::default()).unwrap();
            let key = keys.0.first();
            key.map(|key| key.algorithm).ok_or(skipped.line())
        };
        for only in [Algorithm::Rs256, Algorithm::Ps256] {
            assert_eq!(read(&[Algorithm::EdDsa, only, Algorithm::Es256]), Ok(only));
        }
        let ambiguous = read(&[Algorithm::Rs256, Algorithm::Ps256]).unwrap_err();
        assert!(ambiguous.contains("it has no alg"), "{ambiguous}");
        let none = read(&[Algorithm::EdDsa]).unwrap_err();
        assert!(none.contains("do not use its algorithm"), "{none}");
    }

    /// Tokens of the old algorithm were verified with the old key, and are no longer trusted.
    #[test]
    fn the_same_material_with_another_alg_is_another_key() {
        let issuer = Issuer::new(Algorithm::Rs256);
        let (before, _) = parse(&[issuer.jwk("a")], &KeySet::default());
        let mut jwk = issuer.jwk("a");
        jwk["alg"] = json!("PS256");
        let (after, _) = parse(&[jwk], &before);
        assert!(after.get("a", Algorithm::Ps256).is_some());
        assert!(!after.trusts(before.get("a", Algorithm::Rs256).unwrap()));
    }

    #[test]
    fn rfc7518_s6_2_1_coordinates_are_of_the_curve() {
        for (algorithm, of_another) in [("P-256", "ES384"), ("P-384", "ES256")] {
            let own = Algorithm::from_name(&format!("ES{}", &algorithm[2..])).unwrap();
            let jwk = Issuer::new(own).jwk("a");
            for (name, value) in [
                ("alg", json!(of_another)),
                ("alg", json!(7)),
                ("crv", json!("P-521")),
                ("x", json!(null)),
                ("y", json!("AA")),
                ("y", json!("****")),
                ("d", json!("AA")),
            ] {
                let mut jwk = jwk.clone();
                jwk[name] = value;
                assert!(
                    parse(&[jwk], &KeySet::default()).0.is_empty(),
                    "{algorithm} {name}"
                );
            }
            assert!(!parse(&[jwk], &KeySet::default()).0.is_empty());
        }
    }

    /// A known key must still pass the checks of its other members.
    #[test]
    fn a_known_key_that_is_no_longer_for_signatures_is_left_out() {
        let issuer = Issuer::new(Algorithm::EdDsa);
        let (before, _) = parse(&[issuer.jwk("a")], &KeySet::default());
        for (name, value) in [
            ("use", json!("enc")),
            ("key_ops", json!(["sign"])),
            ("alg", json!("RS256")),
        ] {
            let mut jwk = issuer.jwk("a");
            jwk[name] = value;
            let (after, skipped) = parse(&[jwk], &before);
            assert!(after.is_empty(), "{name}");
            assert_eq!(skipped.count, 1);
        }
        let text = json!({"keys": [issuer.jwk("a")]}).to_string();
        let algorithms = [Algorithm::Es256].into();
        let (after, _) = KeySet::parse(text.as_bytes(), &algorithms, &before).unwrap();
        assert!(after.is_empty());
    }

    #[test]
    fn a_thousand_unusable_keys_make_one_short_line() {
        let issuer = Issuer::new(Algorithm::EdDsa);
        let mut list = vec![issuer.jwk("a"), issuer.jwk("a")];
        list.extend(std::iter::repeat_n(json!({}), 1000));
        let (keys, skipped) = parse(&list, &KeySet::default());
        assert_eq!((keys.0.len(), skipped.count), (1, 1001));
        let line = skipped.line();
        assert!(line.starts_with(
            "key 1: another key has the same kid and algorithm; key 2: it has no kid;"
        ));
        assert!(
            line.ends_with("; and 991 more") && line.len() < 400,
            "{line}"
        );
    }
}
