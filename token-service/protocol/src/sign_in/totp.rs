//! Time-based one-time codes (RFC 6238): SHA-1, 6 digits, steps of 30 seconds, one step of drift either way.

use totp_rs::{Algorithm, Builder};
use unicode_normalization::UnicodeNormalization as _;

use domain::Username;
use domain::clock::Timestamp;

/// The secret is shorter than 128 bits (RFC 4226 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unusable;

/// The time step of `code`; `None` if `code` is not valid at `now`. Spaces in `code` are ignored, because apps show
/// codes in two groups. Asian keyboards may send full-width digits.
///
/// # Errors
/// [`Unusable`] if `secret` is too short.
pub fn step_of(secret: &[u8], code: &str, now: Timestamp) -> Result<Option<u64>, Unusable> {
    let totp = parameters(secret).build().map_err(|_| Unusable)?;
    let code: String = code.nfkc().filter(|c| !c.is_whitespace()).collect();
    Ok(totp.check(&code, now.seconds()))
}

/// The `otpauth://totp/...` URL from which an authenticator app reads the secret, with the name of the service as
/// issuer. `None` if `secret` is unusable.
pub fn url(secret: &[u8], username: &Username, service: &str) -> Option<String> {
    // A colon separates the two names, so neither may contain a colon.
    let service = service.replace(':', " ");
    let account = username.as_str().replace(':', " ");
    parameters(secret)
        .with_issuer(Some(service))
        .with_account_name(account)
        .build()
        .ok()?
        .to_url()
        .ok()
}

fn parameters(secret: &[u8]) -> Builder {
    Builder::new()
        .with_algorithm(Algorithm::SHA1)
        .with_digits(6)
        .with_step_duration(30)
        .with_skew(1)
        .with_secret(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of RFC 6238 appendix B.
    const SECRET: &[u8] = b"12345678901234567890";

    fn step(code: &str, now: u64) -> Option<u64> {
        step_of(SECRET, code, Timestamp::from_seconds(now)).unwrap()
    }

    #[test]
    fn knows_the_codes_of_the_standard() {
        // RFC 6238 appendix B, the last six of the eight digits.
        for (now, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
        ] {
            assert_eq!(step(code, now), Some(now / 30));
        }
        for typed in [
            " 287 082 ",
            "\u{ff12}\u{ff18}\u{ff17}\u{3000}\u{ff10}\u{ff18}\u{ff12}",
        ] {
            assert_eq!(step(typed, 59), Some(1), "{typed}");
        }
    }

    #[test]
    fn a_code_is_good_one_step_early_and_one_step_late() {
        for (now, expected) in [
            (1_111_111_109 - 30, Some(37_037_036)),
            (1_111_111_109 + 30, Some(37_037_036)),
            (1_111_111_109 - 60, None),
            (1_111_111_109 + 60, None),
        ] {
            assert_eq!(step("081804", now), expected, "{now}");
        }
    }

    #[test]
    fn refuses_what_is_no_code() {
        for code in [
            "",
            "287083",
            "28708",
            "2870820",
            "+87082",
            "28708\u{0662}",
            "abcdef",
        ] {
            assert_eq!(step(code, 59), None, "{code}");
        }
        let short = step_of(b"123456789012345", "287082", Timestamp::from_seconds(59));
        assert_eq!(short, Err(Unusable));
    }

    #[test]
    fn apps_take_the_secret_from_a_url() {
        let ada = Username::parse("ada:x@example.com").unwrap();
        let url = url(SECRET, &ada, "Building Site").unwrap();
        assert!(
            url.starts_with("otpauth://totp/Building%20Site:ada%20x%40example.com?"),
            "{url}"
        );
        assert!(
            url.contains("secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"),
            "{url}"
        );
        assert!(url.contains("issuer=Building%20Site"), "{url}");
        assert_eq!(super::url(b"short", &ada, "Building Site"), None);
    }
}
