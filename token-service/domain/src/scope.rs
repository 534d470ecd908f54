//! Scopes (RFC 6749 §3.3).

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A set of scope tokens. Written as the tokens in alphabetical order, separated by spaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scope(BTreeSet<String>);

impl Scope {
    /// Parses scope tokens separated by single spaces; `None` if the text is empty or contains an invalid character
    /// (RFC 6749 §3.3: `%x21 / %x23-5B / %x5D-7E`).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let legal = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        text.split(' ')
            .map(|token| (!token.is_empty() && token.bytes().all(legal)).then(|| token.to_owned()))
            .collect::<Option<_>>()
            .map(Self)
    }

    /// True if `other` contains every token.
    #[must_use]
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// The tokens, in alphabetical order.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<String> for Scope {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        Self::parse(&text).ok_or("not a list of scope tokens separated by single spaces")
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, token) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str(" ")?;
            }
            formatter.write_str(token)?;
        }
        Ok(())
    }
}
