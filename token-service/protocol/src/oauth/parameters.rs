//! Strict reading of request parameters in `application/x-www-form-urlencoded` (RFC 6749 §3.1, §3.2, D-17).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;

use percent_encoding::percent_decode_str;

/// Parameters of one request; each occurs once. A parameter with an empty value counts as omitted (D-31, RFC 6749 §3.1:
/// "Parameters sent without a value MUST be treated as if they were omitted from the request").
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Parameters<'a>(BTreeMap<Cow<'a, str>, Cow<'a, str>>);

/// Prints only the names, because values may be codes, secrets or passwords.
impl fmt::Debug for Parameters<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.keys()).finish()
    }
}

/// Names that occur more than once in one request.
pub type Repeated<'a> = BTreeSet<Cow<'a, str>>;

/// Reason why a query or form is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    #[error("the parameters are not UTF-8")]
    NotUtf8,
    #[error("a percent sign is not followed by two hexadecimal digits")]
    PercentEncoding,
    /// RFC 6749 §3.1, §3.2: "Request and response parameters MUST NOT be included more than once."
    #[error("a parameter is repeated")]
    Repeated(String),
}

/// Two sets of parameters have a name with different values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contradiction;

impl<'a> Parameters<'a> {
    /// Reads a query string (without `?`) or a form body.
    ///
    /// # Errors
    /// A [`ParameterError`]; the caller must not use any part of the request.
    pub fn parse(encoded: &'a [u8]) -> Result<Self, ParameterError> {
        let (parameters, repeated) = Self::parse_unrepeated(encoded)?;
        match repeated.into_iter().next() {
            None => Ok(parameters),
            Some(name) => Err(ParameterError::Repeated(name.into_owned())),
        }
    }

    /// Reads the parameters that occur once, and returns the names of repeated parameters, which have no usable value.
    /// The authorization endpoint needs this, because it must find the redirect URI before it refuses a request.
    ///
    /// # Errors
    /// [`ParameterError::NotUtf8`] or [`ParameterError::PercentEncoding`].
    pub fn parse_unrepeated(encoded: &'a [u8]) -> Result<(Self, Repeated<'a>), ParameterError> {
        let encoded = std::str::from_utf8(encoded).map_err(|_| ParameterError::NotUtf8)?;
        let mut parameters = BTreeMap::new();
        let mut repeated = Repeated::new();
        for pair in encoded.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (form_decode(name)?, form_decode(value)?);
            if value.is_empty() {
                continue;
            }
            match parameters.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(entry) => {
                    repeated.insert(entry.key().clone());
                }
            }
        }
        parameters.retain(|name, _| !repeated.contains(name));
        Ok((Self(parameters), repeated))
    }

    /// Parameters with these names and values. The caller must pass no empty value.
    pub fn of(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pairs = pairs
            .into_iter()
            .map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value)));
        Self(pairs.collect())
    }

    /// Adds `others` to these parameters (D-16).
    ///
    /// # Errors
    /// [`Contradiction`] if a name is in both sets with different values.
    pub fn merged_with(mut self, others: Self) -> Result<Self, Contradiction> {
        for (name, value) in others.0 {
            match self.0.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(entry) if *entry.get() == value => {}
                Entry::Occupied(_) => return Err(Contradiction),
            }
        }
        Ok(self)
    }

    /// The value of `name`, never empty. `None` if `name` is omitted.
    pub fn get(&self, name: impl AsRef<str>) -> Option<&str> {
        self.0.get(name.as_ref()).map(AsRef::as_ref)
    }

    /// True if the request has a value for `name`.
    pub fn contains(&self, name: impl AsRef<str>) -> bool {
        self.0.contains_key(name.as_ref())
    }

    /// A copy that does not borrow from the query or body.
    pub fn into_owned(self) -> Parameters<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let pairs = self.0.into_iter();
        Parameters(
            pairs
                .map(|(name, value)| (owned(name), owned(value)))
                .collect(),
        )
    }
}

/// Decodes one name or value: `+` is a space, `%XX` is a byte, the result is UTF-8.
///
/// # Errors
/// [`ParameterError::PercentEncoding`] or [`ParameterError::NotUtf8`].
pub fn form_decode(encoded: &str) -> Result<Cow<'_, str>, ParameterError> {
    let mut rest = encoded.as_bytes();
    while let Some(position) = rest.iter().position(|byte| *byte == b'%') {
        rest = match rest.split_at(position).1 {
            [_, high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest
            }
            _ => return Err(ParameterError::PercentEncoding),
        };
    }
    if !encoded.contains('+') {
        return percent_decode_str(encoded)
            .decode_utf8()
            .map_err(|_| ParameterError::NotUtf8);
    }
    let spaced = encoded.replace('+', " ");
    let decoded = percent_decode_str(&spaced)
        .decode_utf8()
        .map_err(|_| ParameterError::NotUtf8)?;
    Ok(Cow::Owned(decoded.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decodes_and_treats_empty_as_absent() {
        let parameters = Parameters::parse(b"a=1+2%2B&b=&c&%C3%BC=%E2%82%AC&&d==").unwrap();
        assert_eq!(parameters.get("a"), Some("1 2+"));
        assert_eq!(parameters.get("b"), None);
        assert_eq!(parameters.get("c"), None);
        assert!(!parameters.contains("b") && !parameters.contains("c"));
        assert_eq!(parameters.get("ü"), Some("€"));
        assert_eq!(parameters.get("d"), Some("="));
        assert_eq!(parameters.get("e"), None);
    }

    #[test]
    fn refuses_repeated_names_however_they_are_spelled() {
        for query in ["a=1&a=1", "a=1&b=2&%61=3", "a=1&a=&a=1", "a=1&a=2&a=3"] {
            assert_eq!(
                Parameters::parse(query.as_bytes()),
                Err(ParameterError::Repeated("a".into())),
                "{query}"
            );
        }
    }

    /// D-31.
    #[test]
    fn rfc6749_s3_1_without_a_value_nothing_was_sent() {
        for query in ["a=1&a=", "a&a=1", "a=1&a&a="] {
            let parameters = Parameters::parse(query.as_bytes()).unwrap();
            assert_eq!(parameters.get("a"), Some("1"), "{query}");
        }
        let body = Parameters::parse(b"a=&b=2").unwrap();
        let query = Parameters::parse(b"a=1&b=").unwrap();
        let merged = body.merged_with(query).unwrap();
        assert_eq!((merged.get("a"), merged.get("b")), (Some("1"), Some("2")));
        let other = Parameters::parse(b"a=2&b=2").unwrap();
        assert_eq!(merged.merged_with(other), Err(Contradiction));
    }

    #[test]
    fn a_repeated_parameter_has_no_value() {
        let (parameters, repeated) = Parameters::parse_unrepeated(b"a=1&b=2&%61=1").unwrap();
        assert_eq!(parameters.get("a"), None);
        assert_eq!(parameters.get("b"), Some("2"));
        assert_eq!(repeated, Repeated::from(["a".into()]));
    }

    #[test]
    fn refuses_what_is_not_utf8_or_not_percent_encoded() {
        assert_eq!(Parameters::parse(b"a=\xff"), Err(ParameterError::NotUtf8));
        assert_eq!(Parameters::parse(b"a=%ff"), Err(ParameterError::NotUtf8));
        for query in ["a=%", "a=%4", "a=%zz", "%=1", "a=%%41"] {
            assert_eq!(
                Parameters::parse(query.as_bytes()),
                Err(ParameterError::PercentEncoding),
                "{query}"
            );
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_url_standard_on_what_it_accepts(pairs in proptest::collection::btree_map("\\PC{1,8}", "\\PC{0,8}", 0..6)) {
            let encoded = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&pairs).finish();
            let parameters = Parameters::parse(encoded.as_bytes()).unwrap();
            for (name, value) in &pairs {
                prop_assert_eq!(parameters.get(name).unwrap_or(""), value);
            }
        }
    }
}
