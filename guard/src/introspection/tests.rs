use keys::endpoint::Endpoint;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOW: u64 = 1_800_000_000;

fn source(when_unavailable: WhenStale) -> IntrospectionSource {
    IntrospectionSource {
        endpoint: Endpoint {
            cluster: "c".to_owned(),
            authority: "a".to_owned(),
            path: "/introspect".to_owned(),
        },
        authorization: Secret::new("Basic x".to_owned()),
        cache_seconds: 30,
        max_concurrent: 4,
        when_unavailable,
    }
}

/// An issuer with introspection, and its clock.
struct Asked {
    source: IntrospectionSource,
    introspection: Introspection,
    now: u64,
}

impl Asked {
    fn new(when_unavailable: WhenStale) -> Self {
        Self {
            source: source(when_unavailable),
            introspection: Introspection::default(),
            now: NOW,
        }
    }

    /// Each token has its own client.
    fn standing(&mut self, token: &str, may_wait: bool) -> Standing {
        self.standing_of(token, token, may_wait)
    }

    fn standing_of(&mut self, client: &str, token: &str, may_wait: bool) -> Standing {
        let asker = Asker {
            token,
            client,
            may_wait,
        };
        self.introspection.verdict(&self.source, asker, self.now)
    }

    fn left(&mut self, token: &str) -> Standing {
        self.standing(token, true)
    }

    fn over(&mut self, token: &str) -> Standing {
        self.standing(token, false)
    }

    #[track_caller]
    fn ask(&mut self, token: &str) -> u64 {
        match self.left(token) {
            Verdict::Wait(question) => question,
            other => panic!("{other:?}"),
        }
    }

    fn due(&mut self) -> Vec<u64> {
        let due = self.introspection.due(&self.source, self.now);
        due.into_iter().map(|(question, _)| question).collect()
    }

    fn answer(&mut self, question: u64, body: &serde_json::Value) -> Result<(), String> {
        self.answer_as(question, body.to_string().as_bytes())
    }

    fn answer_as(&mut self, question: u64, body: &[u8]) -> Result<(), String> {
        let (wall, steady) = (self.now, self.now);
        let time = Time { wall, steady };
        self.introspection
            .answered(&self.source, question, body, time)
    }

    /// Asks about a token and applies an answer.
    #[track_caller]
    fn learn(&mut self, token: &str, is_active: bool) {
        let question = self.ask(token);
        assert_eq!(self.due(), [question]);
        self.answer(question, &json!({"active": is_active}))
            .unwrap();
    }

    fn fail(&mut self, question: u64) {
        self.introspection
            .failed(question, Fault::Endpoint, self.now);
    }

    /// Asks about tokens, and the endpoint fails for all of them.
    #[track_caller]
    fn fail_all(&mut self, tokens: &[&str]) {
        let questions: Vec<u64> = tokens.iter().map(|token| self.ask(token)).collect();
        assert_eq!(self.due(), questions);
        questions
            .into_iter()
            .for_each(|question| self.fail(question));
    }
}

#[test]
fn a_token_is_asked_about_once_while_its_answer_counts() {
    let mut asked = Asked::new(WhenStale::Deny);
    let question = asked.ask("good");
    assert_eq!(asked.ask("good"), question, "one question for all requests");
    let due = asked.introspection.due(&asked.source, NOW);
    let [(number, form)] = due.as_slice() else {
        panic!("{due:?}");
    };
    assert_eq!(
        (*number, form.expose()),
        (question, "token=good&token_type_hint=access_token")
    );
    assert_eq!(asked.ask("good"), question, "while it is under way, too");
    assert_eq!(asked.due(), [0; 0]);
    asked.now += 3;
    asked.answer(question, &json!({"active": true})).unwrap();
    let until = NOW + 30;
    assert_eq!(
        asked.left("good"),
        Verdict::Accepted(until),
        "counted from the question"
    );
    asked.now = until - 1;
    assert_eq!(asked.left("good"), Verdict::Accepted(until));
    asked.now = until;
    assert_ne!(asked.ask("good"), question);
}

#[test]
fn an_inactive_token_is_refused() {
    let mut asked = Asked::new(WhenStale::Allow);
    asked.learn("revoked", false);
    assert_eq!(asked.left("revoked"), INACTIVE);
    assert_eq!(asked.over("revoked"), INACTIVE);
    asked.ask("other");
}

/// RFC 7662 §2.2: the issuer may report an earlier expiry than the token has.
#[test]
fn the_answer_may_bring_an_earlier_end() {
    let mut asked = Asked::new(WhenStale::Deny);
    let question = asked.ask("t");
    asked.due();
    asked
        .answer(question, &json!({"active": true, "exp": NOW + 5}))
        .unwrap();
    assert_eq!(asked.left("t"), Verdict::Accepted(NOW + 5));
    let question = asked.ask("v");
    asked.due();
    asked
        .answer(question, &json!({"active": true, "exp": null}))
        .unwrap();
    let question = asked.ask("u");
    asked.due();
    asked
        .answer(question, &json!({"active": true, "exp": NOW - 5}))
        .unwrap();
    assert_eq!(asked.left("u"), INACTIVE);
}

/// A slow answer still decides about the requests that waited for it.
#[test]
fn a_slow_answer_counts_for_those_who_waited() {
    let mut asked = Asked::new(WhenStale::Deny);
    asked.source.cache_seconds = 1;
    let question = asked.ask("t");
    asked.due();
    asked.now += 4;
    asked.answer(question, &json!({"active": true})).unwrap();
    assert_eq!(asked.over("t"), Verdict::Accepted(NOW + 5));
    asked.now += 1;
    asked.ask("t");
}

#[test]
fn what_is_no_answer_is_a_failure() {
    let mut asked = Asked::new(WhenStale::Deny);
    let question = asked.ask("t");
    asked.due();
    for body in [
        json!({}),
        json!({"active": "true"}),
        json!({"active": 1}),
        json!({"active": null}),
        json!([true]),
        json!({"active": true, "exp": "soon"}),
    ] {
        assert!(asked.answer(question, &body).is_err(), "{body}");
    }
    let twice = br#"{"active":false,"active":true}"#;
    let large = vec![b' '; MAX_ANSWER_BYTES + 1];
    for body in [twice.as_slice(), b"", &large] {
        assert!(asked.answer_as(question, body).is_err());
    }
    asked.fail(question);
    assert_eq!(asked.over("t"), UNKNOWN);
}

#[test]
fn without_an_answer_the_configuration_decides() {
    for (when_unavailable, expected) in [
        (WhenStale::Deny, UNKNOWN),
        (WhenStale::Allow, Verdict::Accepted(NOW + 1)),
    ] {
        let mut asked = Asked::new(when_unavailable);
        let question = asked.ask("t");
        assert_eq!(asked.over("t"), expected, "the wait is over");
        asked.due();
        asked.fail(question);
        assert_eq!(asked.over("t"), expected);
        assert_eq!(asked.left("t"), expected, "nobody waits during the pause");
        asked.fail_all(&["u", "v"]);
        assert_eq!(asked.left("other"), expected);
        asked.now += 1;
        asked.ask("t");
    }
}

/// The holder of one token does not decide about the tokens of others.
#[test]
fn one_token_with_which_the_endpoint_fails_pauses_nothing() {
    for when_unavailable in [WhenStale::Deny, WhenStale::Allow] {
        let mut asked = Asked::new(when_unavailable);
        for second in 0..100 {
            asked.now = NOW + second;
            if matches!(asked.left("bad"), Verdict::Wait(_)) {
                let [question] = asked.due()[..] else {
                    panic!("one question");
                };
                asked.fail(question);
            }
            asked.learn(&format!("revoked {second}"), false);
        }
        // Without answers in between, too.
        for second in 100..200 {
            asked.now = NOW + second;
            if matches!(asked.left("bad"), Verdict::Wait(_)) {
                let question = asked.due()[0];
                asked.fail(question);
            }
        }
        asked.ask("other");
    }
}

/// After a pause, the first token that fails does not start the next pause.
#[test]
fn each_pause_needs_several_tokens() {
    let mut asked = Asked::new(WhenStale::Deny);
    asked.fail_all(&["one", "two", "three"]);
    assert_eq!(asked.left("other"), UNKNOWN);
    asked.now += 1;
    asked.fail_all(&["one"]);
    asked.learn("other", true);
}

/// An answer that does not say whether the token is active says that the endpoint works.
#[test]
fn a_token_that_cannot_be_introspected_is_refused_alone() {
    for when_unavailable in [WhenStale::Deny, WhenStale::Allow] {
        let mut asked = Asked::new(when_unavailable);
        let tokens = ["a", "b", "c", "d"];
        for (round, pause) in [1, 2, 4, 8, 10, 10].into_iter().enumerate() {
            for token in tokens {
                let question = asked.ask(token);
                assert_eq!(asked.due(), [question], "{round}");
                asked
                    .introspection
                    .failed(question, Fault::Token, asked.now);
            }
            asked.learn(&format!("other {round}"), true);
            for _ in 0..pause {
                for token in tokens {
                    assert_eq!(asked.left(token), UNKNOWN);
                    assert_eq!(asked.over(token), UNKNOWN);
                }
                asked.now += 1;
            }
        }
        // Nor is such a token accepted while the endpoint is down.
        asked.fail_all(&["one", "two", "three"]);
        assert_eq!(asked.left("a"), UNKNOWN);
        asked.now += 10;
        asked.learn("a", true);
        assert!(matches!(asked.left("a"), Verdict::Accepted(_)));
    }
}

#[test]
fn one_client_gets_a_quarter_of_the_places() {
    let mut asked = Asked::new(WhenStale::Allow);
    asked.source.max_concurrent = 8;
    let greedy = |asked: &mut Asked, number: usize| {
        asked.standing_of("greedy", &format!("token {number}"), true)
    };
    for number in 0..MAX_REQUESTS_OF_CLIENT - 1 {
        assert!(matches!(greedy(&mut asked, number), Verdict::Wait(_)));
    }
    assert_eq!(
        greedy(&mut asked, 0),
        Verdict::Wait(1),
        "the same token again"
    );
    assert_eq!(greedy(&mut asked, 0), BUSY);
    assert_eq!(greedy(&mut asked, MAX_QUESTIONS), BUSY);
    assert_eq!(asked.due(), [1, 2]);
    let others: Vec<u64> = ["x", "y"].iter().map(|token| asked.ask(token)).collect();
    assert_eq!(asked.due(), others);
    asked.answer(1, &json!({"active": true})).unwrap();
    assert_eq!(asked.due(), [3]);
    assert!(matches!(
        greedy(&mut asked, MAX_QUESTIONS),
        Verdict::Wait(_)
    ));
}

/// RFC 7515 §A.3: with an ES256 signature (r, s), (r, n - s) is valid too.
#[test]
fn another_signature_of_the_same_token_is_not_another_token() {
    let mut asked = Asked::new(WhenStale::Allow);
    asked.learn("header.claims.signature", false);
    assert_eq!(asked.left("header.claims.twin"), INACTIVE);
    asked.ask("header.others.signature");
}

/// `Allow` accepts tokens without an answer, but a token whose last answer was "inactive" stays refused.
#[test]
fn a_token_that_was_inactive_stays_refused_without_an_answer() {
    let mut asked = Asked::new(WhenStale::Allow);
    asked.learn("revoked", false);
    asked.learn("good", true);
    asked.now += 30;
    asked.fail_all(&["revoked", "two", "three"]);
    assert_eq!(asked.left("revoked"), INACTIVE);
    assert_eq!(asked.left("good"), Verdict::Accepted(asked.now + 1));
}

#[test]
fn pauses_grow_and_an_answer_ends_them() {
    let mut asked = Asked::new(WhenStale::Deny);
    let mut pauses = Vec::new();
    for _ in 0..6 {
        asked.fail_all(&["one", "two", "three", "four"]);
        let start = asked.now;
        while asked.left("one") == UNKNOWN {
            asked.now += 1;
        }
        pauses.push(asked.now - start);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
    asked.due();
    asked.learn("five", true);
    asked.fail_all(&["six", "seven", "eight"]);
    asked.now += 1;
    asked.ask("six");
}

#[test]
fn questions_are_bounded_under_way_and_in_all() {
    let mut asked = Asked::new(WhenStale::Allow);
    for number in 0..MAX_QUESTIONS {
        asked.ask(&format!("token {number}"));
    }
    assert_eq!(asked.left("one more"), BUSY);
    assert_eq!(asked.due(), [1, 2, 3, 4]);
    assert_eq!(asked.due(), [0; 0]);
    asked.answer(1, &json!({"active": true})).unwrap();
    assert_eq!(asked.due(), [5]);
    asked.ask("one more");
    // No request waits any more: unsent questions are closed, and sent questions fail in the end.
    asked.now += TIMEOUT_SECONDS;
    assert_eq!(asked.due(), [0; 0]);
    assert_eq!(asked.introspection.questions.len(), 4);
    asked.now += TIMEOUT_SECONDS;
    asked.due();
    assert!(asked.introspection.questions.is_empty());
    assert!(asked.now < asked.introspection.paused_until);
}

#[test]
fn answers_are_bounded_and_the_oldest_of_a_slot_makes_room() {
    let mut asked = Asked::new(WhenStale::Deny);
    asked.source.cache_seconds = 3600;
    let all = 2 * SLOTS * WAYS;
    for number in 0..all {
        asked.now = NOW + number as u64 / 100;
        asked.learn(&format!("token {number}"), true);
    }
    let kept = asked.introspection.slots.iter().flatten().flatten();
    let kept = kept.count();
    assert!(
        (SLOTS * WAYS * 9 / 10..=SLOTS * WAYS).contains(&kept),
        "{kept}"
    );
    let knows = |asked: &mut Asked, number: usize| {
        let standing = asked.over(&format!("token {number}"));
        matches!(standing, Verdict::Accepted(_))
    };
    assert!((all - 100..all).all(|number| knows(&mut asked, number)));
    let old = (0..1000)
        .filter(|number| knows(&mut asked, *number))
        .count();
    assert!(old < 200, "{old}");
}

/// A token with an open question keeps its place, because the answer must count.
#[test]
fn a_question_is_not_displaced() {
    let mut asked = Asked::new(WhenStale::Allow);
    let mut same_slot = (0..)
        .map(|number| format!("token {number}"))
        .filter(|token| {
            let hash = fingerprint(token);
            usize::from(u16::from_le_bytes([hash[0], hash[1]])).is_multiple_of(SLOTS)
        });
    for token in same_slot.by_ref().take(WAYS) {
        asked.ask(&token);
    }
    let one_more = same_slot.next().unwrap();
    assert_eq!(asked.left(&one_more), BUSY);
    let question = asked.due()[0];
    asked.answer(question, &json!({"active": true})).unwrap();
    asked.ask(&one_more);
}

#[test]
fn an_answer_to_a_question_that_was_given_up_is_not_a_failure() {
    let mut asked = Asked::new(WhenStale::Deny);
    let question = asked.ask("t");
    asked.due();
    asked.now += 2 * TIMEOUT_SECONDS;
    asked.due();
    asked.answer(question, &json!({"active": true})).unwrap();
    assert_eq!(asked.left("t"), UNKNOWN, "nor does it count");
    asked.now += 1;
    asked.ask("t");
}

proptest! {
    /// In every sequence of events, a token is accepted only by an answer that says so, and the records agree
    /// with the questions.
    #[test]
    fn only_an_active_answer_accepts(events in prop::collection::vec((0..5_u8, 0..6_u8), 0..200)) {
        let mut asked = Asked::new(WhenStale::Deny);
        let mut sent = Vec::new();
        for (event, choice) in events {
            let token = format!("token {choice}");
            match event {
                0 => { asked.left(&token); }
                1 => sent.extend(asked.due()),
                2 => if let Some(question) = sent.pop() {
                    // The issuer answers "inactive" for tokens 0 to 2.
                    let about = asked.introspection.questions.iter().find(|it| it.number == question).map(|it| it.token.clone());
                    let is_active = about.is_none_or(|token| token.expose() > "token 2");
                    asked.answer(question, &json!({"active": is_active})).unwrap();
                },
                3 => if let Some(question) = sent.pop() {
                    asked.fail(question);
                },
                _ => asked.now += u64::from(choice) * 2,
            }
            for number in 0..3 {
                let standing = asked.over(&format!("token {number}"));
                prop_assert!(!matches!(standing, Verdict::Accepted(_)), "{standing:?}");
            }
            let introspection = &asked.introspection;
            let records = introspection.slots.iter().flatten().flatten();
            let with_question = records.filter(|record| record.question.is_some());
            prop_assert_eq!(with_question.count(), introspection.questions.len());
        }
    }

    #[test]
    fn no_answer_makes_the_reader_panic(body in "\\PC{0,100}") {
        let mut asked = Asked::new(WhenStale::Deny);
        let question = asked.ask("t");
        asked.due();
        prop_assert!(asked.answer_as(question, body.as_bytes()).is_err());
    }
}
