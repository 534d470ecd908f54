//! Conversion of entries to the format of gateways.

use claims::revocation::{Entry, EntryKind};

use domain::Revoked;

/// An entry in the format of gateways; `issuer` is the issuer of tokens of the current flows.
pub(super) fn published(entry: &domain::Revocation, issuer: &str) -> Entry {
    let (mut iss, mut user_id, mut user_site, mut client_id) = (None, None, None, None);
    let (kind, id) = match &entry.revoked {
        Revoked::Grant(id) => (EntryKind::Grant, id.to_string()),
        Revoked::Token(id) => (EntryKind::Token, id.to_string()),
        Revoked::LegacyToken(id) => (EntryKind::Token, id.legacy()),
        Revoked::Client(id) => (EntryKind::Client, id.to_string()),
        Revoked::User(name) => {
            iss = Some(issuer.to_owned());
            (EntryKind::User, name.to_string())
        }
        Revoked::Account {
            username,
            user_id: id,
            site,
        } => {
            iss = Some(issuer.to_owned());
            user_id = Some(id.clone());
            user_site = Some(site.clone());
            (EntryKind::Account, username.to_string())
        }
        Revoked::UserAtClient {
            username,
            client_id: id,
        } => {
            iss = Some(issuer.to_owned());
            client_id = Some(id.to_string());
            (EntryKind::User, username.to_string())
        }
        Revoked::Key(key) => (EntryKind::Key, key.to_string()),
        Revoked::Issuer(of) => {
            iss = Some(of.clone());
            (EntryKind::Issuer, of.clone())
        }
    };
    Entry {
        kind,
        id,
        iss,
        user_id,
        user_site,
        client_id,
        at: entry.at.seconds(),
        exp: entry.expires_at.seconds(),
    }
}
