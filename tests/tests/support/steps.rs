//! Steps that many tests take.

use tests::{Artifacts, Postgres};

use super::{Browser, Client, Reply};

impl Reply {
    /// The reply to a request that succeeded.
    #[track_caller]
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.status, 200, "{}", self.body);
        self
    }
}

impl Client {
    /// Tokens for Ada, who signs in with a new browser.
    #[track_caller]
    pub(crate) fn grant(&self, lobby: &str) -> Reply {
        let code = Browser::new(lobby).code_for(self, None);
        self.exchange(lobby, &code, None).done()
    }
}

/// A new PostgreSQL server.
pub(crate) fn database() -> Postgres {
    Postgres::start(&Artifacts::find().unwrap().repository).unwrap()
}

/// The text of a file of the repository.
pub(crate) fn file(path: &str) -> String {
    let path = Artifacts::find().unwrap().repository.join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
