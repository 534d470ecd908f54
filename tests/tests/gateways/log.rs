//! The log of token-guard.

use serde_json::Value;
use tests::gateways::TokenGuard;

#[test]
fn the_reason_of_an_end_of_token_guard_is_a_line_of_its_log() {
    for format in ["text", "json"] {
        let arguments = ["--log-format", format];
        let failure = TokenGuard::start(r#"{"rule": []}"#, &[], &arguments).unwrap_err();
        let failure = failure.to_string();
        let is_reason = |line: &&str| line.contains("rule: unknown key; did you mean rules?");
        let line = failure.lines().find(is_reason).unwrap();
        match format {
            "json" => {
                let line: Value = serde_json::from_str(line).unwrap();
                assert_eq!(line["level"], "ERROR");
            }
            _ => assert!(line.contains("Z ERROR token_guard: "), "{line}"),
        }
    }
}
