mod recency;
mod request;
mod step;

use super::*;
use crate::sign_in::session::{LiveSession, SessionId};
use domain::clock::Timestamp;
use domain::digest::Digest;
use domain::{CredentialsVersion, Session, SessionPlace, SessionStage, User, Username, testing};

const ISSUER: &str = "https://lobby.example.com";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const NOW: Timestamp = Timestamp::from_seconds(1000);
const WEB: &str = "client_id=web&redirect_uri=https%3A%2F%2Fapp.example.com%2Fcb";
const APP: &str = "client_id=app&redirect_uri=http%3A%2F%2F127.0.0.1%3A8000%2Fcb";

/// A web server on the person's device, with a secret.
const NATIVE_WEB: &str = "client_id=here&redirect_uri=http%3A%2F%2F127.0.0.1%3A8000%2Fcb";

fn clients() -> [Client; 4] {
    [
        testing::web_server("web", &[], &["https://app.example.com/cb"]),
        testing::web_server("here", &["secret"], &["http://127.0.0.1:8000/cb"]),
        testing::installed("app", &["http://127.0.0.1:*/cb"]),
        testing::user_bound("machine", &[], "one"),
    ]
    .map(|client| client.with_scopes("admin projects"))
}

fn validate(query: &str) -> Result<AuthorizationRequest, AuthorizeError> {
    validate_at(NOW, query)
}

fn validate_at(now: Timestamp, query: &str) -> Result<AuthorizationRequest, AuthorizeError> {
    let request = UnidentifiedRequest::read(query.as_bytes())?;
    let client_id = request.client_id()?;
    let found = clients()
        .into_iter()
        .find(|client| client.client_id.as_str() == client_id);
    request.validate(found.map(Arc::new), now)
}

/// A live session of a user with this number of linked accounts.
fn live(accounts: usize, stage: SessionStage) -> LiveSession {
    let ids = &["1", "2", "3"][..accounts];
    let user: Arc<User> = Arc::new(testing::user("ada", ids));
    LiveSession {
        id: SessionId::parse(CHALLENGE).unwrap(),
        session: session(user.username.as_str(), stage),
        user,
    }
}

fn refusal(query: &str) -> RedirectError {
    match validate(query) {
        Err(AuthorizeError::Redirect(_, error)) => error,
        other => panic!("{query}: {other:?}"),
    }
}

fn unsafe_request(query: &str) -> UnsafeRequest {
    match validate(query) {
        Err(AuthorizeError::Unsafe(reason)) => reason,
        other => panic!("{query}: {other:?}"),
    }
}

fn session(username: &str, stage: SessionStage) -> Session {
    Session {
        username: Username::parse(username).unwrap(),
        stage,
        amr: vec!["USERNAME_PASSWORD".to_owned()],
        authenticated_at: Timestamp::from_seconds(1),
        expires_at: Timestamp::from_seconds(2),
        ends_at: Timestamp::from_seconds(2),
        credentials_version: CredentialsVersion::default(),
        origin: None,
        used_at: Timestamp::from_seconds(1),
        place: SessionPlace::default(),
        provider: None,
    }
}
