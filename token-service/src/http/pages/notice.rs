//! Texts of the messages to people.

use super::browser::Browser;
use super::frame::Frame;
use super::texts::{self, Texts};
use crate::config::Mail;
use crate::service::Service;
use domain::clock::Timestamp;
use domain::{Notice, SessionPlace, User};
use lettre::Address;

/// What changed, for the message to the person.
pub(super) enum Changed<'a> {
    Password,
    /// The first one, of a person who could not sign in before.
    FirstPassword,
    /// An authenticator app was set up.
    SecondFactor,
    RecoveryCodes,
    /// An identity at the provider with this name was linked.
    IdentityLinked(&'a str),
    /// Likewise, unlinked.
    IdentityUnlinked(&'a str),
}

/// The message that tells `user` of a change in this browser, for the transaction of the change: until the mail server takes it, the service
/// owes it (D-64). `None` without `[mail]` or a usable address. After [`Browser::change`]
/// it is sent at once; after another operation, notify [`Service::owed`](crate::service::Service::owed).
pub(super) fn of(browser: &Browser, user: &User, changed: &Changed<'_>) -> Option<Notice> {
    let texts = browser.texts();
    let (subject, message, provider) = match changed {
        Changed::Password => (texts.changed_subject, texts.changed_message, ""),
        Changed::FirstPassword => (texts.first_subject, texts.first_message, ""),
        Changed::SecondFactor => (texts.set_up_subject, texts.set_up_message, ""),
        Changed::RecoveryCodes => (texts.codes_subject, texts.codes_message, ""),
        Changed::IdentityLinked(provider) => {
            (texts.linked_subject, texts.linked_message, *provider)
        }
        Changed::IdentityUnlinked(provider) => {
            (texts.unlinked_subject, texts.unlinked_message, *provider)
        }
    };
    let asked = Asked::of(browser);
    let more = [("provider", provider)];
    let letter = letter(&browser.frame(), user, (subject, message), &more, &asked);
    owed(&browser.service, user, letter, asked.at)
}

/// The message that tells `user` of an operator who removes the second factor, in every language: no browser says which one the person
/// understands. Somebody may have talked the operator into it.
pub(in crate::http) fn second_factor_removed(service: &Service, user: &User) -> Option<Notice> {
    let asked = Asked {
        at: service.clock.now(),
        place: None,
    };
    let letters = texts::ALL.map(|texts| {
        let frame = Frame::of(&service.config, texts);
        let message = (texts.removed_subject, texts.removed_message);
        letter(&frame, user, message, &[], &asked)
    });
    let (subjects, messages): (Vec<_>, Vec<_>) = letters.into_iter().unzip();
    let letter = (subjects.join(" / "), messages.join("\n--\n\n"));
    owed(service, user, letter, asked.at)
}

fn owed(
    service: &Service,
    user: &User,
    (subject, text): (String, String),
    at: Timestamp,
) -> Option<Notice> {
    let _: &Mail = service.config.mail.as_ref()?;
    let (email, _) = address(user)?;
    Some(Notice {
        username: user.username.clone(),
        email: email.to_owned(),
        subject,
        text,
        at,
    })
}

/// The address of a user, as registered and as the mail server takes it.
pub(super) fn address(user: &User) -> Option<(&str, Address)> {
    let email = user.email.as_deref()?;
    Some((email, email.parse().ok()?))
}

/// When and where a request was made, for the person who gets the message.
pub(super) struct Asked {
    at: Timestamp,
    /// `None` for a change of an operator.
    place: Option<SessionPlace>,
}

impl Asked {
    pub(super) fn of(browser: &Browser) -> Self {
        Self {
            at: browser.context().now,
            place: Some(browser.place().in_words()),
        }
    }
}

/// Subject and text of a message to `user`, with the values that every message may name, and `more`.
pub(super) fn letter(
    frame: &Frame<'_>,
    user: &User,
    (subject, message): (&str, &str),
    more: &[(&str, &str)],
    asked: &Asked,
) -> (String, String) {
    let values = [
        ("service", frame.service),
        ("username", user.username.as_str()),
        ("host", frame.host),
    ];
    let values = [&values[..], more].concat();
    let mut text = texts::plain(message, &values);
    text.push_str(&footer(frame, frame.texts, asked));
    (texts::plain(subject, &values), text)
}

/// What the person compares with the own devices, and where help is.
fn footer(frame: &Frame<'_>, texts: &Texts, asked: &Asked) -> String {
    let mut lines = vec![(texts.time, texts.moment(asked.at).to_string())];
    if let Some(place) = &asked.place {
        let network = match place.network.as_str() {
            "" => texts.not_known,
            network => network,
        };
        lines.push((texts.session_network, network.to_owned()));
        lines.push((texts.browser, texts.browser_in_words(place)));
    }
    lines.extend(frame.help().map(|help| (texts.help, help.to_owned())));
    let lines = lines
        .into_iter()
        .map(|(name, value)| format!("{name}: {value}\n"));
    format!("\n{}", lines.collect::<String>())
}
