//! Command-line flags for clients, users and legacy instances, derived from the descriptions of the fields.

use std::collections::BTreeMap;
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
use domain::remembered::ObjectKind;
use registration::describe::{Field, Flag, Record, Registered, Shape};
use registration::objects::ACCOUNT;

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Named<T: Registered> {
    #[arg(id = T::DESCRIPTION.name_key, value_name = name_value::<T>(), help = help_of_name::<T>())]
    pub(super) name: String,
    #[arg(skip)]
    of: PhantomData<T>,
}

/// The flags for an object: for a new object, or with `CHANGE` the changes of an existing object.
#[derive(Debug)]
pub(in crate::command) struct Form<T: Registered, const CHANGE: bool> {
    pub(super) named: Named<T>,
    given: BTreeMap<&'static str, Given>,
}

pub(in crate::command) type New<T> = Form<T, false>;
pub(in crate::command) type Change<T> = Form<T, true>;

/// The value of a field from the command line.
#[derive(Debug, Clone)]
enum Given {
    Json(Value),
    File(PathBuf),
    /// Pairs of a name and a file.
    NamedFiles(Vec<String>),
}

impl<T: Registered, const CHANGE: bool> clap::Args for Form<T, CHANGE> {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = Named::<T>::augment_args(command);
        let command = match T::DESCRIPTION.name_flag.filter(|_| !CHANGE) {
            None => command,
            Some(flag) => command
                .mut_arg(T::DESCRIPTION.name_key, |name| {
                    name.required(false).required_unless_present(flag)
                })
                .arg(
                    Arg::new(flag)
                        .long(flag)
                        .value_name(name_value::<T>())
                        .conflicts_with(T::DESCRIPTION.name_key)
                        .help(format!("The same as the argument {}", name_value::<T>())),
                ),
        };
        let fields = T::DESCRIPTION.fields.iter();
        command.args(fields.flat_map(|field| arguments_of(field, CHANGE)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<T: Registered, const CHANGE: bool> clap::FromArgMatches for Form<T, CHANGE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = BTreeMap::new();
        for field in T::DESCRIPTION.fields {
            if let Some(flag) = field.flag.filter(|_| is_offered(field, CHANGE)) {
                let value = value(field, flag, CHANGE, matches);
                given.extend(value.map(|value| (field.key, value)));
            }
        }
        let flag = T::DESCRIPTION.name_flag.filter(|_| !CHANGE);
        let flag = flag.and_then(|flag| matches.get_one::<String>(flag));
        let name = matches.get_one::<String>(T::DESCRIPTION.name_key).or(flag);
        let name = name.cloned().unwrap_or_default();
        let of = PhantomData;
        Ok(Self {
            named: Named { name, of },
            given,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// False for accounts and certificates of an existing object, which have their own commands.
fn is_offered(field: &Field, change: bool) -> bool {
    let is_record = matches!(field.shape, Shape::Records(_));
    !change || (field.can_change() && !is_record)
}

fn arguments_of(field: &'static Field, change: bool) -> Vec<Arg> {
    let Some(flag) = field.flag.filter(|_| is_offered(field, change)) else {
        return Vec::new();
    };
    let arg = |long: &'static str, help: String| Arg::new(long).long(long).help(help);
    let several = |arg: Arg| match is_list(field) {
        true => arg.action(ArgAction::Append),
        false => arg,
    };
    let required = field.required && !change;
    match flag {
        Flag::Value(long, value) => {
            let arg = arg(long, help(field, change)).value_name(value);
            let arg = several(arg).value_parser(parser(field));
            // The help text already lists the values.
            vec![arg.required(required).hide_possible_values(true)]
        }
        Flag::File(long) => {
            let help = plain(field.help) + ". From a file; - is standard input";
            let arg = arg(long, help).value_name("FILE");
            vec![arg.value_parser(clap::value_parser!(PathBuf))]
        }
        Flag::NamedFile(long) => {
            let arg = arg(long, help(field, change)).value_name("ALIAS=FILE");
            vec![several(arg)]
        }
        Flag::Switch { on, off, default } => {
            let states = [(on, true), (off, false)];
            let offered = states
                .into_iter()
                .filter(|(_, state)| change || *state != default);
            let switch = |((long, help), state): ((&'static str, &'static str), bool)| {
                let switch = arg(long, plain(help)).action(ArgAction::SetTrue);
                let (other, _) = if state { off } else { on };
                match change {
                    true => switch.conflicts_with(other),
                    false => switch,
                }
            };
            offered.map(switch).collect()
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
        let names: Vec<String> = keys.iter().map(|key| key.key.to_uppercase()).collect();
        return Err(format!("expected {}", names.join(",")));
    }
    let pairs = keys.iter().zip(values);
    Ok(pairs
        .map(|(key, value)| (key.key.to_owned(), json!(value)))
        .collect())
}

/// Reads a linked account of the form `USER_ID,USERNAME,SITE`.
pub(super) fn account(text: &str) -> Result<Object, String> {
    record_of(&ACCOUNT, text)
}

/// The placeholder for the name in the help.
fn name_value<T: Registered>() -> &'static str {
    match T::DESCRIPTION.kind {
        ObjectKind::Client => "CLIENT_ID",
        ObjectKind::User => "USERNAME",
        ObjectKind::LegacyInstance => "HOSTNAME",
    }
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

fn value(field: &Field, flag: Flag, change: bool, matches: &ArgMatches) -> Option<Given> {
    match flag {
        Flag::Value(long, _) => {
            let values: Vec<Value> = matches.get_many(long)?.cloned().collect();
            let value = match is_list(field) {
                true => values.into(),
                false => values.into_iter().next()?,
            };
            let is_none = change && field.is_optional() && value == json!("");
            Some(Given::Json(if is_none { Value::Null } else { value }))
        }
        Flag::File(long) => matches.get_one(long).cloned().map(Given::File),
        Flag::NamedFile(long) => {
            let named = matches.get_many(long)?.cloned().collect();
            Some(Given::NamedFiles(named))
        }
        Flag::Switch { on, off, .. } => {
            let is_set = |(long, _): (&str, &str)| {
                let set = matches.try_get_one::<bool>(long).ok().flatten();
                set.copied().unwrap_or_default()
            };
            let state = is_set(on);
            (state || is_set(off)).then(|| Given::Json(json!(state)))
        }
    }
}

impl<T: Registered, const CHANGE: bool> Form<T, CHANGE> {
    /// The request body, without the object's name.
    pub(super) fn body(&self) -> anyhow::Result<Object> {
        let body = self.given.iter().map(|(key, given)| {
            let value = match given {
                Given::Json(value) => value.clone(),
                Given::File(file) => json!(*secret(file)?),
                Given::NamedFiles(files) => {
                    let records = files.iter().map(|named| named_file(named));
                    records.collect::<anyhow::Result<_>>()?
                }
            };
            Ok(((*key).to_owned(), value))
        });
        body.collect()
    }
}

/// Reads a certificate of the form `ALIAS=FILE`.
fn named_file(named: &str) -> anyhow::Result<Value> {
    let (alias, file) = named
        .split_once('=')
        .with_context(|| format!("--certificate {named}: expected ALIAS=FILE"))?;
    let pem = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    Ok(json!({"alias": alias, "pem": pem}))
}

/// Reads a secret from a file or standard input, and removes the line end that editors add.
fn secret(file: &Path) -> anyhow::Result<Zeroizing<String>> {
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
    let end = text.trim_end_matches(['\r', '\n']).len();
    text.truncate(end);
    Ok(text)
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
