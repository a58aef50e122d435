//! Objects that the admin API lists, creates, changes and deletes by name.
//!
//! The verbs for streams, connectors, keys, read keys and sinks define the parts that differ.
//!
//! **Invariant**: a setting that was not given is not sent, so it stays unchanged.

use reqwest::Method;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::client::{AdminArgs, CallError, Client};
use super::error::CliError;
use super::output::{ListOutput, Table, cut, plain, print, print_list, shown, when};
use base::text::percent_encoded;
use settings::{Field, Shape};
use wire::ShownSettings;

/// What a `list` is told.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(super) output: ListOutput,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

/// A column of a list.
pub struct Column<T> {
    heading: &'static str,
    cell: Cell<T>,
}

/// What a column shows of an entry.
enum Cell<T> {
    Of(fn(&T) -> String),
    Setting(fn(&T) -> &ShownSettings, &'static Field),
}

impl<T> Column<T> {
    /// A column with this heading, and a function for its cells.
    pub const fn new(heading: &'static str, cell: fn(&T) -> String) -> Self {
        let cell = Cell::Of(cell);
        Self { heading, cell }
    }

    /// A column with this heading for the setting of this name. It must have a row: otherwise, a constant column does not
    /// compile.
    pub(super) const fn setting(
        heading: &'static str,
        rows: &'static [Field],
        name: &str,
        settings: fn(&T) -> &ShownSettings,
    ) -> Self {
        let mut index = 0;
        while !is_same(rows[index].name, name) {
            index += 1;
        }
        let cell = Cell::Setting(settings, &rows[index]);
        Self { heading, cell }
    }

    fn text(&self, entry: &T) -> String {
        let (settings, row) = match self.cell {
            Cell::Of(cell) => return cell(entry),
            Cell::Setting(settings, row) => (settings(entry), row),
        };
        let value = &settings[row.name];
        match row.shape {
            Shape::Time => when(value),
            Shape::List(..) => {
                let entries = value.as_array().into_iter().flatten();
                cut(entries.map(plain).collect::<Vec<_>>().join(", "))
            }
            // A name is shown in full, because commands take it.
            Shape::Text(_) if !row.required => cut(plain(value)),
            _ => plain(value),
        }
    }
}

/// Whether two names are equal, for constants.
const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut index = 0;
    while index < one.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// Marks an object that is defined in the configuration, and cannot be changed at run time.
pub(super) fn declared(is_declared: bool) -> String {
    let file = if is_declared { "file" } else { "" };
    file.to_owned()
}

/// A table with one row per entry.
pub fn table<T>(columns: &[Column<T>], entries: &[T]) -> Table {
    let headings: Vec<&str> = columns.iter().map(|column| column.heading).collect();
    let mut table = Table::new(&headings);
    for entry in entries {
        let cells: Vec<String> = columns.iter().map(|column| column.text(entry)).collect();
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        table.row(&cells);
    }
    table
}

/// The objects of one kind.
pub struct Resource {
    client: Client,
    noun: &'static str,
    path: String,
}

impl Resource {
    /// The objects at a path of the admin API.
    pub fn new(
        admin: &AdminArgs,
        noun: &'static str,
        path: impl Into<String>,
    ) -> Result<Self, CliError> {
        let (client, path) = (admin.client()?, path.into());
        Ok(Self { client, noun, path })
    }

    /// The first `limit` objects.
    pub(super) async fn entries<T: DeserializeOwned>(
        &self,
        limit: usize,
    ) -> Result<Vec<T>, CliError> {
        Ok(self.client.list(&self.path, "", limit).await?)
    }

    /// Prints all objects, or `none`.
    pub(super) async fn list<T: Serialize + DeserializeOwned>(
        &self,
        output: ListOutput,
        none: &str,
        columns: &[Column<T>],
    ) -> Result<(), CliError> {
        self.first(usize::MAX, output, none, columns).await
    }

    /// As `list`, for the objects that `wanted` selects.
    pub(super) async fn list_those<T: Serialize + DeserializeOwned>(
        &self,
        wanted: impl Fn(&T) -> bool,
        output: ListOutput,
        none: &str,
        columns: &[Column<T>],
    ) -> Result<(), CliError> {
        let mut entries = self.entries(usize::MAX).await?;
        entries.retain(wanted);
        print_list(output, &entries, none, |entries| table(columns, entries))
    }

    /// As `list`, for the first `limit` objects.
    pub(super) async fn first<T: Serialize + DeserializeOwned>(
        &self,
        limit: usize,
        output: ListOutput,
        none: &str,
        columns: &[Column<T>],
    ) -> Result<(), CliError> {
        let entries = self.entries(limit).await?;
        print_list(output, &entries, none, |entries| table(columns, entries))
    }

    /// Calls the path, or a path below it, and returns the data of the response.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        below: &str,
        body: Option<Map<String, Value>>,
    ) -> Result<T, CliError> {
        let path = format!("{}{below}", self.path);
        let body = body.map(Value::Object);
        Ok(self.client.change(method, &path, body.as_ref()).await?)
    }

    /// Calls a path below without a body; returns the data of the response, or the error of the call.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        below: &str,
    ) -> Result<T, CallError> {
        let path = format!("{}{below}", self.path);
        self.client.change(method, &path, None).await
    }

    /// The error for a response that lacks required data.
    pub(super) fn foreign(&self, reason: &str) -> CliError {
        self.client.foreign(reason.to_owned()).into()
    }

    pub(super) async fn create(
        &self,
        name: &str,
        mut body: Map<String, Value>,
    ) -> Result<(), CliError> {
        body.insert("name".to_owned(), json!(name));
        let _: IgnoredAny = self.call(Method::POST, "", Some(body)).await?;
        print(&format!("{} {} created\n", self.noun, shown(name)))
    }

    /// Changes an object; `options` lists the options, one of which is required.
    pub(super) async fn change(
        &self,
        name: &str,
        body: Map<String, Value>,
        options: &str,
    ) -> Result<(), CliError> {
        if body.is_empty() {
            return Err(CliError::wrong_use(format!(
                "nothing to change; set one of {options}"
            )));
        }
        let below = format!("/{}", percent_encoded(name));
        let done = self.call(Method::PATCH, &below, Some(body)).await?;
        self.say(&done, "changed")
    }

    pub(super) async fn revoke(&self, name: &str) -> Result<(), CliError> {
        let below = format!("/{}/revoke", percent_encoded(name));
        let done = self.call(Method::POST, &below, None).await?;
        self.say(&done, "revoked")
    }

    /// Deletes an object; `query` is appended to the URL.
    pub(super) async fn delete(&self, name: &str, query: &str) -> Result<(), CliError> {
        let below = format!("/{}{query}", percent_encoded(name));
        let done = self.call(Method::DELETE, &below, None).await?;
        self.say(&done, "deleted")
    }

    /// Prints what was done; for a key, with its public prefix.
    fn say(&self, done: &Named, what: &str) -> Result<(), CliError> {
        let prefix = match &done.prefix {
            Some(prefix) => format!(" ({})", shown(prefix)),
            None => String::new(),
        };
        print(&format!(
            "{} {}{prefix} {what}\n",
            self.noun,
            shown(&done.name)
        ))
    }
}

/// The common members of responses.
#[derive(Deserialize)]
struct Named {
    name: String,
    /// Only keys have one.
    prefix: Option<String>,
}

/// The body of a call: the fields that were given.
pub fn given<const N: usize>(fields: [(&'static str, Option<Value>); N]) -> Map<String, Value> {
    let given = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    given.collect()
}

/// Parses a number, or the word for null.
pub(super) fn number_or(
    none: &'static str,
) -> impl Fn(&str) -> Result<Value, String> + Clone + Send + Sync + 'static {
    move |text| match text.parse::<u64>() {
        Ok(number) => Ok(json!(number)),
        Err(_) if none.is_empty() => Err("expected a whole number".to_owned()),
        Err(_) if text == none => Ok(Value::Null),
        Err(_) => Err(format!("expected a whole number, or {none}")),
    }
}

/// Parses a removal rule, `FIELD=VALUE,VALUE`; empty for null.
pub(super) fn delete_when(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let (field, values) = text
        .split_once('=')
        .ok_or("expected a field and its values, such as _event=orders/delete")?;
    let values: Vec<&str> = values.split(',').collect();
    Ok(json!({"field": field, "is": values}))
}

/// Parses a text; empty for null.
pub(super) fn text_or_none(text: &str) -> Result<Value, std::convert::Infallible> {
    Ok(match text {
        "" => Value::Null,
        text => json!(text),
    })
}

/// Parses a time, which the daemon validates, or the word for null.
pub(super) fn none_or_time(
    none: &'static str,
) -> impl Fn(&str) -> Result<Value, std::convert::Infallible> + Clone + Send + Sync + 'static {
    move |text| {
        Ok(match text {
            text if text == none => Value::Null,
            time => json!(time),
        })
    }
}
