//! Questions to the person at a terminal.

use std::io;

use anyhow::Context as _;
use zeroize::Zeroizing;

use crate::telemetry::visible::visible;

/// Asks for a secret twice. `read` prints its argument, and reads a line without echo.
///
/// # Errors
/// If the two differ, nothing was entered, or the terminal cannot be read.
pub(super) fn new_secret(
    name: &str,
    read: impl Fn(String) -> io::Result<String>,
) -> anyhow::Result<Zeroizing<String>> {
    let read = |text: String| read(text).map(Zeroizing::new).context("terminal");
    let first = read(format!("New {name}: "))?;
    anyhow::ensure!(
        !first.is_empty(),
        "nothing was entered; nothing was changed"
    );
    let second = read(format!("Repeat the {name}: "))?;
    anyhow::ensure!(first == second, "the two differ; nothing was changed");
    Ok(first)
}

/// Asks whether to continue.
///
/// # Errors
/// If the answer is not yes.
pub(super) fn confirm(question: &str) -> anyhow::Result<()> {
    eprint!("{} [y/N] ", visible(question));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("terminal")?;
    let is_yes = matches!(answer.trim(), "y" | "Y" | "yes");
    anyhow::ensure!(is_yes, "nothing was changed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_new_secret_is_entered_twice() {
        for (entered, expected) in [
            (&["one", "one"][..], Ok("one")),
            (
                &["one", "other"],
                Err("the two differ; nothing was changed"),
            ),
            (&[""], Err("nothing was entered; nothing was changed")),
        ] {
            let lines = RefCell::new(entered.iter());
            let read = |_| Ok((*lines.borrow_mut().next().unwrap()).to_owned());
            let secret = new_secret("password", read).map_err(|error| error.to_string());
            let secret = secret.as_ref().map(|secret| secret.as_str());
            assert_eq!(secret.map_err(String::as_str), expected);
        }
    }
}
