//! A backup under load, its restore, and a service on the restored store.

use crate::support::{CREDENTIALS, Load, OwnPair, USER_BOUND, WEB};

#[test]
fn a_copy_taken_under_load_is_whole_and_serves() {
    let mut pair = OwnPair::start(&[]);
    let lobby = pair.pair.lobby_url();
    let refresh = WEB.grant(&lobby).text("refresh_token");
    let load = {
        let lobby = lobby.clone();
        Load::start(2, move || {
            assert_eq!(USER_BOUND.token(&lobby, &CREDENTIALS).status, 200);
            WEB.grant(&lobby);
        })
    };
    let copies: Vec<_> = (0..3)
        .map(|number| pair.state().join(format!("copy-{number}")))
        .collect();
    for copy in &copies {
        pair.done(&format!("backup {}", copy.display()));
    }
    load.stop();
    let copy = copies.last().unwrap().to_str().unwrap().to_owned();
    let exists = pair.failed(&format!("backup {copy}"));
    assert!(exists.contains("exists already"), "{exists}");

    pair.pair.stop_token_service();
    let store = pair.state().join("restored.redb");
    let url = format!("redb:{}", store.display());
    let config = pair.write("restore.toml", format!("[store]\nurl = \"{url}\"\n"));
    let restore = format!("restore {copy} --config {config}");
    pair.done(&restore);
    let again = pair.failed(&restore);
    assert!(again.contains("exists already"), "{again}");
    pair.pair.set_environment("TOKEN_SERVICE__STORE__URL", &url);
    pair.pair.start_token_service().unwrap();
    assert_eq!(WEB.refresh(&lobby, &refresh).status, 200);
}

#[test]
fn a_torn_copy_is_refused() {
    let pair = OwnPair::start(&[]);
    let copy = pair.state().join("copy");
    pair.done(&format!("backup {}", copy.display()));
    let store = pair.state().join("restored.redb");
    let text = format!("[store]\nurl = \"redb:{}\"\n", store.display());
    let config = pair.write("restore.toml", text);
    let whole = std::fs::read(&copy).unwrap();
    let half = &whole[..whole.len() / 2];
    let mut changed = whole.clone();
    let ada = b"ada@example.com";
    let used = whole
        .windows(ada.len())
        .position(|bytes| bytes == ada)
        .unwrap();
    changed[used] ^= 0x55;
    for (name, bytes) in [
        ("half", half),
        ("changed", &changed),
        ("empty", &[]),
        ("text", b"hello"),
    ] {
        let torn = pair.state().join(name);
        std::fs::write(&torn, bytes).unwrap();
        let restore = format!("restore {} --config {config}", torn.display());
        let refusal = pair.run(&restore);
        assert_eq!(refusal.code, 1, "{name}: {}", refusal.errors);
        assert!(!store.exists(), "{name}");
    }
}
