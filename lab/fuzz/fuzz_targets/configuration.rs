//! Configurations: a bad one has a problem to name, a good one makes a guard that lets nobody in without a token.

#![cfg_attr(fuzzing, no_main)]

use guard::clock::Time;
use guard::config::Config;
use guard::denial_log::Denied;
use guard::driver::Driver;
use guard::rules::Access;
use guard::{Fate, Guard, Request};
use keys::signature::NoHostVerifier;
#[cfg(fuzzing)]
use libfuzzer_sys::fuzz_target;

/// A clock that stands still.
const STILL: Time = Time { wall: 1, steady: 1 };

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
        let mut driver = Driver::new(Guard::new(config), &STILL);
        for (id, target) in [b"/".as_slice(), b"/api/projects", b"/../x", b"", b"*"]
            .into_iter()
            .enumerate()
        {
            let request = Request {
                method: b"GET",
                target,
                authorization: &[],
                dpop: &[],
                connection: &None,
            };
            let effect = driver.arrived(id as u32, request, &Denied::default(), &STILL);
            let passes = effect.is_some_and(|effect| matches!(effect.fate, Fate::Pass { .. }));
            assert!(!(closed && passes));
        }
        driver.tick(&STILL);
        while driver.next_task().is_some() {}
    }
});
