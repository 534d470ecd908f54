//! Configurations: a bad one has a problem to name, a good one makes a guard that lets nobody in without a token.

#![no_main]

use guard::config::Config;
use guard::guard::{Decision, Guard, Patience, Request};
use guard::rules::Access;
use guard::signature::NoHostVerifier;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| match Config::parse(input, &NoHostVerifier) {
    Err(problems) => {
        assert!(!problems.is_empty());
        assert!(problems.iter().all(|problem| problem.contains(": ")));
    }
    Ok(config) => {
        let closed = !config.report_only
            && config.protected_resource.is_none()
            && config
                .rules
                .iter()
                .all(|rule| !matches!(rule.access, Access::Anonymous { .. }));
        let mut guard = Guard::new(config);
        for target in [b"/".as_slice(), b"/api/projects", b"/../x", b"", b"*"] {
            let request = Request {
                method: b"GET",
                target,
                authorization: &[],
            };
            let decision = guard.decide(request, Patience::Left, 1, || 1).decision;
            let passes = matches!(decision, Decision::Allow(_) | Decision::Anonymous { .. });
            assert!(!(closed && passes));
        }
        let _ = guard.due(1);
    }
});
