//! The users whom names identify, without regard to case (D-43).

use tokio_postgres::Row;

use super::fault::Fault;
use super::operation::Connection;
use super::value::registration;
use domain::registry_index::NamedKind;
use domain::{User, Username};

/// The row of the user with this name. `select` is a statement without condition that reads the table `users`.
pub(super) async fn row(
    client: &Connection<'_>,
    select: &str,
    username: &Username,
) -> Result<Option<Row>, Fault> {
    // An array, so that the database looks up a few keys instead of reading the whole table.
    let sql = format!(
        "{select} WHERE users.username = ANY(ARRAY[$1::TEXT, $2::TEXT] ||
            ARRAY(SELECT name FROM registry_names WHERE kind = {} AND value = $2))",
        NamedKind::Username as i64
    );
    let (spelling, folded) = (username.as_str(), username.folded());
    let found = client.query(&sql, &[&spelling, &&*folded]).await?;
    Ok(found.into_iter().next())
}

pub(super) async fn users(client: &Connection<'_>, names: &[String]) -> Result<Vec<User>, Fault> {
    let names = names.iter().filter_map(|name| Username::parse(name));
    let folded: Vec<String> = names.map(|name| name.folded().into_owned()).collect();
    let sql = "SELECT username, body FROM users WHERE username = ANY($1)";
    let mut users = client.rows_named(sql, &folded, registration).await?;
    let sql = format!(
        "SELECT username, body FROM users WHERE username IN
        (SELECT name FROM registry_names WHERE kind = {} AND value = ANY($1))",
        NamedKind::Username as i64
    );
    users.extend(client.rows_named(&sql, &folded, registration).await?);
    Ok(users)
}
