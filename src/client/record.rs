//! The options of a record on the command line, generated from its rows.
//!
//! Flattened into the arguments of the verbs that create and change records.
//!
//! **Invariant**: an option that was not given is not sent, so its setting stays unchanged.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, Error};
use serde_json::{Map, Value};

use super::resource::{delete_when, none_or_time, number_or, text_or_none};
use settings::{Connector, Field, Key, ReadKey, Shape, Stream};

/// Indexes of [`BODIES`].
pub(super) const NEW_STREAM: usize = 0;
pub(super) const STREAM: usize = 1;
pub(super) const NEW_CONNECTOR: usize = 2;
pub(super) const CONNECTOR: usize = 3;
pub(super) const NEW_KEY: usize = 4;
pub(super) const KEY: usize = 5;
pub(super) const NEW_READ_KEY: usize = 6;
pub(super) const READ_KEY: usize = 7;

/// The rows of each body, and whether it creates a record.
const BODIES: [(&[Field], bool); 8] = [
    (Stream::FIELDS, true),
    (Stream::FIELDS, false),
    (Connector::FIELDS, true),
    (Connector::FIELDS, false),
    (Key::FIELDS, true),
    (Key::FIELDS, false),
    (ReadKey::FIELDS, true),
    (ReadKey::FIELDS, false),
];

/// The given options of a body.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings<const BODY: usize>(pub(super) Map<String, Value>);

impl<const BODY: usize> Settings<BODY> {
    /// All options, for a message.
    pub(super) fn options() -> String {
        let options: Vec<String> = rows(BODY).map(|row| format!("--{}", option(row))).collect();
        options.join(", ")
    }
}

impl<const BODY: usize> clap::Args for Settings<BODY> {
    fn augment_args(command: Command) -> Command {
        rows(BODY).fold(command, |command, row| {
            command.arg(argument(row, BODIES[BODY].1))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const BODY: usize> clap::FromArgMatches for Settings<BODY> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = rows(BODY).filter_map(|row| Some((row.name.to_owned(), given(row, matches)?)));
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The rows with an option. A name is an argument, and a table that no option can express has separate options.
fn rows(body: usize) -> impl Iterator<Item = &'static Field> {
    let (fields, is_new) = BODIES[body];
    fields.iter().filter(move |row| {
        let is_flag = matches!(row.shape, Shape::Boolean);
        !row.declared && (is_new || !row.fixed) && (is_flag || !row.placeholder.is_empty())
    })
}

fn option(row: &Field) -> String {
    match row.flag.is_empty() {
        true => row.name.replace('_', "-"),
        false => row.flag.to_owned(),
    }
}

fn argument(row: &'static Field, is_new: bool) -> Arg {
    // clap requires a static name.
    let option: &'static str = option(row).leak();
    let arg = Arg::new(option).long(option).help(help(row, is_new));
    let arg = match row.placeholder {
        "" => arg,
        placeholder => arg.value_name(placeholder),
    };
    let is_required = is_new && row.required && !row.assumed;
    match row.shape {
        Shape::Boolean if row.none.is_empty() && is_new => arg.action(ArgAction::SetTrue),
        Shape::Boolean if row.none.is_empty() => arg
            .value_name("BOOL")
            .value_parser(clap::value_parser!(bool)),
        Shape::Boolean => arg.value_parser(PossibleValuesParser::new(["yes", "no", row.none_word])),
        Shape::Choice(words) => arg.value_parser(PossibleValuesParser::new(words)),
        Shape::Integer(..) => arg.value_parser(number_or(row.none_word)),
        Shape::List(..) => arg.action(ArgAction::Append).required(is_required),
        Shape::Table(_) => arg.value_parser(delete_when),
        Shape::Time => arg.value_parser(none_or_time(row.none_word)),
        _ if row.none.is_empty() => arg.required(is_required),
        _ => arg.value_parser(text_or_none),
    }
}

/// The description, and how to unset the setting.
fn help(row: &Field, is_new: bool) -> String {
    let about = row.about().trim_end_matches('.');
    let more = match (row.shape, row.none, row.none_word) {
        (Shape::List(..), ..) if is_new => "; can be repeated".to_owned(),
        (Shape::List(..), ..) => "; can be repeated, and replaces the list".to_owned(),
        (_, "", _) => String::new(),
        (_, none, "") => format!("; empty: {none}"),
        (_, none, word) if none == word => format!("; or `{word}`"),
        (_, none, word) => format!("; or `{word}`: {none}"),
    };
    format!("{about}{more}")
}

/// The value of a row that was given.
fn given(row: &Field, matches: &ArgMatches) -> Option<Value> {
    let option = option(row);
    let text = || matches.get_one::<String>(&option);
    match row.shape {
        Shape::Boolean if row.none.is_empty() => {
            let flag = *matches.get_one::<bool>(&option)?;
            let is_said = matches.value_source(&option)? == clap::parser::ValueSource::CommandLine;
            is_said.then_some(flag.into())
        }
        Shape::Boolean => text().map(|answer| match &**answer {
            "yes" => Value::Bool(true),
            "no" => Value::Bool(false),
            _ => Value::Null,
        }),
        Shape::List(..) => {
            let given = matches.get_many::<String>(&option)?;
            let entries = given.filter(|entry| !entry.is_empty());
            Some(entries.map(|entry| Value::from(&**entry)).collect())
        }
        Shape::Choice(_) => text().map(|word| Value::from(&**word)),
        Shape::Text(_) if row.none.is_empty() => text().map(|text| Value::from(&**text)),
        _ => matches.get_one::<Value>(&option).cloned(),
    }
}
