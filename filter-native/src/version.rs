//! The version of Envoy's ABI for modules.
//!
//! Envoy compares versions, and only warns. It never checks the layouts that the module declares by hand, so the module refuses
//! to start in an Envoy of another ABI.

use std::fs::File;
use std::io::{self, Read};

use memchr::memmem;

/// The version that [`crate::abi`] declares: Envoy 1.40.
pub(crate) const VERSION: &std::ffi::CStr = c"v0.2.0";

/// Minor versions with which the module works: until 1.0, Envoy keeps an ABI for one more minor version.
const MINORS: [&[u8]; 2] = [b"2", b"3"];

/// Longest version that is read, in bytes.
const LONGEST: usize = 12;

/// How much of the program is read at a time, in bytes.
const PART: u64 = 1 << 20;

/// Checks the ABI of the program that runs.
///
/// # Errors
/// What is wrong, for the log.
pub(crate) fn check() -> Result<(), String> {
    let unread = |error| format!("cannot read the version of the gateway's ABI: {error}");
    let versions = File::open("/proc/self/exe")
        .and_then(in_program)
        .map_err(unread)?;
    if versions.iter().any(|version| fits(version)) {
        return Ok(());
    }
    let found: Vec<_> = versions
        .iter()
        .map(|version| String::from_utf8_lossy(version))
        .collect();
    let found = match found.as_slice() {
        [] => "no version".to_owned(),
        found => found.join(", "),
    };
    Err(format!(
        "this module needs Envoy 1.40 or 1.41 (version v0.2 or v0.3 of the ABI for modules); this program has {found}"
    ))
}

fn fits(version: &[u8]) -> bool {
    let minor = version.split(|byte| *byte == b'.').nth(1);
    minor.is_some_and(|minor| MINORS.contains(&minor))
}

/// The texts `v0.N.N` of a program, each between two zero bytes. No function of Envoy returns its version.
fn in_program(mut program: impl Read) -> io::Result<Vec<Vec<u8>>> {
    let mut versions = Vec::new();
    let mut bytes = Vec::new();
    loop {
        // A text may begin in one part of the program and end in the next.
        bytes.drain(..bytes.len().saturating_sub(LONGEST + 2));
        if program.by_ref().take(PART).read_to_end(&mut bytes)? == 0 {
            return Ok(versions);
        }
        for start in memmem::find_iter(&bytes, b"\0v0.") {
            let text = bytes.get(start + 1..).unwrap_or_default();
            let length = text.iter().take(LONGEST + 1).position(|byte| *byte == 0);
            let text = length.and_then(|length| text.get(..length));
            let Some(version) = text.filter(|text| is_version(text)) else {
                continue;
            };
            if !versions.iter().any(|known| known == version) {
                versions.push(version.to_vec());
            }
        }
    }
}

fn is_version(text: &[u8]) -> bool {
    let numbers = text.strip_prefix(b"v0.").unwrap_or_default();
    let mut parts = numbers.split(|byte| *byte == b'.');
    let is_number = |part: Option<&[u8]>| {
        part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
    };
    text.len() <= LONGEST
        && is_number(parts.next())
        && is_number(parts.next())
        && parts.next().is_none()
}
