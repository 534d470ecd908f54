//! Token introspection (RFC 7662), for issuers without a revocation feed.
//!
//! The guard asks the issuer once about each verified token, and uses the answer for a bounded time. The
//! numbers of sent questions, waiting questions and stored answers are bounded. After a failure, the guard
//! sends no question for a pause that grows, so that requests do not wait for an endpoint that is down. During
//! the pause, the configuration decides about tokens, except that a token whose last answer was "inactive"
//! stays refused. Times are seconds of the steady clock, except those of a token.

use claims::json::numeric_date;
use sha2::{Digest as _, Sha256};

use crate::clock::Time;
use crate::fetch::TIMEOUT_SECONDS;
use crate::secret::Secret;
use crate::source::{Endpoint, WhenStale};

/// Longest answer that is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Each VM keeps at most [`WAYS`] answers in each of this many slots, for one issuer.
const SLOTS: usize = 4096;

/// Answers that share a slot. A new answer replaces the oldest of them.
const WAYS: usize = 4;

/// Most questions that wait or are sent, for one issuer. Each question holds its token.
const MAX_QUESTIONS: usize = 1024;

/// The longest pause after a failure, in seconds.
const MAX_PAUSE: u64 = 10;

/// The configuration of an introspection endpoint.
#[derive(Debug)]
pub struct IntrospectionSource {
    pub endpoint: Endpoint,
    /// Value of `Authorization` with which the gateway authenticates at the endpoint.
    pub authorization: Secret,
    /// Time for which an answer is used, in seconds since its question.
    pub cache_seconds: u64,
    /// Most questions that one VM has sent and that are not answered yet.
    pub max_concurrent: usize,
    /// What happens to a token while the issuer does not answer.
    pub when_unavailable: WhenStale,
}

/// What the guard knows about a verified token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The token is accepted until `until`.
    Active {
        /// Seconds of the steady clock.
        until: u64,
    },
    /// The issuer no longer accepts the token.
    Inactive,
    /// There is no answer, and the configuration refuses such tokens.
    Unknown,
    /// The request must wait for the answer to the question with this number.
    Asked(u64),
    /// Too many questions wait.
    Busy,
}

type Fingerprint = [u8; 32];

#[derive(Debug, Clone, Copy)]
struct Answer {
    is_active: bool,
    until: u64,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    fingerprint: Fingerprint,
    answer: Option<Answer>,
    /// The number of the open question about the token.
    question: Option<u64>,
}

#[derive(Debug)]
struct Question {
    number: u64,
    fingerprint: Fingerprint,
    token: Secret,
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
    failures: u32,
    /// No question is sent before this time.
    paused_until: u64,
    /// True if the issuer has ever answered.
    is_known: bool,
}

impl Introspection {
    /// Returns what is known about a token with a verified signature. `may_wait`: the request may wait for an
    /// answer.
    pub fn standing(
        &mut self,
        source: &IntrospectionSource,
        token: &str,
        may_wait: bool,
        now: u64,
    ) -> Standing {
        let fingerprint: Fingerprint = Sha256::digest(token).into();
        let record = self.record(&fingerprint).copied();
        let answer = record.and_then(|record| record.answer);
        if let Some(Answer { is_active, until }) = answer
            && now < until
        {
            return match is_active {
                true => Standing::Active { until },
                false => Standing::Inactive,
            };
        }
        if !may_wait || now < self.paused_until {
            return self.without_answer(source, answer, now);
        }
        if let Some(question) = record.and_then(|record| record.question) {
            return Standing::Asked(question);
        }
        let number = self.last_question + 1;
        let record = Record {
            fingerprint,
            answer,
            question: Some(number),
        };
        if self.questions.len() >= MAX_QUESTIONS || !self.keep(record) {
            return Standing::Busy;
        }
        self.last_question = number;
        self.questions.push(Question {
            number,
            fingerprint,
            token: Secret::new(token.to_owned()),
            since: now,
            asked_at: None,
        });
        Standing::Asked(number)
    }

    fn without_answer(
        &self,
        source: &IntrospectionSource,
        last: Option<Answer>,
        now: u64,
    ) -> Standing {
        match source.when_unavailable {
            _ if last.is_some_and(|answer| !answer.is_active) => Standing::Inactive,
            WhenStale::Deny => Standing::Unknown,
            WhenStale::Allow => Standing::Active {
                until: self.paused_until.max(now + 1),
            },
        }
    }

    /// Returns the questions to send now, each with the body of its form, and counts each as sent.
    pub fn due(&mut self, source: &IntrospectionSource, now: u64) -> Vec<(u64, Secret)> {
        self.give_up(now);
        let mut due = Vec::new();
        if now < self.paused_until {
            return due;
        }
        let waiting = |question: &&mut Question| question.asked_at.is_none();
        let under_way = self.questions.len() - self.questions.iter_mut().filter(waiting).count();
        let more = source.max_concurrent.saturating_sub(under_way);
        for question in self.questions.iter_mut().filter(waiting).take(more) {
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
                true => self.failed(number, now),
                false => drop(self.close(number)),
            }
        }
    }

    /// Applies the issuer's answer: `active`, and optionally an earlier `exp` (RFC 7662 §2.2).
    ///
    /// # Errors
    /// What is wrong with the body, for the log. The caller then calls [`Introspection::failed`].
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
        let left = match body.get("exp") {
            None => u64::MAX,
            Some(exp) => numeric_date(exp)
                .ok_or("its exp is no date")?
                .saturating_sub(time.wall),
        };
        self.is_known = true;
        self.failures = 0;
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
            record.answer = Some(Answer {
                is_active: is_active && left > 0,
                until,
            });
        }
        Ok(())
    }

    /// A question was not answered. No question is sent for a pause of 1, 2, 4 seconds and so on, up to
    /// `MAX_PAUSE`.
    pub fn failed(&mut self, number: u64, now: u64) {
        if self.close(number).is_none() {
            return;
        }
        // Questions that were sent at the same time count as one failure.
        if now >= self.paused_until {
            let pause = 1_u64.checked_shl(self.failures).unwrap_or(MAX_PAUSE);
            self.failures = self.failures.saturating_add(1).min(16);
            self.paused_until = now + pause.min(MAX_PAUSE);
        }
    }

    #[must_use]
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
                let until = other.answer.map_or(0, |answer| answer.until);
                (other.question.is_some(), until.max(2))
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
