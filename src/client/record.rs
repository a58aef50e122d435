//! The options of a record on the command line, generated from its rows.
//!
//! Flattened into the arguments of the verbs that create and change records.
//!
//! **Invariant**: an option that was not given is not sent, so its setting stays unchanged.

use clap::builder::{BoolValueParser, PossibleValue, PossibleValuesParser, TypedValueParser as _};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, Error};
use serde_json::{Map, Value};

use super::resource::{delete_when, none_or_time, number_or, text_or_none};
use settings::{Connector, Field, Key, ReadKey, Shape, Sink, Stream};

/// Indexes of [`BODIES`].
pub(super) const NEW_STREAM: usize = 0;
pub(super) const STREAM: usize = 1;
pub(super) const NEW_CONNECTOR: usize = 2;
pub(super) const CONNECTOR: usize = 3;
pub(super) const NEW_KEY: usize = 4;
pub(super) const KEY: usize = 5;
pub(super) const NEW_READ_KEY: usize = 6;
pub(super) const READ_KEY: usize = 7;
pub(super) const SINK: usize = 8;

/// What a body is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyKind {
    /// It creates a record.
    New,
    /// It changes a record.
    Change,
    /// It is a merge patch, in which null is the default of any setting. It creates records, too.
    Merge,
}

use BodyKind::{Change, Merge, New};

/// The rows of each body.
const BODIES: [(&[Field], BodyKind); 9] = [
    (Stream::FIELDS, New),
    (Stream::FIELDS, Change),
    (Connector::FIELDS, New),
    (Connector::FIELDS, Change),
    (Key::FIELDS, New),
    (Key::FIELDS, Change),
    (ReadKey::FIELDS, New),
    (ReadKey::FIELDS, Change),
    (Sink::FIELDS, Merge),
];

/// A row with an option.
#[derive(Clone, Copy)]
struct OptionRow {
    /// The table that the row is in; none: the record itself.
    table: Option<&'static Field>,
    row: &'static Field,
}

/// The given options of a body. Secrets and JSON are as they were typed, because they can name a file: the verb reads it.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings<const BODY: usize>(pub(super) Map<String, Value>);

impl<const BODY: usize> Settings<BODY> {
    /// All options, for a message.
    pub(super) fn options() -> String {
        let options: Vec<String> = distinct(&rows(BODY))
            .map(|one| format!("--{}", option(one.row)))
            .collect();
        options.join(", ")
    }
}

impl<const BODY: usize> clap::Args for Settings<BODY> {
    fn augment_args(command: Command) -> Command {
        distinct(&rows(BODY)).fold(command, |command, one| {
            command.arg(argument(one, BODIES[BODY].1))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const BODY: usize> clap::FromArgMatches for Settings<BODY> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let rows = rows(BODY);
        let own = rows.iter().filter(|one| one.table.is_none());
        let given = own.filter_map(|one| Some((one.row.name.to_owned(), given(one.row, matches)?)));
        let mut body: Map<String, Value> = given.collect();
        body.extend(tables(&rows, matches));
        Ok(Self(body))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The rows with an option, also those of tables that have none. A name is an argument.
fn rows(body: usize) -> Vec<OptionRow> {
    let (fields, kind) = BODIES[body];
    let mut rows = Vec::new();
    for row in fields {
        let is_flag = matches!(row.shape, Shape::Boolean) && kind != Merge;
        match row.shape {
            _ if row.declared || (kind != New && row.fixed) => {}
            _ if is_flag || !row.placeholder.is_empty() => {
                rows.push(OptionRow { table: None, row });
            }
            Shape::Table(inner) => {
                let inner = inner.iter().filter(|row| !row.placeholder.is_empty());
                let table = Some(row);
                rows.extend(inner.map(|row| OptionRow { table, row }));
            }
            _ => {}
        }
    }
    rows
}

/// The first row of each option: tables can have one in common.
fn distinct(rows: &[OptionRow]) -> impl Iterator<Item = OptionRow> {
    let is_first = |(index, one): &(usize, &OptionRow)| {
        let mut earlier = rows[..*index].iter();
        !earlier.any(|other| option(other.row) == option(one.row))
    };
    let first = rows.iter().enumerate().filter(is_first);
    first.map(|(_, one)| *one)
}

/// The option of a row, without its dashes.
pub(super) fn option(row: &Field) -> String {
    match row.flag.is_empty() {
        true => row.name.replace('_', "-"),
        false => row.flag.to_owned(),
    }
}

/// Its id, which no other argument has: verbs have an option `--config` of their own.
fn id(row: &Field) -> String {
    format!("set-{}", option(row))
}

fn argument(one: OptionRow, kind: BodyKind) -> Arg {
    let row = one.row;
    // clap requires static names.
    let (id, option): (&'static str, &'static str) = (id(row).leak(), option(row).leak());
    let arg = Arg::new(id).long(option).help(help(one, kind));
    let is_required = kind == New && row.required && !row.assumed;
    let arg = match (row.shape, row.placeholder) {
        (Shape::Boolean, "") if kind != New => arg.value_name("BOOL"),
        (_, "") => arg,
        (_, placeholder) => arg.value_name(placeholder),
    };
    match row.shape {
        Shape::Boolean if row.none.is_empty() && kind == New => arg.action(ArgAction::SetTrue),
        Shape::Boolean if row.none.is_empty() => {
            arg.value_parser(BoolValueParser::new().map(Value::Bool))
        }
        Shape::Boolean => {
            let words = PossibleValuesParser::new(["yes", "no", row.none_word]);
            arg.value_parser(words.map(|answer| match &*answer {
                "yes" => Value::Bool(true),
                "no" => Value::Bool(false),
                _ => Value::Null,
            }))
        }
        Shape::Choice(words) => {
            let words = words.iter().map(|word| PossibleValue::new(*word));
            let none = (kind == Merge).then(|| PossibleValue::new("").hide(true));
            let words = PossibleValuesParser::new(words.chain(none));
            arg.value_parser(words.map(|word| match word.is_empty() {
                true => Value::Null,
                false => word.into(),
            }))
        }
        Shape::Integer(..) => arg.value_parser(number_or(row.none_word)),
        Shape::List(..) if kind == Merge => arg.action(ArgAction::Append).value_delimiter(','),
        Shape::List(..) => arg.action(ArgAction::Append).required(is_required),
        Shape::Secrets(_) => arg.action(ArgAction::Append),
        Shape::Table(_) => arg.value_parser(delete_when),
        Shape::Time => arg.value_parser(none_or_time(row.none_word)),
        _ if kind == Merge || !row.none.is_empty() => arg.value_parser(text_or_none),
        _ => {
            let text = |text: &str| Ok::<_, std::convert::Infallible>(Value::from(text));
            arg.value_parser(text).required(is_required)
        }
    }
}

/// The description, and how to unset the setting.
fn help(one: OptionRow, kind: BodyKind) -> String {
    let row = one.row;
    let about = row.about().trim_end_matches('.');
    // Without what it requires, there is no table.
    let none = match one.table {
        Some(table) if row.required => table.none,
        _ => row.none,
    };
    let more = match (row.shape, none, row.none_word) {
        (Shape::List(..), ..) if kind == New => "; can be repeated".to_owned(),
        (Shape::List(..), ..) if kind == Change => {
            "; can be repeated, and replaces the list".to_owned()
        }
        (Shape::List(..), ..) => "; separated by commas, or repeated".to_owned(),
        (Shape::Secrets(_), ..) => "; can be repeated; an empty value deletes it".to_owned(),
        (Shape::Free, ..) => "; a JSON object".to_owned(),
        (_, "", _) => String::new(),
        (_, none, "") => format!("; empty: {none}"),
        (_, none, word) if none == word => format!("; or `{word}`"),
        (_, none, word) => format!("; or `{word}`: {none}"),
    };
    format!("{about}{more}")
}

/// The tables of the options that were given. An option that several tables have in common sets those that another option
/// sets, or the first: `--network` limits where `--host` or `--wire` can connect to.
fn tables(rows: &[OptionRow], matches: &ArgMatches) -> Map<String, Value> {
    let mut tables = Map::new();
    let mut put = |table: &Field, row: &Field, value: Value| {
        let table = tables
            .entry(table.name)
            .or_insert_with(|| Map::new().into());
        table[row.name] = value;
    };
    let with = |option_of: &Field| -> Vec<&'static Field> {
        let same = rows
            .iter()
            .filter(|one| option(one.row) == option(option_of));
        same.filter_map(|one| one.table).collect()
    };
    let inner = rows.iter().filter_map(|one| Some((one.table?, one.row)));
    let inner = inner.filter_map(|(table, row)| Some((table, row, given(row, matches)?)));
    let (own, common): (Vec<_>, Vec<_>) = inner.partition(|(_, row, _)| with(row).len() == 1);
    let named: Vec<&str> = own.iter().map(|(table, ..)| table.name).collect();
    for (table, row, value) in own {
        put(table, row, value);
    }
    for (table, row, value) in common {
        let all = with(row);
        let is_meant = match all.iter().any(|one| named.contains(&one.name)) {
            true => named.contains(&table.name),
            false => all.first().is_some_and(|first| first.name == table.name),
        };
        if is_meant {
            put(table, row, value);
        }
    }
    tables
}

/// The value of a row that was given.
fn given(row: &Field, matches: &ArgMatches) -> Option<Value> {
    let id = id(row);
    // A flag without a value has its default where it was not given.
    let is_given = matches.value_source(&id)? == ValueSource::CommandLine;
    match row.shape {
        _ if !is_given => None,
        Shape::List(..) | Shape::Secrets(_) => {
            let given = matches.get_many::<String>(&id)?;
            let is_list = matches!(row.shape, Shape::List(..));
            let entries = given.filter(|entry| !is_list || !entry.is_empty());
            Some(entries.map(|entry| Value::from(&**entry)).collect())
        }
        _ => match matches.try_get_one::<Value>(&id) {
            Ok(value) => value.cloned(),
            Err(_) => Some(matches.get_flag(&id).into()),
        },
    }
}

#[cfg(test)]
mod tests;
