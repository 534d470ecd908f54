//! The `Authorization` header (RFC 6750 §2.1).

/// What a request presents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// No `Authorization` header, or one of another scheme.
    None,
    /// What stands where a bearer token belongs; [`bearer_token`] says whether it is one.
    Bearer(&'a [u8]),
}

/// Credentials that cannot be read: 400, RFC 6750 §3.1 `invalid_request`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MalformedCredentials {
    /// More than one header: which of them counts would be a guess (RFC 6750 §2: "Clients MUST NOT use more than
    /// one method").
    Several,
    /// The scheme is Bearer, and what follows is not spaces and a token (RFC 6750 §2.1, `b64token`).
    Token,
}

/// Reads all `Authorization` headers of a request, as sent: `auth-scheme 1*SP token68` (RFC 9110 §11.4). Between scheme
/// and token stand one or more spaces and nothing else; white space behind the token belongs to no value (RFC 9110
/// §5.5).
///
/// # Errors
/// [`MalformedCredentials::Several`]; [`MalformedCredentials::Token`] when something other than a space ends the
/// scheme.
pub fn read<'a>(headers: &[&'a [u8]]) -> Result<Credentials<'a>, MalformedCredentials> {
    let header = match headers {
        [] => return Ok(Credentials::None),
        [header] => *header,
        [_, _, ..] => return Err(MalformedCredentials::Several),
    };
    let end = header.iter().position(|byte| !is_token_byte(*byte));
    let (scheme, mut rest) = header.split_at(end.unwrap_or(header.len()));
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Ok(Credentials::None);
    }
    if !matches!(rest.first(), None | Some(b' ')) {
        return Err(MalformedCredentials::Token);
    }
    while let [b' ', after @ ..] = rest {
        rest = after;
    }
    while let [before @ .., b' ' | b'\t'] = rest {
        rest = before;
    }
    Ok(Credentials::Bearer(rest))
}

/// Whether a byte may stand in a token of HTTP (RFC 9110 §5.6.2): the name of a scheme or a method.
#[must_use]
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

/// The token, if it has the characters of one. That takes a look at each of them, so a token that is known already is
/// better found before.
///
/// # Errors
/// [`MalformedCredentials::Token`].
pub fn bearer_token(credentials: &[u8]) -> Result<&str, MalformedCredentials> {
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
                Ok(Credentials::Bearer(b"a.b.c".as_slice())),
                "{header}"
            );
        }
    }

    #[test]
    fn other_schemes_are_no_token() {
        assert_eq!(read(&[]), Ok(Credentials::None));
        for header in [
            "Basic abc",
            "",
            "Bearer_ x",
            "Bearers x",
            "DPoP x",
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
            let Ok(Credentials::Bearer(credentials)) = read(&[header]) else {
                panic!("{header:?}");
            };
            assert_eq!(
                bearer_token(credentials),
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
        assert_eq!(bearer_token(b"a.b-_.~+/="), Ok("a.b-_.~+/="));
        let twice = [b"Bearer a.b.c".as_slice(), b"Bearer a.b.c"];
        assert_eq!(read(&twice), Err(MalformedCredentials::Several));
        assert_eq!(
            read(&[b"Bearer a.b.c", b"Basic x"]),
            Err(MalformedCredentials::Several)
        );
    }
}
