//! Reading request bodies, no larger than a form may be (D-18).

use actix_web::web::{Bytes, BytesMut, Payload};
use futures_util::StreamExt as _;

/// Form bodies larger than this are refused with 413, in bytes (D-18).
pub(super) const MAX_FORM_BYTES: usize = 64 * 1024;

/// What is read and thrown away of a body that is too large, in bytes. Most clients read an answer only after they
/// have sent their whole body; a connection that is closed before tells them nothing.
const MAX_DISCARDED_BYTES: usize = 16 * 1024 * 1024;

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyError {
    /// Larger than [`MAX_FORM_BYTES`].
    TooLarge,
    /// The connection broke, or the body is not what its headers say.
    Broken,
}

/// Reads a body to its end.
pub(super) async fn read(mut payload: Payload) -> Result<Bytes, BodyError> {
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
