//! Answers of an introspection endpoint: only `"active": true` makes a token active, and what is no answer changes nothing.

#![cfg_attr(fuzzing, no_main)]

use guard::clock::Time;
use guard::introspection::{Asker, Introspection};
use guard::secret::Secret;
use guard::source::{IntrospectionSource, WhenStale};
use guard::verdict::{Denial, Verdict};
use guard::verify::Refusal;
use keys::endpoint::Endpoint;
#[cfg(fuzzing)]
use libfuzzer_sys::fuzz_target;

const NOW: u64 = 1_800_000_000;

fuzz_target!(|input: &[u8]| {
    let source = IntrospectionSource {
        endpoint: Endpoint {
            cluster: "c".into(),
            authority: "a".into(),
            path: "/i".into(),
        },
        authorization: Secret::new("Basic x".into()),
        cache_seconds: 30,
        max_concurrent: 1,
        when_unavailable: WhenStale::Deny,
    };
    let mut introspection = Introspection::default();
    let verdict = |introspection: &mut Introspection, may_wait| {
        let asker = Asker {
            token: "token",
            client: "client",
            may_wait,
        };
        introspection.verdict(&source, asker, NOW)
    };
    let Verdict::Wait(question) = verdict(&mut introspection, true) else {
        panic!("nothing is known yet");
    };
    assert_eq!(introspection.due(&source, NOW).len(), 1);
    let time = Time {
        wall: NOW,
        steady: NOW,
    };
    let answered = introspection.answered(&source, question, input, time);
    let verdict = verdict(&mut introspection, false);
    match answered {
        Err(_) => assert_eq!(verdict, Verdict::Deny(Denial::RevocationsUnavailable, None)),
        Ok(()) => match verdict {
            Verdict::Accepted(until) => {
                assert!((NOW + 1..=NOW + 30).contains(&until));
                let answer = claims::json::parse_object(input).expect("it was read");
                assert_eq!(answer.get("active"), Some(&true.into()));
            }
            verdict => assert_eq!(
                verdict,
                Verdict::Deny(Denial::Token(Refusal::Revoked), None)
            ),
        },
    }
});
