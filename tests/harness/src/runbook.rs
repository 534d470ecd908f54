//! `docs/runbook.md`.

use std::path::Path;

use anyhow::{Context as _, Result};

/// What the runbook says that the `description` of `/readyz` contains while the store fails: the phrases of the table.
///
/// # Errors
/// When the page lacks the chapter.
pub fn store_causes(repository: &Path) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(repository.join("docs/runbook.md"))?;
    let (_, chapter) = page
        .split_once("\n### TokenServiceStoreFails\n")
        .context("the runbook lacks the alert")?;
    let (chapter, _) = chapter.split_once("\n### ").unwrap_or((chapter, ""));
    let rows = chapter.lines().filter_map(|line| line.strip_prefix("| `"));
    let phrases = rows
        .filter_map(|row| row.split(" | ").next())
        .flat_map(|cell| cell.split('`').step_by(2))
        .filter(|phrase| !phrase.is_empty());
    Ok(phrases.map(str::to_owned).collect())
}
