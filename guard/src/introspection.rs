//! Token introspection (RFC 7662), for issuers without a revocation feed.
//!
//! The guard asks the issuer once about each verified token, and uses the answer for a bounded time. The
//! numbers of sent questions, waiting questions and stored answers are bounded, and one client takes at most a
//! quarter of the places.
//!
//! After a failure, the guard sends no question about that token for a pause that grows. After failures of the
//! endpoint with several tokens, it sends no question at all for such a pause, so that requests do not wait for an
//! endpoint that is down. During a pause, the configuration decides about tokens. A token stays refused if its last
//! answer was "inactive", or was no answer (RFC 7662) although the endpoint works. Times are seconds of the steady
//! clock, except the times in a token.

use std::collections::BTreeMap;
use std::sync::Arc;

use claims::json::numeric_date;
use keys::schedule::{TIMEOUT_SECONDS, growing_pause};
use sha2::{Digest as _, Sha256};

use crate::clock::Time;
use crate::secret::Secret;
use crate::source::{IntrospectionSource, WhenStale};
use crate::verdict::{Denial, Verdict};
use crate::verify::Refusal;

/// Longest answer that is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Each VM keeps at most [`WAYS`] answers in each of this many slots, for one issuer.
const SLOTS: usize = 4096;

/// Answers that share a slot. A new answer replaces the oldest of them.
const WAYS: usize = 4;

/// Most questions that wait or are sent, for one issuer. Each question holds its token.
const MAX_QUESTIONS: usize = 1024;

/// The part of all places that one client gets.
const PART_OF_CLIENT: usize = 4;

/// Most requests of one client that wait for answers.
const MAX_REQUESTS_OF_CLIENT: usize = MAX_QUESTIONS / PART_OF_CLIENT;

/// The longest pause after a failure, in seconds.
const MAX_PAUSE: u64 = 10;

/// Number of tokens with which the endpoint must fail, without an answer in between, before all questions pause. The
/// holder of one token must not decide about the tokens of others.
const SEVERAL_TOKENS: usize = 3;

/// A token is accepted until a second of the steady clock, or waits for the answer to the question with this number.
type Standing = Verdict<u64, u64>;

/// The issuer no longer accepts the token.
const INACTIVE: Standing = Verdict::Deny(Denial::Token(Refusal::Revoked), None);

/// There is no answer, and the configuration refuses such tokens.
const UNKNOWN: Standing = Verdict::Deny(Denial::RevocationsUnavailable, None);

/// Too many questions wait.
const BUSY: Standing = Verdict::Deny(Denial::Busy, None);

/// A verified token, with its client.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    pub token: &'a str,
    pub client: &'a str,
    /// True if the request may wait for an answer.
    pub may_wait: bool,
}

/// What a question failed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The endpoint answered, but did not say whether this token is active.
    Token,
    /// The endpoint did not answer, or has a problem that is not this token's.
    Endpoint,
}

impl Fault {
    /// Reads the status of a response other than 200, if there was a response. 400, 413 and 422 are about the
    /// content of the request, where only the token changes.
    pub const fn of_status(status: Option<u16>) -> Self {
        match status {
            Some(400 | 413 | 422) => Self::Token,
            _ => Self::Endpoint,
        }
    }
}

/// Hash of a token without its signature, because the signature of a token may have several spellings: with an ES256
/// signature (r, s), (r, n - s) is valid too.
type Fingerprint = [u8; 32];

fn fingerprint(token: &str) -> Fingerprint {
    let signed = token.rsplit_once('.').map_or(token, |(signed, _)| signed);
    Sha256::digest(signed).into()
}

#[derive(Debug, Clone, Copy)]
struct LastAnswer {
    is_active: bool,
    until: u64,
}

#[derive(Debug, Clone, Copy)]
struct LastFailure {
    fault: Fault,
    /// Number of failures since the last answer.
    number: u32,
    /// No question about the token is sent before this time.
    until: u64,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    fingerprint: Fingerprint,
    answer: Option<LastAnswer>,
    /// The last failure, if it is newer than the answer.
    failure: Option<LastFailure>,
    /// The number of the open question about the token.
    question: Option<u64>,
}

#[derive(Debug)]
struct Question {
    number: u64,
    fingerprint: Fingerprint,
    token: Secret,
    client: Arc<str>,
    /// Number of requests that came to wait for the answer.
    requests: usize,
    since: u64,
    asked_at: Option<u64>,
}

/// What one VM knows about the tokens of one issuer.
#[derive(Debug, Default)]
pub struct Introspection {
    /// Empty until the first question, then always [`SLOTS`] slots. That suffices, because nobody can choose
    /// the hash of a token.
    slots: Vec<[Option<Record>; WAYS]>,
    /// In the order of arrival.
    questions: Vec<Question>,
    last_question: u64,
    /// The tokens with which the endpoint failed since its last answer and the last pause.
    failing: Vec<Fingerprint>,
    /// Number of pauses since the last answer.
    pauses: u32,
    /// No question is sent before this time.
    paused_until: u64,
    /// True if the issuer has ever answered.
    is_known: bool,
}

impl Introspection {
    /// Returns what is known about a token with a verified signature.
    pub fn verdict(
        &mut self,
        source: &IntrospectionSource,
        Asker {
            token,
            client,
            may_wait,
        }: Asker<'_>,
        now: u64,
    ) -> Standing {
        let fingerprint = fingerprint(token);
        let new = Record {
            fingerprint,
            answer: None,
            failure: None,
            question: None,
        };
        let record = self.record(&fingerprint).map_or(new, |record| *record);
        if let Some(LastAnswer { is_active, until }) = record.answer
            && now < until
        {
            return match is_active {
                true => Verdict::Accepted(until),
                false => INACTIVE,
            };
        }
        let pauses = record.failure.is_some_and(|failure| now < failure.until);
        if !may_wait || pauses || now < self.paused_until {
            return self.without_answer(source, &record, now);
        }
        let of_client = self.questions.iter().filter(|one| *one.client == *client);
        if of_client.map(|one| one.requests).sum::<usize>() >= MAX_REQUESTS_OF_CLIENT {
            return BUSY;
        }
        let is_open = |one: &&mut Question| record.question == Some(one.number);
        if let Some(question) = self.questions.iter_mut().find(is_open) {
            question.requests += 1;
            return Verdict::Wait(question.number);
        }
        let number = self.last_question + 1;
        let record = Record {
            question: Some(number),
            ..record
        };
        if self.questions.len() >= MAX_QUESTIONS || !self.keep(record) {
            return BUSY;
        }
        self.last_question = number;
        self.questions.push(Question {
            number,
            fingerprint,
            token: Secret::new(token.to_owned()),
            client: client.into(),
            requests: 1,
            since: now,
            asked_at: None,
        });
        Verdict::Wait(number)
    }

    fn without_answer(
        &self,
        source: &IntrospectionSource,
        Record {
            answer, failure, ..
        }: &Record,
        now: u64,
    ) -> Standing {
        let is_own = failure.is_some_and(|failure| failure.fault == Fault::Token);
        match source.when_unavailable {
            _ if answer.is_some_and(|answer| !answer.is_active) => INACTIVE,
            _ if is_own => UNKNOWN,
            WhenStale::Deny => UNKNOWN,
            WhenStale::Allow => {
                let pause = failure.map_or(0, |failure| failure.until);
                Verdict::Accepted(pause.max(self.paused_until).max(now + 1))
            }
        }
    }

    /// Returns the questions to send now, each with the body of its form, and counts each as sent.
    pub fn due(&mut self, source: &IntrospectionSource, now: u64) -> Vec<(u64, Secret)> {
        self.give_up(now);
        let mut due = Vec::new();
        if now < self.paused_until {
            return due;
        }
        let mut under_way = 0;
        let mut of_clients = BTreeMap::<Arc<str>, usize>::new();
        for question in self.questions.iter().filter(|one| one.asked_at.is_some()) {
            under_way += 1;
            *of_clients.entry(Arc::clone(&question.client)).or_default() += 1;
        }
        let most_of_client = (source.max_concurrent / PART_OF_CLIENT).max(1);
        let waiting = |one: &&mut Question| one.asked_at.is_none();
        for question in self.questions.iter_mut().filter(waiting) {
            if under_way >= source.max_concurrent {
                break;
            }
            let of_client = of_clients.entry(Arc::clone(&question.client)).or_default();
            if *of_client >= most_of_client {
                continue;
            }
            under_way += 1;
            *of_client += 1;
            question.asked_at = Some(now);
            // The characters of a JWS need no encoding (RFC 7515 §7.1, RFC 3986 §2.3).
            let token = question.token.expose();
            let form = format!("token={token}&token_type_hint=access_token");
            due.push((question.number, Secret::new(form)));
        }
        due
    }

    /// Closes questions whose requests no longer wait, and counts questions without an answer as failed.
    fn give_up(&mut self, now: u64) {
        let over = |question: &Question| match question.asked_at {
            None => now >= question.since + TIMEOUT_SECONDS,
            Some(asked) => now >= asked + 2 * TIMEOUT_SECONDS,
        };
        while let Some(question) = self.questions.iter().find(|question| over(question)) {
            let (number, was_asked) = (question.number, question.asked_at.is_some());
            match was_asked {
                true => self.failed(number, Fault::Endpoint, now),
                false => drop(self.close(number)),
            }
        }
    }

    /// Applies the issuer's answer: `active`, and optionally an earlier `exp` (RFC 7662 §2.2).
    ///
    /// # Errors
    /// What is wrong with the body, for the log. The caller then calls [`Introspection::failed`] with
    /// [`Fault::Token`].
    pub fn answered(
        &mut self,
        source: &IntrospectionSource,
        number: u64,
        body: &[u8],
        time: Time,
    ) -> Result<(), String> {
        if body.len() > MAX_ANSWER_BYTES {
            return Err(format!("larger than {MAX_ANSWER_BYTES} bytes"));
        }
        let body = claims::json::parse_object(body).map_err(|error| error.to_string())?;
        let active = body.get("active").and_then(serde_json::Value::as_bool);
        let is_active = active.ok_or("it has no member active that is true or false")?;
        let left = match claims::json::present(&body, "exp") {
            None => u64::MAX,
            Some(exp) => numeric_date(exp)
                .ok_or("its exp is no date")?
                .saturating_sub(time.wall),
        };
        self.is_known = true;
        self.failing.clear();
        self.pauses = 0;
        self.paused_until = 0;
        let Some(question) = self.close(number) else {
            return Ok(());
        };
        let asked_at = question.asked_at.unwrap_or(time.steady);
        // The answer decides about the requests that waited for it, even if it took longer than
        // `cache_seconds`.
        let until = (asked_at + source.cache_seconds)
            .min(time.steady.saturating_add(left))
            .max(time.steady + 1);
        if let Some(record) = self.record(&question.fingerprint) {
            record.failure = None;
            record.answer = Some(LastAnswer {
                is_active: is_active && left > 0,
                until,
            });
        }
        Ok(())
    }

    /// A question brought no answer. No question about the token is sent for a pause of 1, 2, 4 seconds and so on, up
    /// to `MAX_PAUSE`. After failures of the endpoint with [`SEVERAL_TOKENS`], such a pause is for all tokens.
    pub fn failed(&mut self, number: u64, fault: Fault, now: u64) {
        let Some(Question { fingerprint, .. }) = self.close(number) else {
            return;
        };
        if let Some(record) = self.record(&fingerprint) {
            let number = record.failure.map_or(0, |failure| failure.number);
            record.failure = Some(LastFailure {
                fault,
                number: number.saturating_add(1),
                until: now + growing_pause(number, MAX_PAUSE),
            });
        }
        // Questions that were sent before a pause do not make the next one longer.
        if fault == Fault::Token || now < self.paused_until || self.failing.contains(&fingerprint) {
            return;
        }
        self.failing.push(fingerprint);
        if self.failing.len() >= SEVERAL_TOKENS {
            // After the pause, a single token must not cause the next.
            self.failing.clear();
            self.paused_until = now + growing_pause(self.pauses, MAX_PAUSE);
            self.pauses = self.pauses.saturating_add(1);
        }
    }

    pub const fn is_known(&self) -> bool {
        self.is_known
    }

    fn close(&mut self, number: u64) -> Option<Question> {
        let mut questions = self.questions.iter();
        let place = questions.position(|question| question.number == number)?;
        let question = self.questions.remove(place);
        if let Some(record) = self.record(&question.fingerprint) {
            record.question = None;
        }
        Some(question)
    }

    fn slot(&mut self, fingerprint: &Fingerprint) -> Option<&mut [Option<Record>; WAYS]> {
        let start = fingerprint.first_chunk().copied().unwrap_or_default();
        let number = u32::from_le_bytes(start) as usize % SLOTS;
        self.slots.get_mut(number)
    }

    fn record(&mut self, fingerprint: &Fingerprint) -> Option<&mut Record> {
        let mut records = self.slot(fingerprint)?.iter_mut().flatten();
        records.find(|record| record.fingerprint == *fingerprint)
    }

    /// Stores a record in place of the older record of its token, or else of the oldest record of its slot.
    /// False if every record of the slot has an open question.
    fn keep(&mut self, record: Record) -> bool {
        self.slots.resize(SLOTS, [None; WAYS]);
        let Some(slot) = self.slot(&record.fingerprint) else {
            return false;
        };
        let age = |place: &Option<Record>| match place {
            Some(other) if other.fingerprint == record.fingerprint => (false, 0),
            None => (false, 1),
            Some(other) => {
                let answered = other.answer.map_or(0, |answer| answer.until);
                let failed = other.failure.map_or(0, |failure| failure.until);
                (other.question.is_some(), answered.max(failed).max(2))
            }
        };
        match slot.iter_mut().min_by_key(|place| age(place)) {
            Some(place) if !age(place).0 => {
                *place = Some(record);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
