//! What a check reads of the store that a start would open. Looking changes nothing.

use domain::User;

#[derive(Debug)]
pub enum Look {
    /// There is no store: the start creates it.
    Absent,
    /// Another process has the file open, or only a start can read it, which repairs it first.
    Unread,
    Found {
        /// The sealed root of the tags, if the store has one.
        sealed_root: Option<Vec<u8>>,
        /// The users who have one of the given values of identities, each with the value.
        holders: Vec<(String, User)>,
    },
}
