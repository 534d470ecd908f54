//! Command-line flags for clients, users and legacy instances, derived from the descriptions of the fields.

use std::io::Read as _;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::builder::{PossibleValuesParser, TypedValueParser as _, ValueParser};
use clap::{Arg, ArgAction, ArgMatches};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::connection::segment;
use crate::http::admin::Object;
use domain::client::IntegrationKind;
use registration::describe::{Description, Field, Flag, Record, Registered, Shape};
use registration::objects::ACCOUNT;

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Named<T: Registered> {
    #[arg(id = T::DESCRIPTION.name_key, value_name = T::DESCRIPTION.name_value, help = help_of_name::<T>())]
    pub(super) name: String,
    #[arg(skip)]
    of: PhantomData<T>,
}

/// The flags for an object: for a new object, or with `CHANGE` the changes of an existing object.
#[derive(Debug)]
pub(in crate::command) struct Form<T: Registered, const CHANGE: bool> {
    pub(super) named: Named<T>,
    flags: ArgMatches,
}

pub(in crate::command) type New<T> = Form<T, false>;
pub(in crate::command) type Change<T> = Form<T, true>;

impl<T: Registered, const CHANGE: bool> clap::Args for Form<T, CHANGE> {
    fn augment_args(command: clap::Command) -> clap::Command {
        let Description {
            name_key,
            name_value,
            name_flag,
            fields,
            ..
        } = T::DESCRIPTION;
        let mut command = Named::<T>::augment_args(command);
        if let Some(flag) = name_flag.filter(|_| !CHANGE) {
            let alternative = Arg::new(flag).long(flag).value_name(name_value);
            let help = format!("The same as the argument {name_value}");
            command = command
                .mut_arg(name_key, |name| {
                    name.required(false).required_unless_present(flag)
                })
                .arg(alternative.conflicts_with(name_key).help(help));
        }
        command.args(fields.iter().flat_map(|field| arguments_of(field, CHANGE)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<T: Registered, const CHANGE: bool> clap::FromArgMatches for Form<T, CHANGE> {
    fn from_arg_matches(flags: &ArgMatches) -> Result<Self, clap::Error> {
        let flag = T::DESCRIPTION.name_flag.filter(|_| !CHANGE);
        let flag = flag.and_then(|flag| flags.get_one::<String>(flag));
        let name = flags.get_one::<String>(T::DESCRIPTION.name_key).or(flag);
        Ok(Self {
            named: Named {
                name: name.cloned().unwrap_or_default(),
                of: PhantomData,
            },
            flags: flags.clone(),
        })
    }

    fn update_from_arg_matches(&mut self, flags: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(flags)?;
        Ok(())
    }
}

impl<T: Registered, const CHANGE: bool> Form<T, CHANGE> {
    /// The request body, without the object's name.
    pub(super) fn body(&self) -> anyhow::Result<Object> {
        let fields = T::DESCRIPTION.fields.iter();
        let values = fields.filter_map(|field| {
            let value = value(field, CHANGE, &self.flags)?;
            Some(value.map(|value| (field.key.to_owned(), value)))
        });
        let mut body: Object = values.collect::<anyhow::Result<_>>()?;
        for (place, member) in ["add", "remove"].into_iter().enumerate() {
            let mut edits = Object::new();
            for field in T::DESCRIPTION.fields {
                let flag =
                    edits_of(field, CHANGE).and_then(|(_, _, flags)| flags.get(place).copied());
                let given =
                    flag.and_then(|flag| Some((flag, self.flags.get_many::<String>(flag)?)));
                let Some((flag, given)) = given else {
                    continue;
                };
                let value = |text: &String| match field.shape {
                    Shape::Records(record) if member == "add" => named_file(flag, record, text),
                    _ => Ok(json!(text)),
                };
                let values: anyhow::Result<Value> = given.map(value).collect();
                edits.insert(field.key.to_owned(), values?);
            }
            if !edits.is_empty() {
                body.insert(member.to_owned(), edits.into());
            }
        }
        Ok(body)
    }
}

/// The flag of a field. Accounts and certificates of an existing object have their own commands.
fn flag_of(field: &Field, change: bool) -> Option<Flag> {
    let is_record = matches!(field.shape, Shape::Records(_));
    // Keys, in contrast, are replaced as a whole.
    let is_whole = matches!(field.flag, Some(Flag::NamedFile(..))) && field.viewed().is_some();
    let is_offered = !change || (field.can_change() && (!is_record || is_whole));
    field.flag.filter(|_| is_offered)
}

fn arguments_of(field: &'static Field, change: bool) -> Vec<Arg> {
    let mut arguments = flags_of(field, change);
    if let Some((long, value, [add, remove])) = edits_of(field, change) {
        let edit = |edit: &'static str, value: &'static str, what: &str| {
            let help = format!(
                "{what} {}; may be repeated",
                plain(field.label).to_lowercase()
            );
            let arg = Arg::new(edit).long(edit).help(help).value_name(value);
            arg.action(ArgAction::Append).conflicts_with(long)
        };
        let name = value.split('=').next().unwrap_or(value);
        arguments.push(edit(add, value, "Adds to the"));
        arguments.push(edit(remove, name, "Removes from the"));
    }
    arguments
}

/// The flag of a list, its placeholder, and the flags that add and remove single values.
fn edits_of(
    field: &'static Field,
    change: bool,
) -> Option<(&'static str, &'static str, [&'static str; 2])> {
    match flag_of(field, change)? {
        Flag::Value(long, value) | Flag::NamedFile(long, value) if change => {
            Some((long, value, field.edits?))
        }
        _ => None,
    }
}

fn flags_of(field: &'static Field, change: bool) -> Vec<Arg> {
    let arg = |long: &'static str, help: String| Arg::new(long).long(long).help(help);
    let several = |arg: Arg| match is_list(field) {
        true => arg.action(ArgAction::Append),
        false => arg,
    };
    match flag_of(field, change) {
        None => Vec::new(),
        Some(Flag::Value(long, value)) => {
            let arg = arg(long, help(field, change)).value_name(value);
            let arg = several(arg).value_parser(parser(field));
            // The help text already lists the values.
            let arg = arg.hide_possible_values(true);
            vec![arg.required(field.required && !change)]
        }
        Some(Flag::File(long)) => {
            let help = plain(field.help) + ". From a file; - is standard input";
            let arg = arg(long, help).value_name("FILE");
            vec![arg.value_parser(clap::value_parser!(PathBuf))]
        }
        Some(Flag::NamedFile(long, value)) => {
            vec![several(arg(long, help(field, change)).value_name(value))]
        }
        Some(Flag::Switch { on, off, default }) => {
            let switch = |(long, help), (other, _)| {
                let switch = arg(long, plain(help)).action(ArgAction::SetTrue);
                match change {
                    true => switch.conflicts_with(other),
                    false => switch,
                }
            };
            match (change, default) {
                (true, _) => vec![switch(on, off), switch(off, on)],
                (false, true) => vec![switch(off, on)],
                (false, false) => vec![switch(on, off)],
            }
        }
    }
}

fn is_list(field: &Field) -> bool {
    matches!(field.shape, Shape::Texts | Shape::Records(_))
}

fn parser(field: &'static Field) -> ValueParser {
    if let Shape::Records(record) = field.shape {
        return ValueParser::new(move |text: &str| record_of(record, text).map(Value::Object));
    }
    if !field.can_change() {
        let names = PossibleValuesParser::new(IntegrationKind::NAMES);
        return names.map(Value::from).into();
    }
    ValueParser::new(|text: &str| Ok::<_, String>(Value::from(text)))
}

/// Reads an object of the form `VALUE,VALUE,VALUE`. The last value may contain commas.
fn record_of(record: &Record, text: &str) -> Result<Object, String> {
    let keys = record.keys;
    let values: Vec<&str> = text.splitn(keys.len(), ',').collect();
    if values.len() < keys.len() {
        let names: Vec<String> = keys.iter().map(|(key, _)| key.to_uppercase()).collect();
        return Err(format!("expected {}", names.join(",")));
    }
    Ok(object(record, values))
}

fn object<'v>(record: &Record, values: impl IntoIterator<Item = &'v str>) -> Object {
    let members = record.keys.iter().zip(values);
    members
        .map(|((key, _), value)| ((*key).to_owned(), json!(value)))
        .collect()
}

/// Reads a linked account of the form `USER_ID,USERNAME,SITE`.
pub(super) fn account(text: &str) -> Result<Object, String> {
    record_of(&ACCOUNT, text)
}

fn help_of_name<T: Registered>() -> String {
    let field = T::DESCRIPTION.fields.first();
    field.map_or_else(String::new, |field| plain(field.help))
}

/// A sentence of a description in the style of the command line's help.
fn plain(help: &str) -> String {
    help.trim_end_matches('.').replace('`', "")
}

fn help(field: &Field, change: bool) -> String {
    let mut help = plain(field.help);
    let types: Vec<&str> = field.types.iter().map(|kind| kind.name()).collect();
    if !types.is_empty() {
        help.push_str(&format!(" ({})", types.join(", ")));
    }
    help + match is_list(field) {
        true if change => "; may be repeated, in place of the old ones",
        true => "; may be repeated",
        false if change && field.is_optional() => "; empty for none",
        false => "",
    }
}

/// The value of a field from the command line; `None` without its flag.
fn value(field: &Field, change: bool, flags: &ArgMatches) -> Option<anyhow::Result<Value>> {
    match flag_of(field, change)? {
        Flag::Value(long, _) => {
            let mut values = flags.get_many::<Value>(long)?.cloned();
            let value = match is_list(field) {
                true => values.collect(),
                false => values.next()?,
            };
            let is_none = change && field.is_optional() && value == "";
            Some(Ok(if is_none { Value::Null } else { value }))
        }
        Flag::File(long) => Some(secret(flags.get_one::<PathBuf>(long)?)),
        Flag::NamedFile(long, _) => {
            let named = flags.get_many::<String>(long)?;
            let Shape::Records(record) = field.shape else {
                return None;
            };
            Some(named.map(|named| named_file(long, record, named)).collect())
        }
        Flag::Switch { on, off, .. } => {
            let is_set = |long| matches!(flags.try_get_one(long), Ok(Some(true)));
            let state = is_set(on.0);
            (state || is_set(off.0)).then(|| Ok(json!(state)))
        }
    }
}

/// Reads an object of the form `NAME=FILE`: its first member is the name, its second one the content of the file.
fn named_file(long: &str, record: &Record, named: &str) -> anyhow::Result<Value> {
    let (name, file) = named
        .split_once('=')
        .with_context(|| format!("--{long} {named}: expected NAME=FILE"))?;
    let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    Ok(Value::Object(object(record, [name, &text])))
}

/// Reads a secret from a file or standard input, and removes the line end that editors add.
fn secret(file: &Path) -> anyhow::Result<Value> {
    let mut text = Zeroizing::new(String::new());
    if file == Path::new("-") {
        std::io::stdin()
            .read_to_string(&mut text)
            .context("standard input")?;
    } else {
        text = Zeroizing::new(
            std::fs::read_to_string(file).with_context(|| file.display().to_string())?,
        );
    }
    Ok(json!(text.trim_end_matches(['\r', '\n'])))
}

impl<T: Registered> Named<T> {
    /// Path of the object; its parts have paths below.
    pub(super) fn path(&self) -> String {
        format!("{}/{}", path::<T>(), segment(&self.name))
    }
}

pub(super) fn path<T: Registered>() -> String {
    format!("/{}", T::DESCRIPTION.list)
}
