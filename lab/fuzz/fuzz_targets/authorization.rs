//! `Authorization` headers, one a line: a token is read from exactly one, and is a part of it.

#![cfg_attr(fuzzing, no_main)]

use guard::authorization::{Credentials, access_token, read};
#[cfg(fuzzing)]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let headers: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    if let Ok(Credentials::Token(_, credentials)) = read(&headers) {
        assert_eq!(headers.len(), 1);
        // White space behind the token is no part of it (RFC 9110 §5.5); a carriage return is none.
        let end = input.iter().rposition(|byte| !matches!(byte, b' ' | b'\t'));
        assert!(input[..end.map_or(0, |last| last + 1)].ends_with(credentials));
        if let Ok(token) = access_token(credentials) {
            assert_eq!(token.as_bytes(), credentials);
            assert!(!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()));
        }
    }
});
