//! The version of Envoy's ABI for modules.
//!
//! Envoy compares versions, and only warns. It never checks the layouts that the module declares by hand, so the module refuses
//! to start in an Envoy of another ABI. No function of Envoy returns its version, so the module runs `envoy --version`.

use std::process::{Command, Stdio};

/// The version that [`crate::abi`] declares: Envoy 1.40.
pub(crate) const VERSION: &std::ffi::CStr = c"v0.2.0";

/// Until 1.0 of the ABI, Envoy keeps an ABI for one more minor version.
const FITTING: [&str; 2] = ["1.40.", "1.41."];

/// Checks the version of the program that runs.
///
/// # Errors
/// What is wrong, for the log.
pub(crate) fn check() -> Result<(), String> {
    let output = Command::new("/proc/self/exe")
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|error| format!("cannot run the gateway's --version: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // `PROGRAM  version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL`
    let version = text
        .split_once(" version: ")
        .and_then(|(_, version)| version.split('/').nth(1));
    if version.is_some_and(|version| FITTING.iter().any(|known| version.starts_with(known))) {
        return Ok(());
    }
    Err(format!(
        "this module needs Envoy 1.40 or 1.41; --version of this program says {:?}",
        text.trim()
    ))
}
