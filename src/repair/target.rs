//! The tables of the new file, and how their rows stand in the old one.
//!
//! **Invariant**: a row fits only if its values are of the types that its table declares.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};

use super::RepairError;
use super::objects::{Object, is_bit_apart, stated};
use super::walk::{Kind, Row};

/// A table of the new file, and how its rows stand in the old one.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) root: Option<u32>,
    pub(super) kind: Kind,
    columns: Vec<Column>,
    /// The column of each value of a record.
    record: Vec<usize>,
    pub(super) insert: String,
}

struct Column {
    name: String,
    declared: String,
    not_null: bool,
    is_rowid: bool,
    /// Stands where a record ends early, because the column came later.
    default: Value,
}

/// Every table of the new file. Where the old one cannot say where it is, it is where this version puts it.
pub(super) fn targets(
    connection: &Connection,
    objects: &[Object],
    own: &[Object],
) -> Result<Vec<Target>, RepairError> {
    let scratch = Connection::open_in_memory()?;
    let mut targets = Vec::new();
    for object in stated(connection)? {
        if object.kind != "table" {
            continue;
        }
        let name = object.name;
        let old = (objects.iter().find(|old| old.name == name))
            .or_else(|| objects.iter().find(|old| is_bit_apart(&old.name, &name)));
        let root = match old {
            Some(old) => Some(old.root),
            None => {
                let own = own.iter().find(|own| own.name == name).map(|own| own.root);
                own.filter(|root| objects.iter().all(|old| old.root != *root))
            }
        };
        let columns = columns(connection, &name)?;
        let is_index = is_without_rowid(connection, &name)?;
        let record = old
            .and_then(|old| old.sql.as_ref())
            .and_then(|sql| scratch.execute_batch(sql).ok())
            .and_then(|()| record(&scratch, &name).ok())
            .and_then(|names| {
                let place = |name: &String| columns.iter().position(|it| it.name == *name);
                names.iter().map(place).collect::<Option<Vec<_>>>()
            });
        let record = match record {
            Some(record) => record,
            None => {
                let names = self::record(connection, &name)?;
                let place = |name: &String| columns.iter().position(|it| it.name == *name);
                names.iter().filter_map(place).collect()
            }
        };
        let places = vec!["?"; columns.len()].join(", ");
        let names: Vec<String> = columns
            .iter()
            .map(|it| format!("\"{}\"", it.name))
            .collect();
        targets.push(Target {
            root,
            kind: if is_index { Kind::Index } else { Kind::Table },
            insert: format!(
                "INSERT OR IGNORE INTO \"{name}\" ({}) VALUES ({places})",
                names.join(", ")
            ),
            name,
            columns,
            record,
        });
    }
    Ok(targets)
}

fn is_without_rowid(connection: &Connection, table: &str) -> Result<bool, rusqlite::Error> {
    let sql = "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1";
    let found: Option<bool> = connection
        .query_row(sql, [table], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(false))
}

/// The names of a table's columns, in the order of the values of its records.
pub(super) fn record(connection: &Connection, table: &str) -> Result<Vec<String>, rusqlite::Error> {
    let sql = match is_without_rowid(connection, table)? {
        true => "SELECT name FROM pragma_table_xinfo(?1) ORDER BY pk = 0, pk, cid",
        false => "SELECT name FROM pragma_table_xinfo(?1) ORDER BY cid",
    };
    let mut statement = connection.prepare(sql)?;
    let names = statement.query_map([table], |row| row.get(0))?;
    names.collect()
}

fn columns(connection: &Connection, table: &str) -> Result<Vec<Column>, rusqlite::Error> {
    let without_rowid = is_without_rowid(connection, table)?;
    let sql = "SELECT name, upper(type), \"notnull\", dflt_value, pk FROM pragma_table_xinfo(?1) ORDER BY cid";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([table])?;
    let mut columns = Vec::new();
    let mut keys = 0;
    while let Some(row) = rows.next()? {
        let declared: String = row.get(1)?;
        let not_null: bool = row.get(2)?;
        let default: Option<String> = row.get(3)?;
        let in_key = row.get::<_, i64>(4)? > 0;
        keys += i32::from(in_key);
        let default = match (default, not_null) {
            (Some(text), _) => {
                connection.query_row(&format!("SELECT {text}"), [], |row| row.get(0))?
            }
            (None, false) => Value::Null,
            (None, true) => match &*declared {
                "TEXT" => Value::Text(String::new()),
                "BLOB" => Value::Blob(Vec::new()),
                _ => Value::Integer(0),
            },
        };
        columns.push(Column {
            name: row.get(0)?,
            is_rowid: in_key && !without_rowid && declared == "INTEGER",
            not_null: not_null || (in_key && without_rowid),
            declared,
            default,
        });
    }
    if keys > 1 {
        columns
            .iter_mut()
            .for_each(|column| column.is_rowid = false);
    }
    Ok(columns)
}

impl Target {
    /// The values of a row by columns, if each is of its column's type.
    pub(super) fn fit(&self, row: Row) -> Option<Vec<Value>> {
        // A record ends early where columns were added later, but never before its key.
        if row.values.len() > self.record.len() || row.values.is_empty() {
            return None;
        }
        let mut by_column: Vec<Option<Value>> = vec![None; self.columns.len()];
        for (value, place) in row.values.into_iter().zip(&self.record) {
            by_column[*place] = Some(value);
        }
        let both = self.columns.iter().zip(by_column);
        both.map(|(column, value)| {
            if column.is_rowid {
                return (value == Some(Value::Null)).then_some(Value::Integer(row.rowid));
            }
            let value = match value {
                Some(value) => value,
                None => column.default.clone(),
            };
            let fits = match (&value, &*column.declared) {
                (Value::Null, _) => !column.not_null,
                (Value::Integer(_), "INTEGER")
                | (Value::Text(_), "TEXT")
                | (Value::Blob(_), "BLOB") => true,
                (_, declared) => !matches!(declared, "INTEGER" | "TEXT" | "BLOB"),
            };
            fits.then_some(value)
        })
        .collect()
    }
}
