//! The tables, indexes and views of a file, as it describes them itself.
//!
//! **Invariant**: a description that cannot be read, or that SQLite does not take, is left out and stops nothing.

use std::collections::BTreeMap;

use rusqlite::Connection;
use rusqlite::types::Value;

use super::RepairError;
use super::target::record;
use super::walk::{Damage, Kind, Row, Walk};

/// A table, an index or a view, as the old file describes it.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) table: String,
    pub(super) root: u32,
    pub(super) sql: Option<String>,
}

/// What the old file says that it holds.
pub(super) fn objects(walk: &mut Walk<'_>) -> (Vec<Object>, Damage) {
    let mut objects = Vec::new();
    let mut invalid = 0;
    let done = walk.tree(1, Kind::Table, |row| {
        match object(row) {
            Some(object) => objects.push(object),
            None => invalid += 1,
        }
        Ok::<_, std::convert::Infallible>(())
    });
    let Ok(mut damage) = done;
    damage.rows += invalid;
    (objects, damage)
}

fn object(row: Row) -> Option<Object> {
    let mut values = row.values.into_iter();
    let mut text = || match values.next()? {
        Value::Text(text) => Some(text),
        _ => None,
    };
    let (kind, name, table) = (text()?, text()?, text()?);
    let Value::Integer(root) = values.next()? else {
        return None;
    };
    let sql = match values.next()? {
        Value::Text(sql) => Some(sql),
        Value::Null => None,
        _ => return None,
    };
    Some(Object {
        kind,
        name,
        table,
        root: u32::try_from(root).ok()?,
        sql,
    })
}

/// The same of a file that is whole.
pub(super) fn stated(connection: &Connection) -> Result<Vec<Object>, rusqlite::Error> {
    let sql = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(Object {
            kind: row.get(0)?,
            name: row.get(1)?,
            table: row.get(2)?,
            root: row.get(3)?,
            sql: row.get(4)?,
        })
    })?;
    rows.collect()
}

/// Whether all tables of one are in the other, with the same columns. Their descriptions may differ: a file of an older
/// format was changed, not made.
pub(super) fn holds_all(objects: &[Object], own: &[Object]) -> Result<bool, rusqlite::Error> {
    let (one, other) = (columns_of(objects)?, columns_of(own)?);
    Ok(other
        .iter()
        .all(|(table, columns)| one.get(table) == Some(columns)))
}

/// The names of the columns of each table.
fn columns_of(objects: &[Object]) -> Result<BTreeMap<String, Vec<String>>, rusqlite::Error> {
    let scratch = Connection::open_in_memory()?;
    let tables = objects.iter().filter(|object| object.kind == "table");
    let mut columns = BTreeMap::new();
    for table in tables.filter(|table| !table.name.starts_with("sqlite_")) {
        if let Some(sql) = &table.sql
            && scratch.execute_batch(sql).is_ok()
        {
            let mut names = record(&scratch, &table.name)?;
            names.sort();
            columns.insert(table.name.clone(), names);
        }
    }
    Ok(columns)
}

/// Tables that the new file does not have yet, with their indexes. One that cannot be made is no reason to stop.
pub(super) fn make_others(
    connection: &Connection,
    objects: &[Object],
    own: &[Object],
    is_older: bool,
) -> Result<(), RepairError> {
    let known = |name: &str| own.iter().any(|object| object.name == name);
    for kind in ["table", "index"] {
        for object in objects.iter().filter(|object| object.kind == kind) {
            let is_own = !is_older && (known(&object.table) || renamed(object, own));
            if is_own || object.name.starts_with("sqlite_") {
                continue;
            }
            let made = object.sql.as_ref().map(|sql| connection.execute_batch(sql));
            match made {
                Some(Err(error)) if sqlite::is_full(&error) => return Err(error.into()),
                Some(Err(error)) => {
                    tracing::warn!(name = object.name, %error, "a damaged description of a table is left out");
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// A name that differs from one of this version's tables by a single bit, and that is no table of its own.
fn renamed(object: &Object, own: &[Object]) -> bool {
    own.iter()
        .any(|table| is_bit_apart(&table.name, &object.name))
}

pub(super) fn is_bit_apart(one: &str, other: &str) -> bool {
    let bits = one
        .bytes()
        .zip(other.bytes())
        .map(|(a, b)| (a ^ b).count_ones());
    one.len() == other.len() && bits.sum::<u32>() == 1
}
