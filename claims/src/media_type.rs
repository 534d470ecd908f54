//! Media types in the header member `typ` (RFC 7515 §4.1.9, D-67).

const APPLICATION: &str = "application/";

/// True if two values of `typ` are the same media type. Letter case does not matter, nor does the prefix `application/` if no other
/// slash follows.
pub fn is_same(one: &str, other: &str) -> bool {
    short(one).eq_ignore_ascii_case(short(other))
}

/// Removes the optional prefix `application/` from a media type in `typ`.
pub fn short(typ: &str) -> &str {
    typ.get(..APPLICATION.len())
        .filter(|prefix| prefix.eq_ignore_ascii_case(APPLICATION))
        .and_then(|_| typ.get(APPLICATION.len()..))
        .filter(|rest| !rest.contains('/'))
        .unwrap_or(typ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letter_case_and_the_prefix_do_not_matter() {
        for (typ, is_equal) in [
            ("logout+jwt", true),
            ("LOGOUT+JWT", true),
            ("application/logout+jwt", true),
            ("Application/Logout+Jwt", true),
            ("logout+jwt;x", false),
            ("application/x/logout+jwt", false),
            ("text/logout+jwt", false),
            ("application/", false),
            (" logout+jwt", false),
            ("jwt", false),
            ("", false),
        ] {
            assert_eq!(is_same(typ, "logout+jwt"), is_equal, "{typ}");
        }
        // A prefix that ends within a character.
        assert_eq!(short("applicatio\u{eb}x"), "applicatio\u{eb}x");
    }
}
