use super::*;
use crate::Look;
use domain::SealedValue;

/// PgBouncer in front of a separate server.
#[tokio::test]
async fn a_pooler_that_mixes_sessions_up_is_refused() {
    let mut server = Server::start(&[]);
    for (mode, is_refused) in [("transaction", true), ("session", false)] {
        server.command(mode);
        let folder = server.folder.join(mode);
        let url = format!("postgres://postgres@/postgres?host={}", folder.display());
        let opened = PostgresStore::open(&settings(&url), ACCESS).await;
        match opened {
            Ok(store) => {
                assert!(!is_refused, "{mode}");
                grant_of(&store, code()).await;
            }
            Err(error) => {
                assert!(matches!(error, OpenError::Pooler { .. }), "{mode}: {error}");
                assert!(is_refused, "{mode}");
                // For `migrate`.
                let error = upgrade(&settings(&url)).await.unwrap_err();
                assert!(error.to_string().contains("pool_mode=session"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_look_changes_nothing_and_finds_what_a_start_finds() {
    let url = fresh_database().await;
    let look = async || super::super::look(&settings(&url), Vec::new()).await;
    for _ in 0..2 {
        assert!(matches!(look().await.unwrap(), Look::Absent));
    }
    let store = open(&url).await;
    let reseal = store.reseal(SealedValue::Root, None, b"sealed".to_vec());
    assert!(reseal.await.unwrap());
    match look().await.unwrap() {
        Look::Found { sealed_root, .. } => assert_eq!(sealed_root.unwrap(), b"sealed"),
        other => panic!("{other:?}"),
    }
    set_layout(&store, Layout::LATER).await;
    let error = look().await.unwrap_err().to_string();
    assert!(error.contains(UNKNOWN), "{error}");
}
