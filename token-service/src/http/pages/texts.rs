//! The texts of the pages: a file for each language. A text that a language lacks fails the build.
//!
//! Another language is a file in the folder of `german.rs`, its name in [`ALL`], and its tag in [`LANGUAGES`](crate::config::LANGUAGES).
//!
//! `{...}` is a placeholder for a value, which pages emphasise.

mod english;
mod german;

use std::fmt;
use std::time::Duration;

use domain::SessionPlace;
use domain::clock::Timestamp;
pub(super) use english::{ENGLISH, Texts};
use german::GERMAN;
use protocol::oauth::authorize::UnsafeRequest;

/// The languages. English, if a browser prefers none of them.
pub(super) static ALL: [&Texts; 2] = [&ENGLISH, &GERMAN];

impl Texts {
    pub(super) const fn english() -> &'static Self {
        &ENGLISH
    }

    pub(super) fn codes_left(&self, left: usize) -> String {
        plain(self.recovery_codes_left, &[("count", &left.to_string())])
    }

    pub(super) fn moment(&self, at: Timestamp) -> Moment {
        let exact = at.rfc3339();
        let parts: Vec<&str> = exact.split(['-', 'T', ':']).collect();
        let in_words = || {
            let [year, month, day, hour, minute, ..] = parts[..] else {
                return None;
            };
            let month: usize = month.parse().ok()?;
            let values = [
                ("year", year),
                ("month", self.months.split(' ').nth(month.checked_sub(1)?)?),
                ("day", day.trim_start_matches('0')),
                ("hour", hour),
                ("minute", minute),
            ];
            Some(plain(self.moment, &values))
        };
        Moment {
            words: in_words().unwrap_or_else(|| exact.clone()),
            exact,
        }
    }

    pub(super) fn browser_in_words(&self, place: &SessionPlace) -> String {
        let values = [
            ("browser", place.browser.as_str()),
            ("system", &place.system),
        ];
        match values {
            [(_, ""), (_, "")] => self.unknown_browser.to_owned(),
            [(_, name), (_, "")] | [(_, ""), (_, name)] => name.to_owned(),
            _ => plain(self.browser_on, &values),
        }
    }

    /// A time in words: seconds up to one minute, then whole minutes, rounded up so that a wait is over by then; whole hours as such.
    pub(super) fn duration(&self, wait: Duration) -> String {
        let seconds = wait.as_secs().max(1);
        let (count, one, several) = if seconds.is_multiple_of(3600) {
            (seconds / 3600, self.hour, self.hours)
        } else if seconds <= 60 {
            (seconds, self.second, self.seconds)
        } else {
            (seconds.div_ceil(60), self.minute, self.minutes)
        };
        if count == 1 {
            one.to_owned()
        } else {
            plain(several, &[("count", &count.to_string())])
        }
    }

    /// The problem of a request without a safe redirect URI (D-5).
    pub(super) const fn unsafe_request(&'static self, reason: &UnsafeRequest) -> &'static str {
        match reason {
            UnsafeRequest::Unreadable(_) => self.request_unreadable,
            UnsafeRequest::TooLarge => self.request_too_large,
            UnsafeRequest::ClientIdMissing => self.application_missing,
            UnsafeRequest::ClientIdRepeated => self.application_repeated,
            UnsafeRequest::ClientUnknown => self.application_unknown,
            UnsafeRequest::ClientUnauthorized => self.application_without_people,
            UnsafeRequest::RedirectUriMissing => self.destination_missing,
            UnsafeRequest::RedirectUriRepeated => self.destination_repeated,
            UnsafeRequest::RedirectUriUnregistered => self.destination_unknown,
            UnsafeRequest::RequestUriUnknown | UnsafeRequest::OfAnotherFlow(_) => {
                self.request_wrong
            }
        }
    }
}

/// A time, to the minute in words.
pub(super) struct Moment {
    words: String,
    /// RFC 3339.
    exact: String,
}

impl Moment {
    /// The time as an element of HTML. Neither text has a character with a meaning there.
    pub(super) fn html(&self) -> String {
        let Self { words, exact } = self;
        format!("<time datetime=\"{exact}\">{words}</time>")
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.words)
    }
}

/// `text` with `values` inserted at their placeholders, unescaped.
pub(super) fn plain(text: &str, values: &[(&str, &str)]) -> String {
    fill(text, values, |value, filled| filled.push_str(value))
}

/// `text` as HTML, with `values` inserted, emphasised and escaped. The direction of a value does not affect the text around it.
pub(super) fn html(text: &str, values: &[(&str, &str)]) -> String {
    fill(text, values, |value, filled| {
        filled.push_str("<bdi><strong>");
        escape(value, filled);
        filled.push_str("</strong></bdi>");
    })
}

/// Like [`html`], without emphasis.
pub(super) fn isolated(text: &str, values: &[(&str, &str)]) -> String {
    fill(text, values, isolate)
}

/// `text` as HTML, with `names` at the placeholder `{names}`, each like a value of [`isolated`].
pub(super) fn isolated_list(text: &str, names: &[String]) -> String {
    fill(text, &[("names", "")], |_, filled| {
        for (position, name) in names.iter().enumerate() {
            if position > 0 {
                filled.push_str(", ");
            }
            isolate(name, filled);
        }
    })
}

fn isolate(value: &str, filled: &mut String) {
    filled.push_str("<bdi>");
    escape(value, filled);
    filled.push_str("</bdi>");
}

fn escape(value: &str, filled: &mut String) {
    for character in value.chars() {
        match character {
            '&' => filled.push_str("&amp;"),
            '<' => filled.push_str("&lt;"),
            '>' => filled.push_str("&gt;"),
            '"' => filled.push_str("&quot;"),
            '\'' => filled.push_str("&#39;"),
            other => filled.push(other),
        }
    }
}

/// Replaces placeholders in one pass, so that a value that looks like a placeholder is not replaced.
fn fill(text: &str, values: &[(&str, &str)], put: impl Fn(&str, &mut String)) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, named)) = rest.split_once('{') {
        filled.push_str(before);
        let (name, after) = named.split_once('}').unwrap_or((named, ""));
        if let Some((_, value)) = values.iter().find(|(candidate, _)| *candidate == name) {
            put(value, &mut filled);
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_said_in_whole_units() {
        for (seconds, english, german) in [
            (0, "1 second", "1 Sekunde"),
            (45, "45 seconds", "45 Sekunden"),
            (61, "2 minutes", "2 Minuten"),
            (300, "5 minutes", "5 Minuten"),
            (3600, "1 hour", "1 Stunde"),
            (5400, "90 minutes", "90 Minuten"),
            (86_400, "24 hours", "24 Stunden"),
        ] {
            let wait = Duration::from_secs(seconds);
            assert_eq!(ENGLISH.duration(wait), english);
            assert_eq!(GERMAN.duration(wait), german);
        }
    }

    #[test]
    fn times_are_said_in_words() {
        for (seconds, english, german) in [
            (
                1_767_225_600,
                "1 January 2026, 00:00\u{a0}UTC",
                "1. Januar 2026, 00:00\u{a0}UTC",
            ),
            (
                1_798_761_599,
                "31 December 2026, 23:59\u{a0}UTC",
                "31. Dezember 2026, 23:59\u{a0}UTC",
            ),
        ] {
            let at = Timestamp::from_seconds(seconds);
            assert_eq!(ENGLISH.moment(at).to_string(), english);
            let element = format!("<time datetime=\"{}\">{german}</time>", at.rfc3339());
            assert_eq!(GERMAN.moment(at).html(), element);
        }
    }

    #[test]
    fn values_are_escaped_and_never_read_as_names() {
        let values = [("client", "<b>{username}</b>"), ("username", "'ada'&\"")];
        assert_eq!(
            html("{client}: {username}!", &values),
            "<bdi><strong>&lt;b&gt;{username}&lt;/b&gt;</strong></bdi>: <bdi><strong>&#39;ada&#39;&amp;&quot;</strong></bdi>!"
        );
        assert_eq!(plain("{client} {nobody}.", &values), "<b>{username}</b> .");
        let names = ["<i>".to_owned(), "{names}".to_owned()];
        assert_eq!(
            isolated_list("Set up: {names}.", &names),
            "Set up: <bdi>&lt;i&gt;</bdi>, <bdi>{names}</bdi>."
        );
    }
}
