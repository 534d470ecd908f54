//! The `Authorization` header (RFC 6750 §2.1, RFC 9449 §7.1).

use claims::dpop::SCHEME;
use strum::{IntoStaticStr, VariantNames};

/// A scheme with which clients present tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scheme {
    #[default]
    Bearer,
    Dpop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// No `Authorization` header, or another scheme.
    None,
    /// The scheme, and the text in the place of a token. [`access_token`] checks whether it is a token.
    Token(Scheme, &'a [u8]),
}

/// Credentials that cannot be read. The response is 400 with `invalid_request` (RFC 6750 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum MalformedCredentials {
    /// More than one header (RFC 6750 §2: "Clients MUST NOT use more than one method").
    #[strum(serialize = "several_credentials")]
    Several,
    /// The scheme is Bearer or DPoP, but spaces and a token (RFC 6750 §2.1, `b64token`) do not follow.
    #[strum(serialize = "malformed_credentials")]
    Token,
}

/// Reads all `Authorization` headers of a request: `auth-scheme 1*SP token68` (RFC 9110 §11.4). Only spaces, at
/// least one, may stand between scheme and token. White space after the token does not belong to the value (RFC
/// 9110 §5.5).
///
/// # Errors
/// [`MalformedCredentials::Several`]; [`MalformedCredentials::Token`] if a character other than a space follows the
/// scheme.
pub fn read<'a>(headers: &[&'a [u8]]) -> Result<Credentials<'a>, MalformedCredentials> {
    let header = match headers {
        [] => return Ok(Credentials::None),
        [header] => *header,
        [_, _, ..] => return Err(MalformedCredentials::Several),
    };
    let after = |name: &[u8]| {
        let (start, rest) = header.split_at_checked(name.len())?;
        let is_whole = !rest.first().is_some_and(|byte| is_token_byte(*byte));
        (is_whole && start.eq_ignore_ascii_case(name)).then_some(rest)
    };
    let (scheme, mut rest) = if let Some(rest) = after(b"bearer") {
        (Scheme::Bearer, rest)
    } else if let Some(rest) = after(SCHEME.as_bytes()) {
        (Scheme::Dpop, rest)
    } else {
        return Ok(Credentials::None);
    };
    if !matches!(rest.first(), None | Some(b' ')) {
        return Err(MalformedCredentials::Token);
    }
    while let [b' ', after @ ..] = rest {
        rest = after;
    }
    while let [before @ .., b' ' | b'\t'] = rest {
        rest = before;
    }
    Ok(Credentials::Token(scheme, rest))
}

/// True if a byte can be part of an HTTP token (RFC 9110 §5.6.2), such as the name of a scheme or a method.
pub const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Returns the token if it has only the characters of a token. This examines each character, so callers should
/// search the cache first.
///
/// # Errors
/// [`MalformedCredentials::Token`].
pub fn access_token(credentials: &[u8]) -> Result<&str, MalformedCredentials> {
    let legal = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
    };
    if credentials.is_empty() || !credentials.iter().all(legal) {
        return Err(MalformedCredentials::Token);
    }
    std::str::from_utf8(credentials).map_err(|_| MalformedCredentials::Token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc6750_s2_1_the_scheme_is_bearer_in_any_case() {
        for header in [
            "Bearer a.b.c",
            "bearer a.b.c",
            "Bearer  a.b.c",
            "BEARER   a.b.c ",
            "Bearer a.b.c \t",
            "bEaReR a.b.c",
        ] {
            assert_eq!(
                read(&[header.as_bytes()]),
                Ok(Credentials::Token(Scheme::Bearer, b"a.b.c".as_slice())),
                "{header}"
            );
        }
    }

    #[test]
    fn rfc9449_s7_1_the_scheme_is_dpop_in_any_case() {
        for header in ["DPoP a.b.c", "dpop a.b.c", "DPOP  a.b.c "] {
            let token = Credentials::Token(Scheme::Dpop, b"a.b.c");
            assert_eq!(read(&[header.as_bytes()]), Ok(token), "{header}");
        }
        let both = [b"DPoP a.b.c".as_slice(), b"Bearer a.b.c"];
        assert_eq!(read(&both), Err(MalformedCredentials::Several));
        assert_eq!(read(&[b"DPoP,a.b.c"]), Err(MalformedCredentials::Token));
    }

    #[test]
    fn other_schemes_are_no_token() {
        assert_eq!(read(&[]), Ok(Credentials::None));
        for header in [
            "Basic abc",
            "",
            "Bearer_ x",
            "Bearers x",
            "DPoPs x",
            " Bearer x",
        ] {
            assert_eq!(
                read(&[header.as_bytes()]),
                Ok(Credentials::None),
                "{header}"
            );
        }
    }

    #[test]
    fn rfc6750_s2_one_header_with_one_token() {
        for header in [
            b"Bearer".as_slice(),
            b"Bearer ",
            b"Bearer a b",
            b"Bearer a,b",
            b"Bearer \xff",
            b"bearer \"a\"",
            b"Bearer \ta.b.c",
            b"Bearer a.b.c\n",
        ] {
            let Ok(Credentials::Token(_, credentials)) = read(&[header]) else {
                panic!("{header:?}");
            };
            assert_eq!(
                access_token(credentials),
                Err(MalformedCredentials::Token),
                "{header:?}"
            );
        }
        for header in [
            b"Bearer\ta.b.c".as_slice(),
            b"Bearer,a.b.c",
            b"bearer=a.b.c",
            b"Bearer\xa0a.b.c",
        ] {
            assert_eq!(
                read(&[header]),
                Err(MalformedCredentials::Token),
                "{header:?}"
            );
        }
        assert_eq!(access_token(b"a.b-_.~+/="), Ok("a.b-_.~+/="));
        let twice = [b"Bearer a.b.c".as_slice(), b"Bearer a.b.c"];
        assert_eq!(read(&twice), Err(MalformedCredentials::Several));
        assert_eq!(
            read(&[b"Bearer a.b.c", b"Basic x"]),
            Err(MalformedCredentials::Several)
        );
    }
}
