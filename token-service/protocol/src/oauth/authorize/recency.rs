//! How recent the sign-in must be for a code (`prompt=login` and `max_age`, OpenID Connect Core §3.1.2.1).

use url::form_urlencoded::Serializer;

use super::Prompt;
use crate::oauth::parameters::Parameters;
use domain::Session;
use domain::clock::Timestamp;

/// The parameter of later steps with [`Recency::since`], in seconds since 1970. Clients do not send it.
const SINCE: &str = "signed_in_since";

/// Which sign-ins a request accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recency {
    /// Maximum age of the sign-in, in seconds.
    max_age: Option<u64>,
    /// A sign-in from this time on is accepted whatever its age. Without `max_age`, no earlier sign-in is accepted.
    since: Option<Timestamp>,
}

impl Recency {
    pub(super) fn of(parameters: &Parameters<'_>, max_age: Option<u64>) -> Self {
        let since = parameters.get(SINCE).and_then(|sent| sent.parse().ok());
        Self {
            max_age,
            since: since.map(Timestamp::from_seconds),
        }
    }

    pub(super) fn accepts(self, session: &Session, now: Timestamp) -> bool {
        let signed_in_at = session.authenticated_at;
        self.oldest(now).is_none_or(|oldest| signed_in_at >= oldest)
    }

    /// The time of the oldest sign-in that is accepted at `now`; `None` if any is.
    pub(super) fn oldest(self, now: Timestamp) -> Option<Timestamp> {
        let by_age = match self.max_age {
            Some(0) => Some(now.next_second()),
            Some(max_age) => Some(Timestamp::from_seconds(
                now.seconds().saturating_sub(max_age),
            )),
            None => None,
        };
        match (by_age, self.since) {
            (Some(by_age), Some(since)) => Some(by_age.min(since)),
            (by_age, since) => by_age.or(since),
        }
    }

    /// What the steps after this one accept. A sign-in for this request satisfies them, however long the person then takes. An
    /// earlier sign-in, which this step does not accept, never does.
    fn later(self, prompt: Prompt, now: Timestamp) -> Self {
        let since = Some(self.since.unwrap_or(now));
        match (prompt, self.max_age) {
            (Prompt::Login, _) | (_, Some(0)) => Self {
                max_age: None,
                since: Some(now),
            },
            (_, Some(_)) => Self { since, ..self },
            (_, None) => self,
        }
    }

    /// Appends the parameters for the steps after this one to `query`.
    pub(super) fn carry_on(self, query: String, prompt: Prompt, now: Timestamp) -> String {
        let Self { max_age, since } = self.later(prompt, now);
        let max_age = max_age.map(|seconds| ("max_age", seconds));
        let since = since.map(|time| (SINCE, time.seconds()));
        let parameters = max_age.into_iter().chain(since);
        Serializer::new(query)
            .extend_pairs(parameters.map(|(name, number)| (name, number.to_string())))
            .finish()
    }
}
