//! Request parameters in `application/x-www-form-urlencoded`, read strictly (RFC 6749 §3.1, §3.2, D-17).

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;

/// Parameters of one request. None occurs twice; an empty value counts as absent.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Parameters<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// Names alone: values may be codes, secrets, passwords.
impl fmt::Debug for Parameters<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

/// Why a query or form is not one that we read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// Not UTF-8, before or after percent-decoding.
    #[error("the parameters are not UTF-8")]
    NotUtf8,
    /// A `%` that two hexadecimal digits do not follow.
    #[error("a percent sign is not followed by two hexadecimal digits")]
    PercentEncoding,
    /// RFC 6749 §3.1, §3.2: "Request and response parameters MUST NOT be included more than once."
    #[error("a parameter is repeated")]
    Repeated(String),
}

impl<'a> Parameters<'a> {
    /// Reads a query string (without `?`) or a form body.
    ///
    /// # Errors
    /// A [`ParameterError`]; nothing of the request is to be used then.
    pub fn parse(encoded: &'a [u8]) -> Result<Self, ParameterError> {
        let encoded = std::str::from_utf8(encoded).map_err(|_| ParameterError::NotUtf8)?;
        let mut parameters = Vec::<(Cow<'a, str>, Cow<'a, str>)>::new();
        for pair in encoded.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = form_decode(name)?;
            if parameters.iter().any(|(earlier, _)| *earlier == name) {
                return Err(ParameterError::Repeated(name.into_owned()));
            }
            parameters.push((name, form_decode(value)?));
        }
        Ok(Self(parameters))
    }

    /// The value of `name`; `None` when it is absent or empty (RFC 6749 §3.1: "Parameters sent without a
    /// value MUST be treated as if they were omitted").
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(candidate, _)| candidate == name)
            .map(|(_, value)| value.as_ref())
            .filter(|value| !value.is_empty())
    }

    /// Whether `name` was sent, with or without a value.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|(candidate, _)| candidate == name)
    }
}

/// Decodes one name or value: `+` is a space, `%XX` a byte, the whole UTF-8.
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
        assert!(parameters.contains("b") && parameters.contains("c"));
        assert_eq!(parameters.get("ü"), Some("€"));
        assert_eq!(parameters.get("d"), Some("="));
        assert_eq!(parameters.get("e"), None);
    }

    /// Checklist row 12.
    #[test]
    fn refuses_repeated_names_however_they_are_spelled() {
        for query in ["a=1&a=1", "a=1&b=2&%61=3", "a&a", "a=&a=1"] {
            assert_eq!(
                Parameters::parse(query.as_bytes()),
                Err(ParameterError::Repeated("a".into())),
                "{query}"
            );
        }
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
