//! `token-service encryption-key`.

use ureq::http::Method;

use super::connection::{Answer, Connection};
use super::table;
use crate::http::admin::encryption_keys::EncryptionKeysView;

pub(super) const EXAMPLES: &str = "To rotate the encryption key:
  1. Add the new key below the old one in encryption_key_file of every replica, and restart them one by one:
     openssl rand -base64 32 | tr '+/' '-_' | tr -d '=' >> FILE
  2. Move the new key to the first line at every replica, and restart them one by one.
  3. token-service encryption-key reseal
  4. When `encryption-key list` shows 0 values for the old key, and an hour after step 2 at the earliest, so that open
     sign-in pages are completed, remove its line everywhere, and restart. After a leak, do not wait.
     Keep the old key, apart, for as long as you keep copies of the store from before step 3.";

#[derive(Debug, clap::Subcommand)]
pub(in crate::command) enum Command {
    /// List the keys of encryption_key_file, the current one first, with the number of stored values that each seals.
    List(Connection),
    /// Seal every stored value with the current key.
    Reseal(Connection),
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    let answer: Answer<EncryptionKeysView> = match command {
        Command::List(connection) => connection.open()?.get("/encryption-keys")?,
        Command::Reseal(connection) => {
            let administration = connection.open()?;
            administration.act(Method::POST, "/encryption-keys/reseal")?
        }
    };
    answer.print(text)
}

fn text(keys: &EncryptionKeysView) -> String {
    let rows = keys.keys.iter().map(|key| {
        [
            key.id.clone(),
            table::yes(key.current),
            key.sealed_values.to_string(),
        ]
    });
    let mut lines = Vec::new();
    if let Some(resealed) = keys.resealed {
        lines.push(format!("{resealed} values sealed again."));
    }
    lines.push(table::list(["KEY", "CURRENT", "SEALED VALUES"], rows));
    if keys.outdated > 0 {
        lines.push(format!(
            "{} values are sealed with an earlier key: encryption-key reseal.",
            keys.outdated
        ));
    }
    for value in &keys.unreadable {
        lines.push(format!("No key of the file opens: {value}"));
    }
    lines.join("\n")
}
