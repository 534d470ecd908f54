//! Reads request bodies, limited in size (D-18) and time.
//!
//! The gateway sends only complete bodies. These limits protect the service from clients that reach it without the
//! gateway, or through a gateway that streams bodies.

use std::collections::BTreeMap;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use actix_web::web::{Bytes, BytesMut, Payload};
use futures_util::StreamExt as _;
use tokio::sync::oneshot;

/// Maximum size of a form body, in bytes; larger bodies get 413 (D-18).
pub(super) const MAX_FORM_BYTES: usize = 64 * 1024;

/// Time limit from a request's head to the end of its body.
const DEADLINE: Duration = Duration::from_secs(10);

/// Maximum number of incomplete bodies. With [`MAX_FORM_BYTES`] this limits their memory to 64 MiB.
const MAX_AWAITED: usize = 1024;

/// Number of bytes that the service reads and discards from a body that is too large. Most clients read a response only
/// after they have sent the whole body, so closing the connection earlier would hide the error.
const MAX_DISCARDED_BYTES: usize = 16 * 1024 * 1024;

/// The incomplete bodies of the process.
static AWAITED: Awaited = Awaited::new(MAX_AWAITED);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    #[error("The body is larger than 64 KiB")]
    TooLarge,
    /// The body was not complete within [`DEADLINE`], or was the oldest of more than [`MAX_AWAITED`] incomplete bodies.
    #[error("The body did not arrive in time")]
    TooSlow,
    /// The connection broke, or the body contradicts its headers.
    #[error("The body cannot be read")]
    Broken,
}

pub(super) async fn read(payload: Payload) -> Result<Bytes, BodyError> {
    let mut body = pin!(collect(payload));
    // Nearly every body arrives with its head and needs no place among the incomplete bodies.
    if let Poll::Ready(read) = poll_fn(|context| Poll::Ready(body.as_mut().poll(context))).await {
        return read;
    }
    let (_place, given_up) = AWAITED.enter();
    let read = async {
        tokio::select! {
            read = body => read,
            _ = given_up => Err(BodyError::TooSlow),
        }
    };
    let read = tokio::time::timeout(DEADLINE, read).await;
    read.unwrap_or(Err(BodyError::TooSlow))
}

async fn collect(mut payload: Payload) -> Result<Bytes, BodyError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|_| BodyError::Broken)?;
        if body.len() + chunk.len() > MAX_FORM_BYTES {
            discard(payload).await;
            return Err(BodyError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

async fn discard(mut payload: Payload) {
    let mut discarded = 0;
    while discarded < MAX_DISCARDED_BYTES
        && let Some(Ok(chunk)) = payload.next().await
    {
        discarded += chunk.len();
    }
}

/// The incomplete bodies, oldest first. If there are too many, the service abandons the oldest and never refuses the
/// newest: clients that stall in the middle of a body do not block clients that send their body at once.
struct Awaited {
    most: usize,
    state: Mutex<State>,
}

struct State {
    next: u64,
    places: BTreeMap<u64, oneshot::Sender<()>>,
}

impl Awaited {
    const fn new(most: usize) -> Self {
        let state = State {
            next: 0,
            places: BTreeMap::new(),
        };
        Self {
            most,
            state: Mutex::new(state),
        }
    }

    /// Enters a body. The place counts until it is dropped; the receiver is notified if the service abandons this body.
    fn enter(&self) -> (Place<'_>, oneshot::Receiver<()>) {
        let (give_up, given_up) = oneshot::channel();
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.places.insert(number, give_up);
        if state.places.len() > self.most
            && let Some((_, oldest)) = state.places.pop_first()
        {
            // The send fails if the reader has just ended, which is fine.
            let _ended = oldest.send(());
        }
        let awaited = self;
        (Place { awaited, number }, given_up)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the incomplete bodies.
struct Place<'a> {
    awaited: &'a Awaited,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.awaited.state().places.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_body_too_many_gives_up_the_oldest() {
        let awaited = Awaited::new(2);
        let (_first, mut first) = awaited.enter();
        let (second_place, mut second) = awaited.enter();
        let (_third, mut third) = awaited.enter();
        assert_eq!(first.try_recv(), Ok(()));
        assert_eq!(second.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        drop(second_place);
        let (_fourth, mut fourth) = awaited.enter();
        assert_eq!(third.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        let (_fifth, _) = awaited.enter();
        assert_eq!(third.try_recv(), Ok(()));
        assert_eq!(fourth.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    #[test]
    fn complete_bodies_leave_no_place_behind() {
        let awaited = Awaited::new(2);
        for _ in 0..5 {
            let (_place, mut given_up) = awaited.enter();
            assert_eq!(
                given_up.try_recv(),
                Err(oneshot::error::TryRecvError::Empty)
            );
        }
        assert!(awaited.state().places.is_empty());
    }
}
