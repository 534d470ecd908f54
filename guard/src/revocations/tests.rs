use claims::revocation::MAX_PAGE_BYTES;
use serde_json::{Value, json};

use super::*;

const ISS: &str = "https://lobby.example.com";
const NOW: u64 = 1_800_000_000;

fn token() -> TokenReference {
    TokenReference {
        jti: Some("t".into()),
        grant_id: Some("g".into()),
        client_id: Some("c".into()),
        sub: Some("u".into()),
        user_id: Some("1879048401".into()),
        user_site: Some("https://us1.example.com".into()),
        iat: NOW,
        exp: NOW + 3600,
        ..TokenReference::default()
    }
}

fn revocations(capacity: usize) -> Revocations {
    Revocations::new(capacity, 5)
}

fn read(page: &Value) -> Result<Page, String> {
    Page::read(page.to_string().as_bytes(), &[ISS.to_owned()])
}

/// A page with these entries.
fn page(entries: Value) -> Page {
    let page = json!({"feed": "F", "since": 0, "position": 9, "more": false, "holds": true, "revocations": entries});
    read(&page).unwrap()
}

fn entry(kind: &str, id: &str, at: u64) -> Value {
    json!({"kind": kind, "id": id, "at": at, "exp": NOW + 3600})
}

fn revoked(kind: &str, number: u64, exp: u64) -> Revoked {
    let id = format!("{kind} {number}");
    page(json!([{"kind": kind, "id": id, "at": 0, "exp": exp}])).revoked[0]
}

/// Entries of unknown kinds do not affect other entries, whatever they contain.
#[test]
fn unknown_kinds_are_skipped_and_counted() {
    let page = page(json!([
        {"kind": "planet", "exp": NOW, "radius": {"km": 6371}},
        entry("grant", "g", 0),
        {"kind": "moon", "id": "x", "at": 0, "exp": 0},
    ]));
    assert_eq!(page.unknown, Some((2, "planet".to_owned())));
    assert_eq!(page.revoked.len(), 1);
}

#[test]
fn a_page_that_is_too_long_or_lacks_members_is_refused() {
    let long = vec![b' '; MAX_PAGE_BYTES + 1];
    let refused = Page::read(&long, &[]);
    assert_eq!(refused, Err("larger than 4194304 bytes".to_owned()));
    let without_feed = br#"{"since":0,"position":1,"more":false,"revocations":[]}"#;
    let why = "it is no page of version 1 of the feed";
    assert_eq!(Page::read(without_feed, &[]), Err(why.to_owned()));
}

#[test]
fn a_later_entry_for_the_same_client_counts() {
    let mut revocations = revocations(1000);
    let entries = page(json!([
        entry("client", "c", NOW - 9),
        entry("client", "c", NOW),
        entry("client", "c", 0)
    ]));
    revocations.add(&entries.revoked, NOW);
    assert_eq!(revocations.len(), 1);
    assert_eq!(
        revocations.refusal(&token(), ISS, 0),
        Some(Refusal::Revoked)
    );
}

/// Cached tokens compare the generation: it rises with every new entry, but not with a known one.
#[test]
fn the_generation_rises_with_what_is_new() {
    let mut revocations = revocations(1000);
    let grant = page(json!([entry("grant", "g", 0)])).revoked;
    let client = page(json!([entry("client", "c", NOW - 1)])).revoked;
    let later = page(json!([entry("client", "c", NOW)])).revoked;
    for (entries, expected) in [
        (&grant, 1),
        (&grant, 1),
        (&client, 2),
        (&client, 2),
        (&later, 3),
        (&client, 3),
    ] {
        revocations.add(entries, NOW);
        assert_eq!(revocations.generation(), expected);
    }
    // Clients are looked up again only if a client was added since.
    let mut other = token();
    (other.jti, other.grant_id) = (Some("x".into()), None);
    assert_eq!(revocations.refusal(&other, ISS, 2), Some(Refusal::Revoked));
    assert_eq!(revocations.refusal(&other, ISS, 3), None);
}

fn swept(revocations: &mut Revocations, now: u64) {
    for _ in 0..=SWEEP_SLICES {
        revocations.sweep(now);
    }
}

/// An entry is kept as long as its token is accepted: until `exp` plus the clock skew.
#[test]
fn entries_are_kept_as_long_as_their_tokens_are_accepted() {
    let mut revocations = revocations(1000);
    revocations.add(&page(json!([entry("grant", "g", 0)])).revoked, NOW);
    swept(&mut revocations, NOW + 3600 + 5);
    assert_eq!(
        revocations.refusal(&token(), ISS, 0),
        Some(Refusal::Revoked)
    );
    swept(&mut revocations, NOW + 3600 + 6);
    assert!(revocations.is_empty());
    assert_eq!(revocations.ends.len(), 0);
}

/// The clock was an hour ahead and comes back, so the removed entries are missing.
#[test]
fn what_was_forgotten_too_early_is_refused_until_the_feed_is_read_again() {
    let mut revocations = revocations(1000);
    let entries = page(json!([entry("grant", "g", 0)])).revoked;
    revocations.add(&entries, NOW);
    let mut other = token();
    (other.jti, other.grant_id) = (Some("x".into()), None);
    let mut later = other.clone();
    later.exp += 1;
    swept(&mut revocations, NOW + 7200);
    assert!(revocations.is_empty());
    let before = revocations.generation();
    revocations.doubt();
    assert!(
        revocations.generation() > before,
        "cached tokens are looked up again"
    );
    assert_eq!(revocations.refusal(&token(), ISS, 0), Some(Refusal::Folded));
    assert_eq!(revocations.refusal(&other, ISS, 0), Some(Refusal::Folded));
    assert_eq!(revocations.refusal(&later, ISS, 0), None);
    revocations.add(&entries, NOW);
    revocations.trust();
    assert_eq!(
        revocations.refusal(&token(), ISS, 0),
        Some(Refusal::Revoked)
    );
    assert_eq!(revocations.refusal(&other, ISS, 0), None);
}

/// With three times as many live entries as the table holds, no revoked token is accepted and no new token is
/// refused.
#[test]
fn beyond_its_capacity_it_folds() {
    let mut revocations = revocations(1000);
    let of = |number: u64| {
        let mut token = token();
        token.jti = Some(format!("token {number}"));
        token.grant_id = None;
        // One entry a second, each valid for an hour.
        (token.iat, token.exp) = (NOW + number, NOW + number + 3600);
        token
    };
    for number in 0..3000 {
        let now = NOW + number;
        let generation = revocations.generation();
        revocations.add(&[revoked("token", number, now + 3600)], now);
        assert!(revocations.len() <= 1000);
        assert!(revocations.generation() > generation);
        // Revoked tokens stay refused, from the oldest to the newest.
        for other in [0, number / 2, number] {
            assert!(
                revocations.refusal(&of(other), ISS, generation).is_some(),
                "{other}"
            );
        }
        let mut fresh = of(number + 1);
        fresh.jti = Some("fresh".into());
        assert_eq!(revocations.refusal(&fresh, ISS, 0), None);
    }
    assert!(revocations.folded() >= 2000);
    let until = revocations.folded_until().unwrap();
    assert!(
        (NOW + 3600 + 2000..NOW + 3600 + 2100).contains(&until),
        "no more than needed"
    );
    let mut innocent = of(0);
    innocent.jti = Some("innocent".into());
    assert_eq!(
        revocations.refusal(&innocent, ISS, 0),
        Some(Refusal::Folded)
    );

    // Folding ends when the refused tokens have expired.
    swept(&mut revocations, until + 5);
    assert_eq!(revocations.folded_until(), Some(until));
    assert!(revocations.sweep(until + 6));
    assert_eq!(revocations.folded_until(), None);
}

/// A page that is larger than the table, and entries for clients and issuers, fold like all others.
#[test]
fn every_kind_folds() {
    for kind in ["grant", "token", "client"] {
        let mut revocations = revocations(100);
        let entries: Vec<Revoked> = (0..5000)
            .map(|number| revoked(kind, number, NOW + 60 + number))
            .collect();
        revocations.add(&entries, NOW);
        assert!(revocations.len() <= 100, "{kind}");
        assert!(revocations.folded_until() < Some(NOW + 60 + 5000), "{kind}");
        assert!(revocations.folded_until() > Some(NOW + 60 + 4800), "{kind}");
    }
}

/// Size of 1,000,000 live entries, and time to apply one more page.
#[test]
fn a_million_entries_are_small() {
    let mut revocations = revocations(1_000_000);
    let all: Vec<Revoked> = (0..1_000_000_u32)
        .map(|number| Revoked {
            names: if number % 2 == 0 {
                Names::Grant
            } else {
                Names::Token
            },
            // Ids that look random: 128 bits of a simple generator.
            key: [1_u32, 2, 3, 4].map(|word| {
                (number + 1)
                    .wrapping_mul(2_654_435_761)
                    .rotate_left(word * 7)
                    ^ word
            }),
            at: 0,
            exp: seconds(NOW) + 3600 + number / 300,
        })
        .collect();
    for entries in all.chunks(5000) {
        revocations.add(entries, NOW);
    }
    assert_eq!(revocations.len(), 1_000_000);
    let bytes = revocations.grants.bytes() + revocations.tokens.bytes();
    assert!(bytes < 25_000_000, "{bytes} bytes");
    assert!(revocations.ends.len() < 4000);
}
