//! The users whom names identify, without regard to case (D-43).

use tokio_postgres::Row;

use super::fault::Fault;
use super::operation::Connection;
use super::value::registration;
use domain::registry_index::NamedKind;
use domain::{User, Username};

/// The row of the user whom `username` [identifies](Username::identified). `select` is a statement without condition
/// that reads the table `users` and returns the registered name first.
pub(super) async fn row(
    client: &Connection<'_>,
    select: &str,
    username: &Username,
) -> Result<Option<Row>, Fault> {
    // An array, so that the database looks up a few keys instead of reading the whole table.
    let sql = format!(
        "{select} WHERE users.username = ANY(ARRAY[$1::TEXT, $2::TEXT] ||
            ARRAY(SELECT name FROM registry_names WHERE kind = {} AND value = $2))",
        NamedKind::Username as i16
    );
    let (spelling, folded) = (username.as_str(), username.folded());
    let mut alike = Vec::new();
    for row in client.query(&sql, &[&spelling, &&*folded]).await? {
        alike.push((row.try_get::<_, String>(0)?, row));
    }
    Ok(username
        .identified(alike, |(name, _)| name)
        .map(|(_, row)| row))
}

/// The users whose names have the same folded form as one of `names`.
pub(super) async fn alike(client: &Connection<'_>, names: &[String]) -> Result<Vec<User>, Fault> {
    let names = names.iter().filter_map(|name| Username::parse(name));
    let folded: Vec<String> = names.map(|name| name.folded().into_owned()).collect();
    let sql = "SELECT username, body FROM users WHERE username = ANY($1)";
    let mut users = client.rows_named(sql, &folded, registration).await?;
    let sql = format!(
        "SELECT username, body FROM users WHERE username IN
        (SELECT name FROM registry_names WHERE kind = {} AND value = ANY($1))",
        NamedKind::Username as i16
    );
    users.extend(client.rows_named(&sql, &folded, registration).await?);
    Ok(users)
}

/// Logs the names that earlier versions registered although they differ in case alone.
pub(super) async fn warn_of_namesakes(client: &Connection<'_>) -> Result<(), Fault> {
    let sql = "SELECT value, name FROM registry_names AS one WHERE kind = $1 AND (
            EXISTS (SELECT 1 FROM users WHERE username = one.value) OR
            EXISTS (SELECT 1 FROM registry_names AS other
                WHERE other.kind = one.kind AND other.value = one.value AND other.name <> one.name)
        ) ORDER BY value, name";
    let rows = client.query(sql, &[&(NamedKind::Username as i16)]).await?;
    let mut found: Vec<(String, String)> = Vec::new();
    for row in &rows {
        found.push((row.try_get(0)?, row.try_get(1)?));
    }
    for alike in found.chunk_by(|one, next| one.0 == next.0) {
        let mut names: Vec<String> = alike.iter().map(|(_, name)| name.clone()).collect();
        let folded = alike.first().map(|(folded, _)| folded);
        let sql = "SELECT username FROM users WHERE username = $1";
        if let Some(row) = client.query_opt(sql, &[&folded]).await? {
            names.push(row.try_get(0)?);
        }
        crate::namesakes::warn(&names);
    }
    Ok(())
}
