//! Flags for clients, users and legacy instances: the bodies of requests.

use std::io::IsTerminal as _;
use std::marker::PhantomData;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Arg, ArgAction};
use serde::Serialize;
use serde_json::{Value, json};

use super::connection::segment;
use super::terminal;
use crate::http::admin::Object;
use domain::object::ObjectKind;
use registry::describe::Registered;
use registry::objects::AccountView;
use secrets::text_file;

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Named<T: Registered> {
    #[arg(id = T::NAME_KEY, value_name = of_name(T::KIND).0, help = of_name(T::KIND).1)]
    pub(super) name: String,
    #[arg(skip)]
    of: PhantomData<T>,
}

/// An object to remove.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Removal<T: Registered> {
    #[command(flatten)]
    pub(super) named: Named<T>,
    /// Do not ask. A command without a terminal never asks.
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// The placeholder of the name of an object, and its help.
const fn of_name(kind: ObjectKind) -> (&'static str, &'static str) {
    match kind {
        ObjectKind::Client => ("CLIENT_ID", "The Client ID"),
        ObjectKind::User => ("USERNAME", "The account's username"),
        ObjectKind::LegacyInstance => ("HOSTNAME", "The host of /OAuthStatus and /Logon"),
    }
}

/// The flags for an object: for a new object, or for the changes of an existing object.
pub(super) trait Form: clap::Args {
    type Object: Registered;

    fn name(&self) -> &str;

    /// The request body, without the object's name.
    fn body(&self) -> anyhow::Result<Object>;
}

/// The values of single objects that may be absent. In a change, an empty text removes them.
const OPTIONAL: [&str; 5] = [
    "client_assertion_audience",
    "email",
    "home_url",
    "hostname",
    "organization",
];

/// The given `flags`, by the keys of a registration.
pub(super) fn given(flags: &impl Serialize) -> anyhow::Result<Object> {
    let mut given: Object = serde_json::from_value(serde_json::to_value(flags)?)?;
    given.retain(|_, value| {
        !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
    });
    Ok(given)
}

/// Like [`given`], for a change: an empty text becomes `null`, which removes the value.
pub(super) fn changed(flags: &impl Serialize) -> anyhow::Result<Object> {
    let mut changed = given(flags)?;
    for (_, value) in changed
        .iter_mut()
        .filter(|(key, _)| OPTIONAL.contains(&&***key))
    {
        if value == "" {
            *value = Value::Null;
        }
    }
    Ok(changed)
}

/// Completes the help of a flag for a new object.
pub(super) fn help_of_new(flag: Arg) -> Arg {
    let text = match flag.get_action() {
        ArgAction::Append => "; may be repeated",
        _ => "",
    };
    with_help(flag, text)
}

/// Completes the help of a flag for a change.
pub(super) fn help_of_change(flag: Arg) -> Arg {
    let id = flag.get_id().as_str();
    let is_edit = id.starts_with("add_") || id.starts_with("remove_");
    let text = match flag.get_action() {
        ArgAction::Append if is_edit => "; may be repeated",
        ArgAction::Append => "; may be repeated, in place of the old ones",
        _ if OPTIONAL.contains(&id) => "; empty for none",
        _ => "",
    };
    with_help(flag, text)
}

fn with_help(flag: Arg, text: &str) -> Arg {
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    flag.help(help.replace('`', "") + text)
}

/// Reads a linked account of the form `USER_ID,USERNAME,SITE`.
pub(super) fn account(text: &str) -> Result<AccountView, &'static str> {
    let mut parts = text.splitn(3, ',').map(str::to_owned);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(user_id), Some(username), Some(site)) => Ok(AccountView {
            user_id,
            username,
            site,
        }),
        _ => Err("expected USER_ID,USERNAME,SITE"),
    }
}

/// Adds the state of a pair of flags, if one of them is given.
pub(super) fn add_switch(body: &mut Object, key: &str, on: bool, off: bool) {
    if on || off {
        body.insert(key.to_owned(), on.into());
    }
}

/// Adds objects of the form `NAME=FILE` to `body`, each with the name and the content of the file at `keys`.
pub(super) fn add_named_files(
    body: &mut Object,
    list: &str,
    flag: &str,
    keys: [&str; 2],
    named: &[String],
) -> anyhow::Result<()> {
    let object = |named: &String| {
        let (name, file) = named
            .split_once('=')
            .with_context(|| format!("--{flag} {named}: expected NAME=FILE"))?;
        let text = text_file::text(file.as_ref()).with_context(|| file.to_owned())?;
        Ok(json!({ keys[0]: name, keys[1]: *text }))
    };
    let objects: anyhow::Result<Vec<Value>> = named.iter().map(object).collect();
    let objects = objects?;
    if !objects.is_empty() {
        body.insert(list.to_owned(), objects.into());
    }
    Ok(())
}

/// Adds the secret in `file` to `body`, without the line end that editors add.
pub(super) fn add_secret(
    body: &mut Object,
    key: &str,
    file: Option<&PathBuf>,
) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let is_input = file.as_os_str() == "-";
    let text = match is_input && std::io::stdin().is_terminal() {
        true => terminal::new_secret(&key.replace('_', " "), rpassword::prompt_password)?,
        false => text_file::text(file).with_context(|| match is_input {
            true => "standard input".to_owned(),
            false => file.display().to_string(),
        })?,
    };
    body.insert(key.to_owned(), json!(text.trim_end_matches(['\r', '\n'])));
    Ok(())
}

impl<T: Registered> Named<T> {
    /// Path of the object; its parts have paths below.
    pub(super) fn path(&self) -> String {
        object_path::<T>(&self.name)
    }
}

pub(super) fn object_path<T: Registered>(name: &str) -> String {
    format!("{}/{}", path::<T>(), segment(name))
}

pub(super) fn path<T: Registered>() -> String {
    format!("/{}", T::LIST)
}
