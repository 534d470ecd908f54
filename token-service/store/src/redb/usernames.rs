//! Converts usernames from earlier versions, which were stored as typed, to normal form (D-33).

use redb::ReadableTable as _;

use super::fault::Fault;
use super::tables::Tables;
use domain::Username;
use domain::remembered::{ObjectKind, ObjectName};

/// Moves every row of such a user to the normalized key. If another user has the normalized name, the row stays, and
/// nobody can sign in as this user.
pub(super) fn normalize(tables: &mut Tables<'_>) -> Result<(), Fault> {
    let mut renamed = Vec::new();
    {
        let users = tables.users.open()?;
        for entry in users.iter()? {
            let (key, _) = entry?;
            let stored = key.value();
            let Some(username) = Username::parse(stored).filter(|name| name.as_str() != stored)
            else {
                continue;
            };
            if users.get(username.as_str())?.is_none() {
                renamed.push((stored.to_owned(), username));
            } else {
                tracing::warn!(user = %username, "two users have this name in different Unicode forms; one is unused");
            }
        }
    }
    for (old, new) in &renamed {
        rename(tables, old, new.as_str())?;
    }
    Ok(())
}

fn rename(tables: &mut Tables<'_>, old: &str, new: &str) -> Result<(), Fault> {
    macro_rules! move_row {
        ($table:ident, $old:expr, $new:expr) => {{
            let table = tables.$table.open()?;
            let row = table.remove($old)?.map(|row| row.value().to_owned());
            if let Some(row) = row {
                table.insert($new, row.as_slice())?;
            }
        }};
    }
    move_row!(users, old, new);
    move_row!(second_factors, old, new);
    let [before, after] = [old, new].map(|name| ObjectName::new(ObjectKind::User, name).key());
    move_row!(remembered, before.as_str(), after.as_str());
    let steps = tables.totp_steps.open()?;
    let step = steps.remove(old)?.map(|step| step.value());
    if let Some(step) = step {
        steps.insert(new, step)?;
    }
    macro_rules! move_index {
        ($table:ident, $length:literal) => {{
            let table = tables.$table.open()?;
            let mut ids: Vec<[u8; $length]> = Vec::new();
            for entry in table.range((old, &[0; $length])..=(old, &[u8::MAX; $length]))? {
                ids.push(*entry?.0.value().1);
            }
            for id in ids {
                table.remove((old, &id))?;
                table.insert((new, &id), ())?;
            }
        }};
    }
    move_index!(sessions_by_user, 32);
    Ok(())
}
