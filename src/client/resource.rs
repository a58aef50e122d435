//! What the admin API lists, creates, changes and deletes by name.
//!
//! The verbs for streams, connectors, keys, read keys and sinks say what is particular to each.
//!
//! **Invariant**: what was not given is not sent, so a change leaves it as it is.

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::client::{AdminArgs, Client};
use super::error::CliError;
use super::output::{self, ListOutput, Table, plain, print, print_list, shown};
use base::text::percent_encoded;

/// What a `list` is told.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// How to print them
    #[arg(long, value_enum, default_value = "table")]
    pub(super) output: ListOutput,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

/// A column of a list.
pub struct Column {
    heading: &'static str,
    cell: Cell,
}

enum Cell {
    Field(&'static str),
    Beginning(&'static str),
    Of(fn(&Value) -> String),
}

impl Column {
    /// A field as it is.
    pub const fn field(heading: &'static str, name: &'static str) -> Self {
        let cell = Cell::Field(name);
        Self { heading, cell }
    }

    /// The beginning of a field that may be long.
    pub const fn beginning(heading: &'static str, name: &'static str) -> Self {
        let cell = Cell::Beginning(name);
        Self { heading, cell }
    }

    /// What is to be said of an entry.
    pub const fn of(heading: &'static str, cell: fn(&Value) -> String) -> Self {
        let cell = Cell::Of(cell);
        Self { heading, cell }
    }

    fn text(&self, entry: &Value) -> String {
        match self.cell {
            Cell::Field(name) => plain(&entry[name]),
            Cell::Beginning(name) => output::cut(plain(&entry[name])),
            Cell::Of(cell) => cell(entry),
        }
    }
}

/// What people said of an entry.
pub(super) const DESCRIPTION: Column = Column::beginning("DESCRIPTION", "description");

/// A row for each entry.
pub fn table(columns: &[Column], entries: &[Value]) -> Table {
    let headings: Vec<&str> = columns.iter().map(|column| column.heading).collect();
    let mut table = Table::new(&headings);
    for entry in entries {
        let cells: Vec<String> = columns.iter().map(|column| column.text(entry)).collect();
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        table.row(&cells);
    }
    table
}

/// All things of one kind.
pub struct Resource {
    client: Client,
    noun: &'static str,
    path: String,
}

impl Resource {
    /// Those at a path of the admin API.
    pub fn new(
        admin: &AdminArgs,
        noun: &'static str,
        path: impl Into<String>,
    ) -> Result<Self, CliError> {
        let (client, path) = (admin.client()?, path.into());
        Ok(Self { client, noun, path })
    }

    /// The first `limit` of them.
    pub(super) async fn entries(&self, limit: usize) -> Result<Vec<Value>, CliError> {
        Ok(self.client.list(&self.path, "", limit).await?)
    }

    /// Prints the first `limit` of them, or that there are none.
    pub(super) async fn list(
        &self,
        limit: usize,
        output: ListOutput,
        none: &str,
        columns: &[Column],
    ) -> Result<(), CliError> {
        let entries = self.entries(limit).await?;
        print_list(output, &entries, none, |entries| table(columns, entries))
    }

    /// Calls the path, or one below it, and returns the data of the answer.
    pub async fn call(
        &self,
        method: Method,
        below: &str,
        body: Option<Map<String, Value>>,
    ) -> Result<Value, CliError> {
        let path = format!("{}{below}", self.path);
        let body = body.map(Value::Object);
        let done = self.client.change(method, &path, body.as_ref()).await?;
        Ok(done.data)
    }

    /// The error for an answer that lacks what it must have.
    pub(super) fn foreign(&self, reason: &str) -> CliError {
        self.client.foreign(reason.to_owned()).into()
    }

    /// Creates one.
    pub(super) async fn create(
        &self,
        name: &str,
        mut body: Map<String, Value>,
    ) -> Result<(), CliError> {
        body.insert("name".to_owned(), json!(name));
        self.call(Method::POST, "", Some(body)).await?;
        print(&format!("{} {} created\n", self.noun, shown(name)))
    }

    /// Changes one; `options` are those of which one has to be given.
    pub(super) async fn change(
        &self,
        name: &str,
        body: Map<String, Value>,
        options: &str,
    ) -> Result<(), CliError> {
        if body.is_empty() {
            return Err(CliError::wrong_use(format!(
                "say what to change: {options}"
            )));
        }
        let below = format!("/{}", percent_encoded(name));
        let done = self.call(Method::PATCH, &below, Some(body)).await?;
        self.say(name, &done, "changed")
    }

    /// Revokes a key for good.
    pub(super) async fn revoke(&self, name: &str) -> Result<(), CliError> {
        let below = format!("/{}/revoke", percent_encoded(name));
        let done = self.call(Method::POST, &below, None).await?;
        self.say(name, &done, "revoked")
    }

    /// Deletes one, `query` included in the call.
    pub(super) async fn delete(&self, name: &str, query: &str) -> Result<(), CliError> {
        let below = format!("/{}{query}", percent_encoded(name));
        let done = self.call(Method::DELETE, &below, None).await?;
        self.say(name, &done, "deleted")
    }

    /// Says what was done; of a key also its public beginning.
    fn say(&self, name: &str, done: &Value, what: &str) -> Result<(), CliError> {
        let name = done["name"].as_str().unwrap_or(name);
        let prefix = match done["prefix"].as_str() {
            Some(prefix) => format!(" ({})", shown(prefix)),
            None => String::new(),
        };
        print(&format!("{} {}{prefix} {what}\n", self.noun, shown(name)))
    }
}

/// The body of a call: what was given.
pub fn given<const N: usize>(fields: [(&'static str, Option<Value>); N]) -> Map<String, Value> {
    let given = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    given.collect()
}

/// Reads a number, or the word that stands for none.
pub(super) fn number_or(
    none: &'static str,
) -> impl Fn(&str) -> Result<Value, String> + Clone + Send + Sync + 'static {
    move |text| match text.parse::<u64>() {
        Ok(number) => Ok(json!(number)),
        Err(_) if none.is_empty() => Err("give a whole number".to_owned()),
        Err(_) if text == none => Ok(Value::Null),
        Err(_) => Err(format!("give a whole number, or {none}")),
    }
}

/// A rule of removals, `FIELD=VALUE,VALUE`, or none.
pub(super) fn delete_when(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let (field, values) = text
        .split_once('=')
        .ok_or("give a field and its values, such as _event=orders/delete")?;
    let values: Vec<&str> = values.split(',').collect();
    Ok(json!({"field": field, "is": values}))
}

/// Reads a text, of which an empty one stands for none.
pub(super) fn text_or_none(text: &str) -> Result<Value, std::convert::Infallible> {
    Ok(match text {
        "" => Value::Null,
        text => json!(text),
    })
}

/// Reads a time, which the daemon checks, or the word that stands for none.
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
