//! From settings to SQL.
//!
//! **Invariant**: everything of the settings that becomes SQL is quoted, or has the form that the schema of the settings
//! allows: types, and a statement of the operator's own.

use headgate_sdk::postgres::{Column as Parameter, Statement};
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    schema: Option<String>,
    table: Option<String>,
    columns: Vec<Column>,
    key: Vec<String>,
    create: bool,
    sql: Option<String>,
    parameters: Vec<Source>,
}

/// A column of the table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Column {
    name: String,
    from: Option<Of>,
    field: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// A parameter of a statement of the operator's own.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Source {
    from: Option<Of>,
    field: Option<String>,
    number: Option<String>,
}

/// What an item has beside its single fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Of {
    Stream,
    Key,
    Fields,
    ReceivedAt,
}

/// What to run for a batch.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) write: Statement,
    /// Removes rows, if the items' keys say which.
    pub(crate) remove: Option<Statement>,
    /// Makes the table, if that is wanted.
    pub(crate) create: Option<Statement>,
    /// Fields without which an item has no key.
    pub(crate) key_fields: Vec<String>,
}

impl Plan {
    /// # Errors
    /// The settings contradict each other.
    pub(crate) fn new(settings: Settings) -> Result<Self, String> {
        let table = match (settings.table, settings.sql) {
            (Some(table), None) => table,
            (None, Some(sql)) => {
                return Ok(Self {
                    write: Statement {
                        sql,
                        columns: settings.parameters.iter().map(Source::parameter).collect(),
                    },
                    remove: None,
                    create: None,
                    key_fields: Vec::new(),
                });
            }
            _ => return Err("wants either `table` or `sql`".to_owned()),
        };
        let (columns, key) = match settings.columns.is_empty() {
            true => default_layout(),
            false => (settings.columns, settings.key),
        };
        let mut table = quoted(&table);
        if let Some(schema) = &settings.schema {
            table = format!("{}.{table}", quoted(schema));
        }
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|other| other.name == column.name) {
                return Err(format!("columns: {:?} is there twice", column.name));
            }
        }
        let mut key_columns = Vec::new();
        for name in &key {
            let at = columns.iter().position(|column| column.name == *name);
            key_columns.push(at.ok_or_else(|| format!("key: {name:?} is none of the columns"))?);
        }
        let in_key = key_columns.iter().map(|at| &columns[*at]);
        Ok(Self {
            key_fields: in_key.filter_map(Column::field).collect(),
            create: settings.create.then(|| Statement {
                sql: create(&table, &columns, &key),
                columns: Vec::new(),
            }),
            remove: remove(&table, &columns),
            write: Statement {
                sql: upsert(&table, &columns, &key, &key_columns),
                columns: columns.iter().map(Column::parameter).collect(),
            },
        })
    }
}

/// The table that needs no `columns`.
fn default_layout() -> (Vec<Column>, Vec<String>) {
    let column = |name: &str, of| Column {
        name: name.to_owned(),
        from: Some(of),
        ..Column::default()
    };
    (
        vec![
            column("stream", Of::Stream),
            column("key", Of::Key),
            column("fields", Of::Fields),
            column("received_at", Of::ReceivedAt),
        ],
        vec!["stream".to_owned(), "key".to_owned()],
    )
}

fn create(table: &str, columns: &[Column], key: &[String]) -> String {
    let types = columns.iter().map(|column| {
        let not_null = if column.from.is_some() {
            " NOT NULL"
        } else {
            ""
        };
        format!("{} {}{not_null}", quoted(&column.name), column.kind())
    });
    format!(
        "CREATE TABLE IF NOT EXISTS {table} ({}, PRIMARY KEY ({}))",
        list(types),
        list(key.iter().map(|name| quoted(name)))
    )
}

fn upsert(table: &str, columns: &[Column], key: &[String], key_columns: &[usize]) -> String {
    let arrays = columns.iter().zip(1..).map(|(column, number)| {
        let element = match column.parameter() {
            Parameter::Times => "bigint",
            _ => "text",
        };
        format!("${number}::{element}[]")
    });
    let values = columns
        .iter()
        .zip(1..)
        .map(|(column, number)| format!("{} AS c{number}", column.value(number)));
    let names = || (1..=columns.len()).map(|number| format!("c{number}"));
    let distinct = list(key_columns.iter().map(|at| format!("c{}", at + 1)));
    let rest: Vec<_> = columns
        .iter()
        .filter(|column| !key.contains(&column.name))
        .map(|column| quoted(&column.name))
        .collect();
    let on_conflict = if rest.is_empty() {
        "NOTHING".to_owned()
    } else {
        // As text, because some types cannot be compared.
        let row = |of: &str| list(rest.iter().map(|name| format!("{of}.{name}::text")));
        let received = columns
            .iter()
            .find(|column| column.from == Some(Of::ReceivedAt) && !key.contains(&column.name))
            .map_or_else(String::new, |column| {
                let name = quoted(&column.name);
                format!("(t.{name} <= EXCLUDED.{name}) IS NOT FALSE AND ")
            });
        format!(
            "UPDATE SET {} WHERE {received}ROW({}) IS DISTINCT FROM ROW({})",
            list(rest.iter().map(|name| format!("{name} = EXCLUDED.{name}"))),
            row("t"),
            row("EXCLUDED")
        )
    };
    // Of equal keys the last one, and always in the same order, so that writers do not wait for each other in a circle.
    format!(
        "INSERT INTO {table} AS t ({}) \
         SELECT {} FROM (SELECT DISTINCT ON ({distinct}) * FROM (SELECT {}, nth \
         FROM unnest({}) WITH ORDINALITY AS item({}, nth)) AS item ORDER BY {distinct}, nth DESC) AS item \
         ON CONFLICT ({}) DO {on_conflict}",
        list(columns.iter().map(|column| quoted(&column.name))),
        list(names()),
        list(values),
        list(arrays),
        list((1..=columns.len()).map(|number| format!("p{number}"))),
        list(key.iter().map(|name| quoted(name))),
    )
}

/// Removes the rows that have the items' keys in the columns for keys, and for streams if there are any; not those that
/// arrived later. Without a column for keys nothing says which row an item is.
fn remove(table: &str, columns: &[Column]) -> Option<Statement> {
    columns
        .iter()
        .find(|column| matches!(column.from, Some(Of::Key)))?;
    let known: Vec<&Column> = columns
        .iter()
        .filter(|column| matches!(column.from, Some(Of::Key | Of::Stream | Of::ReceivedAt)))
        .collect();
    let numbered = || known.iter().zip(1..);
    let arrays = numbered().map(|(column, number)| match column.from {
        Some(Of::ReceivedAt) => format!("${number}::bigint[]"),
        _ => format!("${number}::text[]"),
    });
    let values =
        numbered().map(|(column, number)| format!("{} AS c{number}", column.value(number)));
    let same = numbered().map(|(column, number)| {
        let name = quoted(&column.name);
        match column.from {
            Some(Of::ReceivedAt) => format!("(t.{name} <= gone.c{number}) IS NOT FALSE"),
            _ => format!("t.{name} = gone.c{number}"),
        }
    });
    Some(Statement {
        sql: format!(
            "DELETE FROM {table} AS t USING (SELECT {} FROM unnest({}) AS item({})) AS gone WHERE {}",
            list(values),
            list(arrays),
            list(numbered().map(|(_, number)| format!("p{number}"))),
            same.collect::<Vec<_>>().join(" AND "),
        ),
        columns: known.iter().map(|column| column.parameter()).collect(),
    })
}

impl Column {
    fn field(&self) -> Option<String> {
        match self.from {
            Some(_) => None,
            None => Some(self.field.clone().unwrap_or_else(|| self.name.clone())),
        }
    }

    fn kind(&self) -> &str {
        match (&self.kind, self.from) {
            (Some(kind), _) => kind,
            (None, Some(Of::Fields)) => "jsonb",
            (None, Some(Of::ReceivedAt)) => "timestamptz",
            (None, _) => "text",
        }
    }

    fn is_json(&self) -> bool {
        let kind = self.kind();
        kind.eq_ignore_ascii_case("json") || kind.eq_ignore_ascii_case("jsonb")
    }

    fn parameter(&self) -> Parameter {
        match (self.from, self.field()) {
            (Some(of), _) => of.parameter(),
            // Text would have lost whether "1" was a number.
            (None, Some(_)) if self.is_json() => Parameter::Json,
            (None, field) => Parameter::Texts(field.unwrap_or_default()),
        }
    }

    /// The column's value of one item, whose parameter is `p{number}`.
    fn value(&self, number: usize) -> String {
        let value = match (self.from, self.field()) {
            (Some(Of::ReceivedAt), _) => {
                format!("timestamptz 'epoch' + p{number} * interval '1 millisecond'")
            }
            (None, Some(field)) if self.is_json() => {
                format!(
                    "nullif(p{number}::jsonb -> {}, 'null'::jsonb)",
                    literal(&field)
                )
            }
            _ => format!("p{number}"),
        };
        format!("CAST({value} AS {})", self.kind())
    }
}

impl Source {
    fn parameter(&self) -> Parameter {
        match (self.from, &self.number) {
            (Some(of), _) => of.parameter(),
            (None, Some(number)) => Parameter::Numbers(number.clone()),
            (None, None) => Parameter::Texts(self.field.clone().unwrap_or_default()),
        }
    }
}

impl Of {
    fn parameter(self) -> Parameter {
        match self {
            Of::Stream => Parameter::Streams,
            Of::Key => Parameter::Keys,
            Of::Fields => Parameter::Json,
            Of::ReceivedAt => Parameter::Times,
        }
    }
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

/// The same whatever `standard_conforming_strings` says.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
