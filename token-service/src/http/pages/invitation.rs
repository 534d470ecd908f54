//! The message that brings a person an operator's link for a password.

use std::time::Duration;

use super::frame::Frame;
use super::texts::{self, ALL};
use crate::config::Config;
use domain::User;

/// Subject and text, in every language, because nobody knows which one the person reads. `link`: its URL, and how long it works.
/// `first`: the person has no password yet.
pub(in crate::http) fn invitation(
    config: &Config,
    user: &User,
    first: bool,
    (url, lifetime): (&str, Duration),
) -> (String, String) {
    let (mut subjects, mut messages) = (Vec::new(), Vec::new());
    for texts in ALL {
        let (subject, message) = match first {
            true => (texts.invited_subject, texts.invited_message),
            false => (texts.link_subject, texts.link_message),
        };
        let (frame, time) = (Frame::of(config, texts), texts.duration(lifetime));
        let values = [
            ("service", frame.service),
            ("username", user.username.as_str()),
            ("host", frame.host),
            ("url", url),
            ("time", &time),
        ];
        subjects.push(texts::plain(subject, &values));
        messages.push(texts::plain(message, &values));
    }
    (subjects.join(" / "), messages.join("\n* * *\n\n"))
}
