//! Scopes (RFC 6749 §3.3).

use serde::{Deserialize, Serialize};

use crate::text::text;

/// A set of scope tokens. Written as the tokens in alphabetical order, separated by spaces.
///
/// Kept in this form too, because every token and every step of a grant contains it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Scope(String);

impl Scope {
    /// Parses scope tokens separated by single spaces; `None` if the text is empty or contains an invalid character
    /// (RFC 6749 §3.3: `%x21 / %x23-5B / %x5D-7E`).
    pub fn parse(text: &str) -> Option<Self> {
        Self::of(text.to_owned())
    }

    fn of(text: String) -> Option<Self> {
        let legal = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        if !text
            .split(' ')
            .all(|token| !token.is_empty() && token.bytes().all(legal))
        {
            return None;
        }
        if text.split(' ').is_sorted_by(|one, next| one < next) {
            return Some(Self(text));
        }
        let mut tokens: Vec<&str> = text.split(' ').collect();
        tokens.sort_unstable();
        tokens.dedup();
        Some(Self(tokens.join(" ")))
    }

    /// True if `other` contains every token.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        // Both are in alphabetical order, so each search continues where the previous one ended.
        let mut others = other.tokens();
        self.tokens()
            .all(|token| others.any(|other| other == token))
    }

    /// The tokens that `other` contains too.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut common: Vec<&str> = self.tokens().collect();
        common.retain(|token| other.tokens().any(|other| other == *token));
        Self(common.join(" "))
    }

    pub fn without(&self, other: &Self) -> Self {
        let mut excess: Vec<&str> = self.tokens().collect();
        excess.retain(|token| other.tokens().all(|other| other != *token));
        Self(excess.join(" "))
    }

    /// The tokens, in alphabetical order.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        // Between spaces there are tokens only, except in the empty text.
        self.0.split(' ').filter(|token| !token.is_empty())
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<String> for Scope {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        Self::of(text).ok_or("not a list of scope tokens separated by single spaces")
    }
}

text!(Scope);

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(text: &str) -> Scope {
        Scope::parse(text).unwrap()
    }

    #[test]
    fn rfc6749_s3_3_the_order_of_the_tokens_does_not_matter() {
        assert_eq!(scope("b a b ab"), scope("a ab b"));
        assert_eq!(scope("b a b ab").to_string(), "a ab b");
        let tokens = |scope: &Scope| scope.tokens().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(tokens(&scope("b a")), ["a", "b"]);
        assert!(tokens(&Scope::default()).is_empty());
    }

    #[test]
    fn rfc6749_s3_3_other_texts_are_no_scope() {
        for bad in ["", " ", "a ", " a", "a  b", "a\"", "a\\", "a\tb", "\u{e9}"] {
            assert_eq!(Scope::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_subset_has_no_token_of_its_own() {
        let granted = scope("documents projects users");
        for subset in ["documents", "users projects", "users projects documents"] {
            assert!(scope(subset).is_subset_of(&granted), "{subset}");
        }
        for other in [
            "a",
            "documents e",
            "project",
            "users v",
            "documentsprojects",
        ] {
            assert!(!scope(other).is_subset_of(&granted), "{other}");
        }
        assert!(Scope::default().is_subset_of(&granted));
        assert!(!granted.is_subset_of(&Scope::default()));
    }

    #[test]
    fn an_intersection_has_the_tokens_of_both() {
        let granted = scope("documents projects users");
        for (other, expected) in [
            ("documents projects users", "documents projects users"),
            ("a users z documents", "documents users"),
            ("document", ""),
        ] {
            let expected = Scope::try_from(expected.to_owned()).unwrap();
            assert_eq!(granted.intersection(&scope(other)), expected, "{other}");
        }
        let excess = scope("a documents z").without(&granted);
        assert_eq!(excess, scope("a z"));
        assert!(granted.without(&granted).is_empty());
    }

    /// Rows, registrations and tokens contain scopes.
    #[test]
    fn is_written_as_a_text() {
        let written = serde_json::to_string(&scope("b a")).unwrap();
        assert_eq!(written, r#""a b""#);
        assert_eq!(
            serde_json::from_str::<Scope>(r#""b a a""#).unwrap(),
            scope("a b")
        );
        assert_eq!(
            serde_json::from_str::<Scope>(r#""""#).unwrap(),
            Scope::default()
        );
        assert!(serde_json::from_str::<Scope>(r#"" ""#).is_err());
        assert_eq!(
            postcard::to_stdvec(&scope("b a")).unwrap(),
            postcard::to_stdvec("a b").unwrap()
        );
    }
}
