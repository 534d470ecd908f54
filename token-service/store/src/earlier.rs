//! Stores of earlier versions of the program, with one row of each kind. Later versions must read these rows.

use std::sync::Arc;

use claims::Algorithm;

use super::conformance::{
    as_registered, assert_look_ups_agree, at, audit_event, client, code, fitting, legacy_instance,
    put, registrations, remembered, second_factor, session, signing_key, start, user, username,
    with_current_credentials,
};
use super::testing::memory;
use super::*;
use domain::digest::Digest;
use domain::{
    Admission, AuditEvent, AuditRange, Client, ClientId, GrantFilter, GrantId, Pace, PacedKey,
    Redemption, RefreshRotation, RefreshStep, Revoked, Rotation, TokenId,
};

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

fn grant_id(number: u8) -> GrantId {
    GrantId::from_bytes([number; 16])
}

fn token_id(number: u8) -> TokenId {
    TokenId::from_bytes([number; 16])
}

const FAILURES: Pace = Pace {
    free: 1,
    longest: Duration::from_secs(600),
    forget_one_after: Duration::from_secs(600),
};

/// Writes the rows that [`assert_filled`] expects. The versions in the names of the `testdata` files filled those files
/// with this function.
pub(super) async fn fill(store: &dyn Store) {
    let mut change = put(vec![client("web")], vec![user("ada"), user("grace")]);
    change.put_legacy_instances = vec![legacy_instance("us1.example")];
    change.remember = vec![remembered("web", "A client")];
    store.change_registry(change, at(0)).await.unwrap();
    let weak = store.rehash_password(username("grace"), "hash".into(), "stronger".into());
    weak.await.unwrap();
    let key = signing_key("key", Algorithm::EdDsa, at(0));
    store
        .add_signing_key(key, None, Arc::default())
        .await
        .unwrap();
    let own = second_factor(&["recovery"]);
    store
        .set_second_factor(username("ada"), Some(own), None, Arc::default(), at(0))
        .await
        .unwrap();
    for (number, text) in [(1, "used"), (2, "revoked"), (3, "unused")] {
        let record = with_current_credentials(store, code()).await;
        let _ = store.issue_legacy_code(digest(text), record).await.unwrap();
        if text == "unused" {
            break;
        }
        let first = RefreshStep {
            refresh_id: token_id(number),
            access_id: token_id(number + 10),
            scope: domain::Scope::default(),
            issued_at: at(0),
            refresh_expires_at: at(1_000_000),
        };
        let redeemed = store
            .redeem_legacy_code(digest(text), fitting(), grant_id(number), first, at(0))
            .await;
        assert!(matches!(redeemed.unwrap(), Redemption::Redeemed(_)));
    }
    let rotated = store.rotate_refresh(rotation(1, 4)).await.unwrap();
    assert!(matches!(rotated, Rotation::Rotated { .. }));
    store
        .revoke_grant(grant_id(2), Arc::default(), at(5))
        .await
        .unwrap();
    store
        .claim_jti(code().client_id, "jti".into(), at(300), at(0))
        .await
        .unwrap();
    store.claim_totp_step(username("ada"), 7).await.unwrap();
    let failed = PacedKey {
        key: digest("failed"),
        pace: FAILURES,
    };
    let _ = store.admit_attempt(vec![failed], at(0)).await.unwrap();
    start(store, digest("session"), session("ada", at(600)), None).await;
    let events: Vec<AuditEvent> = (1..=3).map(audit_event).collect();
    store.append_audit(events.into()).await.unwrap();
}

fn rotation(from: u8, to: u8) -> RefreshRotation {
    RefreshRotation {
        grant_id: grant_id(1),
        refresh_id: token_id(from),
        client_id: code().client_id,
        scope: None,
        next_refresh_id: token_id(to),
        next_access_id: token_id(to + 10),
        now: at(5),
        lifetime: Duration::from_secs(1_000_000),
        grace: Duration::from_secs(10),
    }
}

/// Asserts that `store` has all rows of [`fill`], and uses them.
pub(super) async fn assert_filled(store: &dyn Store) {
    let (clients, users) = registrations(store).await;
    // Earlier versions filled their files with a client without redirect URI.
    let [web] = clients.try_into().unwrap();
    let integration = client("web").integration;
    let web = as_registered(&Client { integration, ..web });
    assert_eq!(web, client("web"));
    let names: Vec<&str> = users.iter().map(|user| user.username.as_str()).collect();
    assert_eq!(names, ["ada", "grace"]);
    assert_eq!(users[1].password_hash.as_deref(), Some("stronger"));
    let registered = users[1].registered_password_digest;
    assert_eq!(registered, Some(digest("hash")));
    assert_eq!(
        store.legacy_instances().await.unwrap(),
        [legacy_instance("us1.example")]
    );
    assert_eq!(
        memory(store).await.unwrap(),
        [remembered("web", "A client")]
    );
    assert_look_ups_agree(store).await;
    let summary = store.registry_summary().await.unwrap();
    assert_eq!(summary.scopes, ["projects"]);
    assert_eq!(summary.longest_user_id, 1);
    let objects = store.remembered_objects(true, None, 10).await.unwrap();
    assert_eq!(objects, [remembered("web", "A client").object]);
    assert_eq!(
        store.signing_keys().await.unwrap(),
        [signing_key("key", Algorithm::EdDsa, at(0))]
    );
    let credentials = store.credentials(username("ada")).await.unwrap().unwrap();
    assert_eq!(
        credentials.totp_secret_sealed.as_deref(),
        Some(&b"sealed"[..])
    );
    let grant = store.grant(grant_id(1)).await.unwrap().unwrap();
    assert_eq!(grant.current.refresh_id, token_id(4));
    assert_eq!(grant.spent[0].refresh_id, token_id(1));
    let revoked = store.grant(grant_id(2)).await.unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(at(5)));
    for (name, client_id) in [("ada", None), ("ada", Some("web")), ("grace", None)] {
        let filter = GrantFilter {
            username: Some(username(name)),
            client_id: client_id.and_then(ClientId::parse),
        };
        let grants = store.grants(filter, None, 10).await.unwrap();
        let ids: Vec<GrantId> = grants.iter().map(|grant| grant.grant_id).collect();
        let expected = if name == "ada" {
            vec![grant_id(1), grant_id(2)]
        } else {
            vec![]
        };
        assert_eq!(ids, expected);
    }
    let entries = store.revocations_since(0, 100).await.unwrap();
    let announced: Vec<&Revoked> = entries.iter().map(|entry| &entry.revoked).collect();
    assert_eq!(announced, [&Revoked::Grant(grant_id(2))]);
    let session = store.session(digest("session"), at(10)).await.unwrap();
    assert_eq!(session.unwrap().username, username("ada"));
    let events = store.audit(AuditRange::After(0), 10).await.unwrap();
    let events: Vec<AuditEvent> = events.into_iter().map(|record| record.event).collect();
    assert_eq!(events, [1, 2, 3].map(audit_event));

    let change = put(vec![client("web")], vec![]);
    store.change_registry(change, at(9)).await.unwrap();
    let repeated = store.rotate_refresh(rotation(1, 5)).await.unwrap();
    assert!(matches!(repeated, Rotation::Repeated { .. }));
    let rotated = store.rotate_refresh(rotation(4, 5)).await.unwrap();
    assert!(matches!(rotated, Rotation::Rotated { .. }));
    let first = grant.current.clone();
    let unused = store.redeem_legacy_code(
        digest("unused"),
        fitting(),
        grant_id(3),
        first.clone(),
        at(9),
    );
    assert!(matches!(unused.await.unwrap(), Redemption::Redeemed(_)));
    let used = store.redeem_legacy_code(digest("used"), fitting(), grant_id(4), first, at(9));
    assert_eq!(used.await.unwrap(), Redemption::Replayed(grant_id(1)));
    let claimed = store.claim_jti(code().client_id, "jti".into(), at(300), at(9));
    assert_eq!(claimed.await.unwrap(), Claim::AlreadyClaimed);
    let claimed = store.claim_totp_step(username("ada"), 7).await;
    assert_eq!(claimed.unwrap(), Claim::AlreadyClaimed);
    let claimed = store.claim_recovery_code(username("ada"), digest("recovery"));
    assert_eq!(claimed.await.unwrap(), Claim::Claimed);
    let failed = PacedKey {
        key: digest("failed"),
        pace: FAILURES,
    };
    let admit = async || store.admit_attempt(vec![failed], at(0)).await.unwrap();
    assert!(matches!(admit().await, Admission::Admitted(_)));
    assert!(matches!(admit().await, Admission::Wait(_)));
    store.end_session(digest("session")).await.unwrap();
    assert_eq!(
        store.session(digest("session"), at(10)).await.unwrap(),
        None
    );
}
