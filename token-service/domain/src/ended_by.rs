//! What a change of a client or user ends (D-28, D-35). The stores carry it out in the transaction of the change.

use crate::clock::Timestamp;
use crate::{Client, ClientId, ClientVersion, CredentialsVersion, Owner, Revoked, User, Username};

/// A client or user before a change.
#[derive(Debug)]
pub enum Before<T> {
    Absent,
    /// The store cannot read the row. The change continues, and assumes the worst of what the row contained.
    Unreadable,
    Read(T),
}

impl<T> Before<T> {
    /// The client or user, if the store can read the row.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Read(row) => Some(row),
            Self::Absent | Self::Unreadable => None,
        }
    }

    /// True if the client or user has a property, or if the row is there and cannot be read.
    pub fn may_be(&self, has: impl FnOnce(&T) -> bool) -> bool {
        match self {
            Self::Absent => false,
            Self::Unreadable => true,
            Self::Read(row) => has(row),
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Codes and sign-ins in progress: what remains gets a new version.
    pub version: bool,
    pub sessions: EndedSessions,
    /// The second factor that the user set up.
    pub second_factor: bool,
    pub grants: EndedGrants,
    /// Entries in the feed for tokens of unlinked accounts.
    pub accounts: Vec<Revoked>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub enum EndedSessions {
    #[default]
    None,
    /// The user's sessions that no longer [rest on](crate::Session::rests_on) the user.
    Outdated,
    All,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub enum EndedGrants {
    #[default]
    None,
    /// The user's grants that no longer [rest on](crate::Grant::rests_on) the user. Each has an entry in the feed.
    Outdated,
    /// All grants and tokens.
    Of(Owner),
}

/// What ends when the client becomes `after`; `None` if the client is removed. With `revokes`, all that was issued to it ends.
pub fn client(
    id: &ClientId,
    before: &Before<Client>,
    after: Option<&Client>,
    revokes: bool,
) -> Ended {
    let ends = match after {
        Some(after) => before.may_be(|before| before.enabled) && (revokes || !after.enabled),
        None => before.may_be(|_| true),
    };
    Ended {
        version: ends || before.known().is_none(),
        grants: if ends {
            EndedGrants::Of(Owner::Client(id.clone()))
        } else {
            EndedGrants::None
        },
        ..Ended::default()
    }
}

/// The client that the store writes for `client`, and what the change ends. `next` was never used as a version.
/// `tokens_from` is the first `iat` that earlier revocations do not cover, and `revoked_until` the last one that the change
/// covers if the change revokes tokens.
pub fn put_client(
    client: &Client,
    before: &Before<Client>,
    next: u64,
    (tokens_from, revoked_until): (Timestamp, Timestamp),
    revokes: bool,
) -> (Client, Ended) {
    let ended = self::client(&client.client_id, before, Some(client), revokes);
    let tokens_from = match ended.grants {
        EndedGrants::None | EndedGrants::Outdated => tokens_from,
        EndedGrants::Of(_) => tokens_from.max(revoked_until.next_second()),
    };
    let version = match before.known() {
        Some(before) if !ended.version => before.version,
        _ => ClientVersion::new(next),
    };
    let versioned = Client {
        version,
        tokens_from,
        ..client.clone()
    };
    (versioned, ended)
}

/// Like [`put_client`], at `now`. `tokens_from` has a time for each entry of [`Revoked::of_user`], in their order.
pub fn put_user(
    user: &User,
    before: &Before<User>,
    next: u64,
    (tokens_from, revoked_until, now): (Vec<Timestamp>, Timestamp, Timestamp),
) -> (User, Ended) {
    let ended = self::user(&user.username, before, Some(user));
    let is_revoked = |revoked: &Revoked| match &ended.grants {
        EndedGrants::Of(owner) if owner.revoked() == *revoked => true,
        _ => ended.accounts.contains(revoked),
    };
    let times = Revoked::of_user(user).zip(tokens_from);
    let mut times = times.map(|(revoked, from)| match is_revoked(&revoked) {
        true => from.max(revoked_until.next_second()),
        false => from,
    });
    let tokens_from = times.next().unwrap_or_default();
    let accounts_from = user.accounts.iter().cloned().zip(times);
    let accounts_from = accounts_from.filter(|(_, from)| *from > Timestamp::default());
    let accounts_from = accounts_from.collect();
    let credentials_version = match before.known() {
        Some(before) if !ended.version => before.credentials_version,
        _ => CredentialsVersion::new(next),
    };
    let sign_ins_from = match (&ended.sessions, before) {
        (EndedSessions::None, Before::Read(before)) => before.sign_ins_from,
        // Somebody of this name may have been removed a moment ago.
        (EndedSessions::None, _) => tokens_from.min(now),
        (EndedSessions::Outdated | EndedSessions::All, _) => now,
    };
    let versioned = User {
        credentials_version,
        tokens_from,
        accounts_from,
        sign_ins_from,
        ..user.clone()
    };
    (versioned, ended)
}

/// What ends when the user becomes `after`; `None` if the user is removed.
pub fn user(username: &Username, before: &Before<User>, after: Option<&User>) -> Ended {
    let everything = Ended {
        version: true,
        sessions: EndedSessions::All,
        grants: EndedGrants::Of(Owner::User(username.clone())),
        ..Ended::default()
    };
    let (before, after) = match (before, after) {
        (Before::Absent, after) => {
            return Ended {
                version: after.is_some(),
                ..Ended::default()
            };
        }
        (_, None) => {
            return Ended {
                second_factor: true,
                ..everything
            };
        }
        (Before::Unreadable, Some(_)) => return everything,
        (Before::Read(before), Some(after)) => (before, after),
    };
    let second_factor = before.totp_secret_sealed != after.totp_secret_sealed;
    if before.enabled && !after.enabled {
        return Ended {
            second_factor,
            ..everything
        };
    }
    // A stronger hash of the same password is not a change (`User::rehash`).
    let credentials = second_factor || before.password_hash != after.password_hash;
    let linked = before.accounts.iter();
    let unlinked = linked.filter(|account| !after.accounts.contains(account));
    let accounts: Vec<Revoked> = unlinked
        .map(|account| Revoked::account(username, account))
        .collect();
    let mut identities = before.identities.iter();
    let has_lost = identities.any(|linked| !after.has_identity(&linked.identity));
    Ended {
        version: credentials,
        sessions: match (credentials, has_lost) {
            (true, _) => EndedSessions::All,
            (false, true) => EndedSessions::Outdated,
            (false, false) => EndedSessions::None,
        },
        second_factor,
        grants: if credentials || has_lost || !accounts.is_empty() {
            EndedGrants::Outdated
        } else {
            EndedGrants::None
        },
        accounts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IntegrationKind, LinkedIdentity, testing};

    fn ada(change: impl FnOnce(&mut User)) -> User {
        let mut ada = crate::testing::user("ada", &["1", "2"]);
        change(&mut ada);
        ada
    }

    #[test]
    fn a_change_of_a_user_ends_what_rests_on_it() {
        let before = ada(|_| ());
        let name = &before.username;
        let all = EndedGrants::Of(Owner::User(name.clone()));
        let password = ada(|user| user.password_hash = Some("hash".into()));
        let app = ada(|user| user.totp_secret_sealed = Some(vec![1]));
        let unlinked = ada(|user| drop(user.accounts.remove(0)));
        let disabled = ada(|user| user.enabled = false);
        let other = ada(|user| user.organization = Some("majestic".into()));
        let identity = |subject: &str, by_email| LinkedIdentity {
            identity: testing::identity(subject),
            by_email,
        };
        let known = ada(|user| user.identities = vec![identity("1", true), identity("2", false)]);
        let confirmed =
            ada(|user| user.identities = vec![identity("2", false), identity("1", false)]);
        let unknown =
            ada(|user| user.identities = vec![identity("2", false), identity("3", false)]);
        let none = || (false, EndedSessions::None, false, EndedGrants::None, 0);
        let outdated = |credentials, second_factor, unlinked| {
            let sessions = match credentials {
                true => EndedSessions::All,
                false => EndedSessions::None,
            };
            let grants = EndedGrants::Outdated;
            (credentials, sessions, second_factor, grants, unlinked)
        };
        let lost = (
            false,
            EndedSessions::Outdated,
            false,
            EndedGrants::Outdated,
            0,
        );
        for (before, after, (version, sessions, second_factor, grants, unlinks)) in [
            (&before, &other, none()),
            (&before, &password, outdated(true, false, 0)),
            (&before, &app, outdated(true, true, 0)),
            (&before, &unlinked, outdated(false, false, 1)),
            (
                &before,
                &disabled,
                (true, EndedSessions::All, false, all, 0),
            ),
            (&before, &known, none()),
            (&known, &confirmed, none()),
            (&known, &unknown, lost),
        ] {
            let found = user(name, &Before::Read(before.clone()), Some(after));
            assert_eq!(found.accounts.len(), unlinks, "{after:?}");
            let expected = Ended {
                version,
                sessions,
                second_factor,
                grants,
                accounts: found.accounts.clone(),
            };
            assert_eq!(found, expected, "{after:?}");
        }
        for (before, after) in [(&unlinked, &other), (&disabled, &disabled)] {
            let found = user(name, &Before::Read(before.clone()), Some(after));
            assert_eq!(found, Ended::default(), "{after:?}");
        }
        let removed = user(name, &Before::Read(disabled), None);
        assert_eq!(removed.sessions, EndedSessions::All);
        assert!(removed.second_factor && removed.grants != EndedGrants::None);
        let replaced = user(name, &Before::Unreadable, Some(&before));
        assert_eq!(replaced.sessions, EndedSessions::All);
        assert!(replaced.version && replaced.grants != EndedGrants::None);
        let added = user(name, &Before::Absent, Some(&before));
        let new = Ended {
            version: true,
            ..Ended::default()
        };
        assert_eq!(added, new);
        assert_eq!(user(name, &Before::Absent, None), Ended::default());
    }

    #[test]
    fn sign_ins_at_a_provider_count_from_the_end_of_sessions() {
        let seconds = Timestamp::from_seconds;
        let (never, now) = (seconds(0), seconds(5));
        let before = || Before::Read(ada(|user| user.sign_ins_from = seconds(3)));
        let same = || ada(|_| ());
        for (before, after, tokens_from, expected) in [
            (before(), same(), never, seconds(3)),
            (before(), same(), seconds(20), seconds(3)),
            (before(), ada(|user| user.enabled = false), never, now),
            (
                before(),
                ada(|user| user.password_hash = Some("hash".into())),
                never,
                now,
            ),
            (Before::Absent, same(), never, never),
            // Removed a moment ago.
            (Before::Absent, same(), seconds(20), now),
            (Before::Unreadable, same(), never, now),
        ] {
            let (user, _) = put_user(&after, &before, 7, (vec![tokens_from], now, now));
            assert_eq!(user.sign_ins_from, expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_client_ends_its_grants_when_it_is_disabled_or_removed() {
        let id = ClientId::parse("web").unwrap();
        let enabled = Client::new(id.clone(), IntegrationKind::Installed);
        let disabled = enabled.clone().disabled();
        let read = |client: &Client| Before::Read(client.clone());
        for (before, after, version, grants) in [
            (Before::Absent, Some(&enabled), true, false),
            (Before::Absent, None, true, false),
            (Before::Unreadable, Some(&enabled), true, false),
            (Before::Unreadable, Some(&disabled), true, true),
            (read(&enabled), Some(&enabled), false, false),
            (read(&enabled), Some(&disabled), true, true),
            (read(&disabled), Some(&disabled), false, false),
            (read(&disabled), Some(&enabled), false, false),
            (read(&disabled), None, true, true),
        ] {
            let ended = client(&id, &before, after, false);
            let ends = ended.grants == EndedGrants::Of(Owner::Client(id.clone()));
            assert_eq!(
                (ended.version, ends),
                (version, grants),
                "{before:?} {after:?}"
            );
        }
        let (now, until) = (Timestamp::from_seconds(5), Timestamp::from_seconds(20));
        let (ada, _) = put_user(
            &ada(|_| ()),
            &Before::Unreadable,
            7,
            (vec![now; 2], until, now),
        );
        assert_eq!(ada.tokens_from, until.next_second());
        assert_eq!(ada.accounts_from, [(testing::account("1"), now)]);
        for (before, from) in [
            (read(&enabled), until.next_second()),
            // Nothing was issued since the client was disabled.
            (read(&disabled), now),
            (Before::Absent, now),
        ] {
            let (after, ended) = put_client(&enabled, &before, 7, (now, until), true);
            let is_revoked = ended.grants == EndedGrants::Of(Owner::Client(id.clone()));
            assert_eq!(after.tokens_from, from, "{before:?}");
            assert_eq!(is_revoked, from > now, "{before:?}");
            assert_eq!(
                after.version == ClientVersion::new(7),
                before.known().is_none_or(|before| before.enabled)
            );
        }
    }
}
