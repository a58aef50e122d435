//! What a transaction changes of a file, noted by triggers that only its connection has, and read before it commits.
//!
//! Three temporary triggers for each table note table and key of each row that is inserted, updated or deleted, in a
//! temporary table. What is rolled back is forgotten with it: both are part of the same transaction.
//!
//! **Invariant**: what [`Recorder::take`] returns makes of the file as it was before the transaction the file as it is now.

use std::collections::BTreeMap;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::encoding::{ChangeWriter, FileChange};
use super::tables::{self, KEY_COLUMNS_MAX, NOTES, Schema, SchemaObject, TableShape, quoted};
use super::{OWN_TABLE, ReplicaFile};

/// Records what the one writing connection of a file changes. The triggers are of this connection, so any other writer
/// of the file would be missed.
#[derive(Debug)]
pub struct Recorder {
    pub(super) file: ReplicaFile,
    /// What the triggers are for.
    pub(super) schema: Schema,
}

/// What of a file has been made otherwise.
#[derive(Default)]
struct SchemaChange<'a> {
    dropped: Vec<(bool, &'a str)>,
    made: Vec<&'a str>,
    /// Tables that were made: all that they have is new.
    tables: Vec<&'a str>,
}

impl Recorder {
    /// Begins to record what `connection` changes, which is in no transaction. The file gets a table for its place.
    /// Triggers are recursive from then on, otherwise REPLACE would delete rows that nothing notes.
    ///
    /// # Errors
    /// SQLite's.
    pub fn attach(connection: &Connection, file: ReplicaFile) -> Result<Self, rusqlite::Error> {
        // Without this REPLACE deletes rows unseen.
        connection.pragma_update(None, "recursive_triggers", true)?;
        let columns = (1..=KEY_COLUMNS_MAX).map(|number| format!("k{number}"));
        let columns = columns.collect::<Vec<_>>().join(", ");
        connection.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS main.{OWN_TABLE} (one INTEGER PRIMARY KEY, n INTEGER NOT NULL, digest BLOB NOT NULL);
             CREATE TEMP TABLE IF NOT EXISTS {NOTES} (t, {columns}, PRIMARY KEY (t, {columns})) WITHOUT ROWID;"
        ))?;
        let mut recorder = Self {
            file,
            schema: Schema::default(),
        };
        recorder.prepare(connection)?;
        Ok(recorder)
    }

    /// Before each transaction: tables that were made meanwhile are recorded from now on. Costs one statement if
    /// there are none, because the schema has a number that changes with it.
    ///
    /// # Errors
    /// SQLite's.
    pub fn prepare(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        if tables::version(connection)? == self.schema.version {
            return Ok(());
        }
        let now = Schema::load(connection)?;
        if now.tables != self.schema.tables {
            record(connection, &now.tables)?;
        }
        self.schema = now;
        Ok(())
    }

    /// What the open transaction has changed so far; none: nothing. It is forgotten then. Call it last before the
    /// commit: what changes afterwards would be in the file and not in the log.
    ///
    /// # Errors
    /// SQLite's.
    pub fn take(&self, connection: &Connection) -> Result<Option<FileChange>, rusqlite::Error> {
        let mut schema = &self.schema;
        let now;
        let mut made = SchemaChange::default();
        if tables::version(connection)? != schema.version {
            now = Schema::load(connection)?;
            made = difference(&self.schema.objects, &now.objects);
            schema = &now;
        }
        let mut changed = self.changed(connection)?;
        changed.extend(made.tables.iter().map(|name| (*name, None)));
        changed.retain(|name, _| schema.tables.contains_key(*name));
        if changed.is_empty() && made.dropped.is_empty() && made.made.is_empty() {
            return Ok(None);
        }
        let mut writer = ChangeWriter::default();
        writer.number(sqlite::format(connection)?.unsigned_abs());
        writer.number(made.dropped.len() as u64);
        for (is_table, name) in made.dropped {
            writer.dropped(is_table, name);
        }
        writer.number(made.made.len() as u64);
        for sql in made.made {
            writer.name(sql);
        }
        writer.number(changed.len() as u64);
        for (name, noted) in changed {
            if let Some(shape) = schema.tables.get(name) {
                write_table(connection, &mut writer, schema, (name, shape), noted)?;
            }
        }
        forget(connection)?;
        Ok(Some(FileChange(writer.0)))
    }

    /// The tables of which something was noted, and what under.
    fn changed(
        &self,
        connection: &Connection,
    ) -> Result<BTreeMap<&str, Option<i64>>, rusqlite::Error> {
        let mut noted = connection.prepare_cached("SELECT DISTINCT t FROM temp.replica_notes")?;
        let noted = noted.query_map([], |row| row.get(0))?;
        let noted = noted.collect::<Result<Vec<i64>, _>>()?;
        let tables = self.schema.tables.iter();
        let changed = tables.filter(|(_, shape)| noted.contains(&shape.id));
        let changed = changed.map(|(name, shape)| (name.as_str(), Some(shape.id)));
        Ok(changed.collect())
    }
}

pub(super) fn forget(connection: &Connection) -> Result<(), rusqlite::Error> {
    sqlite::execute(connection, "DELETE FROM temp.replica_notes")
}

/// Makes the triggers, in place of those that there are. They are temporary, so that a file that is opened without a
/// log has none.
fn record(
    connection: &Connection,
    tables: &BTreeMap<String, TableShape>,
) -> Result<(), rusqlite::Error> {
    let sql = "SELECT name FROM temp.sqlite_schema WHERE type = 'trigger' AND name LIKE 'replica\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(sql)?;
    let before = statement.query_map([], |row| row.get(0))?;
    let mut batch = String::from("SAVEPOINT replica;");
    for name in before.collect::<Result<Vec<String>, _>>()? {
        batch.push_str(&format!("DROP TRIGGER temp.{};", quoted(&name)));
    }
    for (name, shape) in tables {
        batch.push_str(&triggers(name, shape));
    }
    batch.push_str("RELEASE replica;");
    connection.execute_batch(&batch)
}

/// They say `ON CONFLICT DO NOTHING`, because `OR IGNORE` would follow the rule of the statement that fires them.
fn triggers(name: &str, shape: &TableShape) -> String {
    let id = shape.id;
    // A row of a table without a key changes the whole table.
    let key = |row: &str| -> Vec<String> {
        let key = shape.columns.iter().take(shape.key);
        key.map(|column| format!("{row}.{}", quoted(column)))
            .collect()
    };
    let note = |row: &str| {
        let mut values = key(row);
        values.resize(KEY_COLUMNS_MAX, "0".to_owned());
        format!("INSERT INTO {NOTES} SELECT {id}, {} ", values.join(", "))
    };
    let trigger = |event: &str, notes: &str| {
        format!(
            "CREATE TEMP TRIGGER replica_{event}_{id} AFTER {event} ON main.{} BEGIN {notes} END;",
            quoted(name)
        )
    };
    // `OR IGNORE` would take the rule of the statement that fires the trigger; an upsert has its own. SQLite reads `ON`
    // behind a SELECT as part of a join, unless there is a WHERE.
    let new = format!("{}WHERE true ON CONFLICT DO NOTHING;", note("NEW"));
    let old = format!("{}WHERE true ON CONFLICT DO NOTHING;", note("OLD"));
    let moved = key("OLD")
        .iter()
        .zip(key("NEW"))
        .map(|(old, new)| format!("{old} IS NOT {new}"))
        .collect::<Vec<_>>()
        .join(" OR ");
    let moved = match moved.is_empty() {
        true => String::new(),
        false => format!("{}WHERE {moved} ON CONFLICT DO NOTHING;", note("OLD")),
    };
    [
        trigger("INSERT", &new),
        trigger("UPDATE", &format!("{new}{moved}")),
        trigger("DELETE", &old),
    ]
    .concat()
}

/// What is to be dropped and made. A table that is made otherwise is dropped and made, with its indexes.
fn difference<'a>(
    before: &'a BTreeMap<String, SchemaObject>,
    now: &'a BTreeMap<String, SchemaObject>,
) -> SchemaChange<'a> {
    let is_kept = |name: &str| {
        before
            .get(name)
            .is_some_and(|one| now.get(name) == Some(one))
    };
    let mut change = SchemaChange::default();
    for (name, object) in before {
        if !is_kept(name) && (object.is_table || is_kept(&object.table)) {
            change.dropped.push((object.is_table, name));
        }
    }
    let tables = now.iter().filter(|(_, object)| object.is_table);
    for (name, object) in tables.filter(|(name, _)| !is_kept(name)) {
        change.made.push(&object.sql);
        change.tables.push(name);
    }
    for (name, object) in now.iter().filter(|(_, object)| !object.is_table) {
        if !is_kept(name) || !is_kept(&object.table) {
            change.made.push(&object.sql);
        }
    }
    change
}

/// Writes what was `noted` of a table; all of it if it is new or has no key.
fn write_table(
    connection: &Connection,
    writer: &mut ChangeWriter,
    schema: &Schema,
    (name, shape): (&str, &TableShape),
    noted: Option<i64>,
) -> Result<(), rusqlite::Error> {
    let sequence = match schema.has_sequences {
        true => sequence(connection, name)?,
        false => None,
    };
    let key = if noted.is_some() { shape.key } else { 0 };
    writer.table(name, &shape.columns, key, sequence);
    let all;
    let sql = match noted {
        Some(_) => &shape.changed,
        None => {
            all = shape.all(name);
            &all
        }
    };
    let mut statement = connection.prepare_cached(sql)?;
    if key > 0 {
        statement.raw_bind_parameter(1, noted)?;
    }
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let mut values = key..key + shape.columns.len();
        // No column of a key is NULL but of the row that is missing.
        if key > 0 && row.get_ref(key)? == ValueRef::Null {
            writer.gone();
            values = 0..key;
        } else {
            writer.row();
        }
        for at in values {
            writer.value(row.get_ref(at)?);
        }
    }
    writer.end();
    Ok(())
}

/// The last number that a table gave, if it never gives one twice.
fn sequence(connection: &Connection, name: &str) -> Result<Option<i64>, rusqlite::Error> {
    let sql = "SELECT max(seq) FROM main.sqlite_sequence WHERE name = ?1";
    connection
        .prepare_cached(sql)?
        .query_row([name], |row| row.get(0))
}
