//! A password that a person chooses, with a link or with the present password.

use std::time::Duration;

use zeroize::Zeroizing;

use super::throttle::{self, Attempt, Guess};
use super::{Place, SignInError};
use crate::Context;
use domain::User;
use domain::digest::Digest;
use secrets::password::{Account, Choice, Chosen, Request};
use secrets::password_rules::{self, Weak};

/// What became of a chosen password. It is not set yet.
#[must_use]
pub enum ChoiceOutcome {
    /// The hash of the password.
    Chosen(String),
    /// Counted for this person, and for the link or the browser.
    Refused(Weak),
    /// There were too many refused passwords. The person must wait this long.
    Wait(Duration),
}

/// Decides on a password that `user` chooses with `link`, or else with the present password, which the caller has checked. `least`:
/// characters that the password needs.
///
/// # Errors
/// A [`SignInError`]; nothing is counted.
pub async fn choose(
    context: &Context<'_>,
    user: User,
    password: Zeroizing<String>,
    link: Option<Digest>,
    least: usize,
    place: &Place,
) -> Result<ChoiceOutcome, SignInError> {
    let account = Account::of(user.username.as_str());
    let guess = Guess::Choice(&account, link);
    let device = place.known_device(context, &user.username, user.credentials_version);
    let way = throttle::own_key(guess, place.address, device.as_ref(), context);
    let rules = password_rules::check(&password, &user, &context.settings.name, least);
    let present = user.password_hash;
    let choice = Choice { password, present };
    let request = Request::choose(way, &throttle::widest_network(place.address), choice)?;
    let attempt = match Attempt::admit(context, guess, place.address, device.as_ref()).await? {
        Ok(attempt) => attempt,
        Err(wait) => return Ok(ChoiceOutcome::Wait(wait)),
    };
    if let Err(weak) = rules {
        return Ok(ChoiceOutcome::Refused(weak));
    }
    let chosen = match request.queue() {
        Ok(turn) => turn.run().await,
        Err(busy) => Err(busy),
    };
    match chosen {
        Ok(Chosen::Hash(hash)) => {
            attempt.forgive().await?;
            Ok(ChoiceOutcome::Chosen(hash))
        }
        Ok(Chosen::Unchanged) => Ok(ChoiceOutcome::Refused(Weak::Unchanged)),
        Err(error) => {
            attempt.take_back().await?;
            Err(error.into())
        }
    }
}
