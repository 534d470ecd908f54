//! `Authorization` headers, one a line: a token is read from exactly one, and is a part of it.

#![no_main]

use filter::authorization::{Credentials, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let headers: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    if let Ok(Credentials::Bearer(token)) = read(&headers) {
        assert_eq!(headers.len(), 1);
        assert!(!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(
            input.ends_with(token.as_bytes()) || input.trim_ascii_end().ends_with(token.as_bytes())
        );
    }
});
