//! Flags for clients, users and legacy instances: the bodies of requests.

use std::io::IsTerminal as _;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use serde_json::{Value, json};

use super::connection::segment;
use super::terminal;
use crate::http::admin::Object;
use domain::object::ObjectKind;
use registry::describe::Registered;
use registry::describe::fields::{Field, Flag};
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

/// An object by its name, with the flags of its keys.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Keys<T: Registered, const CHANGES: bool> {
    #[command(flatten)]
    named: Named<T>,
    #[command(flatten)]
    flags: Flags<T, CHANGES>,
}

impl<T: Registered, const CHANGES: bool> Form for Keys<T, CHANGES> {
    type Object = T;

    fn name(&self) -> &str {
        &self.named.name
    }

    fn body(&self) -> anyhow::Result<Object> {
        self.flags.body()
    }
}

/// The flags of the keys of an object: of a new object, or of a change (`CHANGES`).
#[derive(Debug)]
pub(in crate::command) struct Flags<T, const CHANGES: bool> {
    given: ArgMatches,
    of: PhantomData<T>,
}

impl<T: Registered, const CHANGES: bool> clap::FromArgMatches for Flags<T, CHANGES> {
    fn from_arg_matches(given: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            given: given.clone(),
            of: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, given: &ArgMatches) -> Result<(), clap::Error> {
        self.given.clone_from(given);
        Ok(())
    }
}

impl<T: Registered, const CHANGES: bool> clap::Args for Flags<T, CHANGES> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(T::FIELDS.iter().flat_map(|field| flags(field, CHANGES)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// The flags of a key. The first flag has the key as its ID.
fn flags(field: &Field, changes: bool) -> Vec<Arg> {
    let (key, help) = (field.key, help(field));
    let of_key =
        |name: &'static str, value: &'static str| Arg::new(key).long(name).value_name(value);
    match field.flag {
        Flag::None => Vec::new(),
        Flag::Text(name, value) => vec![of_key(name, value).help(help)],
        Flag::Required(name, value) => vec![of_key(name, value).required(true).help(help)],
        Flag::Optional(name, value) => {
            let empty = if changes { "; empty for none" } else { "" };
            vec![of_key(name, value).help(help + empty)]
        }
        Flag::SecretFile(name, value) => {
            let file = of_key(name, value).value_parser(value_parser!(PathBuf));
            vec![file.help(help + ". From a file; - is standard input")]
        }
        Flag::Switch([name, help], _, [opposite, help_of_opposite]) => {
            let switch = |id: &'static str, name: &'static str, help: &'static str| {
                Arg::new(id).long(name).help(help)
            };
            let mut flags = vec![switch(key, name, help)];
            if changes {
                let opposite = switch(opposite, opposite, help_of_opposite);
                flags.push(opposite.conflicts_with(key));
            }
            let set = flags
                .into_iter()
                .map(|flag| flag.action(ArgAction::SetTrue));
            set.collect()
        }
        Flag::Values([name, add, remove], value) | Flag::Files([name, add, remove], value, _) => {
            let repeated = |flag: Arg, help: &str| {
                let flag = flag.action(ArgAction::Append);
                flag.help(format!("{help}; may be repeated"))
            };
            let list = of_key(name, value);
            if !changes {
                return vec![repeated(list, &help)];
            }
            let edit = |flag: &'static str, value: &'static str, verb: &str| {
                let edit = Arg::new(flag).long(flag).value_name(value);
                repeated(
                    edit.conflicts_with(key),
                    &format!("{verb} the list of --{name}"),
                )
            };
            let all = format!("{help}; may be repeated, in place of the old ones");
            let item = value.split('=').next().unwrap_or(value);
            vec![
                list.action(ArgAction::Append).help(all),
                edit(add, value, "Add to"),
                edit(remove, item, "Remove from"),
            ]
        }
    }
}

/// What a key means, and which integration types have the key.
fn help(field: &Field) -> String {
    let text = field.meaning.trim().trim_end_matches('.');
    let types = field.bounds.split_once("For `");
    let types = types.map(|(_, types)| format!(" ({})", types.trim_end_matches('.')));
    (text.to_owned() + &types.unwrap_or_default()).replace('`', "")
}

impl<T: Registered, const CHANGES: bool> Flags<T, CHANGES> {
    /// The given values, by the keys of a registration.
    pub(super) fn body(&self) -> anyhow::Result<Object> {
        let mut body = Object::new();
        for &Field { key, flag, .. } in T::FIELDS {
            let text = || self.given.get_one::<String>(key).map(String::as_str);
            let value = match flag {
                Flag::None => None,
                // Removes the value.
                Flag::Optional(..) if CHANGES && text() == Some("") => Some(Value::Null),
                Flag::Text(..) | Flag::Required(..) | Flag::Optional(..) => text().map(Value::from),
                Flag::SecretFile(..) => {
                    let file = self.given.get_one::<PathBuf>(key);
                    file.map(|file| secret(key, file)).transpose()?
                }
                Flag::Switch(_, value, [opposite, _]) => {
                    let is_opposite = CHANGES && self.given.get_flag(opposite);
                    let is_given = is_opposite || self.given.get_flag(key);
                    is_given.then(|| Value::from(value != is_opposite))
                }
                Flag::Values(names, _) => {
                    self.list(&mut body, key, names, |_, value| Ok(Value::from(value)))?
                }
                Flag::Files(names, _, keys) => {
                    self.list(&mut body, key, names, |flag, named| {
                        named_file(flag, named, keys)
                    })?
                }
            };
            if let Some(value) = value {
                body.insert(key.to_owned(), value);
            }
        }
        Ok(body)
    }

    /// The values of a list; `None` if there are none. Adds the edits of the list to `body`.
    fn list(
        &self,
        body: &mut Object,
        key: &str,
        [name, add, remove]: [&str; 3],
        item: impl Fn(&str, &str) -> anyhow::Result<Value>,
    ) -> anyhow::Result<Option<Value>> {
        let given = |id: &str| self.given.get_many::<String>(id).into_iter().flatten();
        let list = |values: Vec<Value>| (!values.is_empty()).then(|| Value::from(values));
        if CHANGES {
            let added: anyhow::Result<_> = given(add).map(|value| item(add, value)).collect();
            let removed = given(remove).cloned().map(Value::from).collect();
            for (member, values) in [("add", list(added?)), ("remove", list(removed))] {
                if let Some(values) = values {
                    body.entry(member).or_insert_with(|| json!({}))[key] = values;
                }
            }
        }
        let values: anyhow::Result<_> = given(key).map(|value| item(name, value)).collect();
        Ok(list(values?))
    }
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

/// An object of the form `NAME=FILE`, with the name and the content of the file at `keys`.
pub(super) fn named_file(flag: &str, named: &str, keys: [&str; 2]) -> anyhow::Result<Value> {
    let (name, file) = named
        .split_once('=')
        .with_context(|| format!("--{flag} {named}: expected NAME=FILE"))?;
    let text = text_file::text(file.as_ref()).with_context(|| file.to_owned())?;
    Ok(json!({ keys[0]: name, keys[1]: *text }))
}

/// The secret in `file`, without the line end that editors add.
fn secret(key: &str, file: &Path) -> anyhow::Result<Value> {
    let is_input = file.as_os_str() == "-";
    let text = match is_input && std::io::stdin().is_terminal() {
        true => terminal::new_secret(&key.replace('_', " "), rpassword::prompt_password)?,
        false => text_file::text(file).with_context(|| match is_input {
            true => "standard input".to_owned(),
            false => file.display().to_string(),
        })?,
    };
    Ok(json!(text.trim_end_matches(['\r', '\n'])))
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
