//! Applies entries of the log to a copy.
//!
//! **Invariant**: an entry is applied to the file that it follows on, and that has the tables and columns which it names, or
//! not at all.

use std::collections::BTreeSet;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, params};
use thiserror::Error;

use super::encoding::{ChangeReader, MalformedChange, RowChange, TableChange, part_of};
use super::recorder::forget;
use super::tables::{self, Schema, quoted};
use super::{LogPlace, Recorder};

/// Why an entry cannot be applied. The transaction must be rolled back.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// The copy is not what the entry was made of. It is of no use: take a new one.
    #[error("the copy does not fit the log: {0}")]
    DoesNotFit(String),
    /// The same, and the log has another entry than the copy: it has lost one.
    #[error("the copy does not fit the log: {0}")]
    OtherEntry(String),
    /// A newer version has written the entry.
    #[error("{0}")]
    Newer(#[from] sqlite::Newer),
    #[error("{0}")]
    File(rusqlite::Error),
}

impl From<rusqlite::Error> for ApplyError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error::{MultipleStatement, SqlInputError};
        let does_not_fit = matches!(error, SqlInputError { .. } | MultipleStatement)
            || matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::Unknown)
            );
        match does_not_fit {
            true => Self::DoesNotFit(error.to_string()),
            false => Self::File(error),
        }
    }
}

impl From<MalformedChange> for ApplyError {
    fn from(malformed: MalformedChange) -> Self {
        Self::DoesNotFit(malformed.to_string())
    }
}

#[derive(Debug, Clone, Copy)]
pub struct LogEntry<'a> {
    /// Where a file is that has it.
    pub place: LogPlace,
    pub change: &'a [u8],
}

/// What an entry has done to a file.
#[derive(Debug)]
pub struct AppliedEntry {
    /// Where the file is now.
    pub place: LogPlace,
    /// The tables that it concerned: what is derived from them in memory is to be loaded anew.
    pub tables: Vec<TouchedTable>,
}

/// A table that an entry has changed rows of. Scopes are kept, so that memory of one stream is loaded again and not
/// that of all.
#[derive(Debug, PartialEq, Eq)]
pub struct TouchedTable {
    pub name: String,
    /// Where several columns name a row and the first is a text, such as a stream or a sink: its values.
    pub scopes: BTreeSet<String>,
}

impl Recorder {
    /// Applies the entry that follows on `place`, in the open transaction of the copy. What the transaction itself
    /// has changed before is not recorded any more. Of an entry that does not concern the file nothing is stored, not
    /// even its place: [`LogPlace::store`] it now and then. Otherwise each entry of the pool would write a page of
    /// the catalog, and the other way round.
    ///
    /// # Errors
    /// See [`ApplyError`].
    pub fn apply(
        &self,
        connection: &Connection,
        place: LogPlace,
        entry: &LogEntry<'_>,
    ) -> Result<AppliedEntry, ApplyError> {
        let next = place.after(entry.change);
        if entry.place.n != next.n {
            let (found, expected) = (entry.place.n, next.n);
            let reason = format!("entry {expected} should follow, not {found}");
            return Err(ApplyError::DoesNotFit(reason));
        }
        if entry.place.digest != next.digest {
            let reason = format!("entry {} has another digest than the log says", next.n);
            return Err(ApplyError::OtherEntry(reason));
        }
        let mut tables = Vec::new();
        if let Some(part) = part_of(entry.change, self.file)? {
            tables = self.apply_part(connection, part)?;
            next.store(connection)?;
            forget(connection)?;
        }
        Ok(AppliedEntry {
            place: next,
            tables,
        })
    }

    fn apply_part(
        &self,
        connection: &Connection,
        part: &[u8],
    ) -> Result<Vec<TouchedTable>, ApplyError> {
        let mut reader = ChangeReader(part);
        compare_formats(connection, reader.number()?)?;
        for _ in 0..reader.length()? {
            let (is_table, name) = reader.dropped()?;
            let kind = if is_table { "TABLE" } else { "INDEX" };
            connection.execute_batch(&format!("DROP {kind} main.{}", quoted(name)))?;
        }
        for _ in 0..reader.length()? {
            make(connection, reader.name()?)?;
        }
        let now;
        let schema = match tables::version(connection)? == self.schema.version {
            true => &self.schema,
            false => {
                now = Schema::load(connection)?;
                &now
            }
        };
        let mut touched = Vec::new();
        for _ in 0..reader.length()? {
            let table = reader.table()?;
            check_columns(schema, &table)?;
            touched.push(apply_table(connection, &table, &mut reader)?);
        }
        match reader.0.is_empty() {
            true => Ok(touched),
            false => Err(MalformedChange("something follows its end").into()),
        }
    }
}

/// Of a newer format the version is to blame, and of an older one the copy, so the errors differ.
fn compare_formats(connection: &Connection, format: u64) -> Result<(), ApplyError> {
    let known = sqlite::format(connection)?;
    let found = i64::try_from(format).unwrap_or(i64::MAX);
    if found > known {
        return Err(sqlite::Newer { found, known }.into());
    }
    if found < known {
        let reason = format!("the copy has format {known}, the entry {found}");
        return Err(ApplyError::DoesNotFit(reason));
    }
    Ok(())
}

/// Makes a table or an index, as SQLite has noted its statement. Any other statement is refused, because the entry
/// comes from another node.
fn make(connection: &Connection, sql: &str) -> Result<(), ApplyError> {
    let begins = ["CREATE TABLE ", "CREATE INDEX ", "CREATE UNIQUE INDEX "];
    if !begins.iter().any(|begin| sql.starts_with(begin)) {
        return Err(MalformedChange("it makes what is no table and no index").into());
    }
    connection.prepare(sql)?.execute([])?;
    Ok(())
}

/// A copy with other columns would fill them with defaults. Their order may differ, because a column that was added
/// later is last in an upgraded file.
fn check_columns(schema: &Schema, table: &TableChange<'_>) -> Result<(), ApplyError> {
    let Some(shape) = schema.tables.get(table.name) else {
        let reason = format!("it has no table {}", table.name);
        return Err(ApplyError::DoesNotFit(reason));
    };
    let mut columns: Vec<&str> = shape.columns.iter().map(String::as_str).collect();
    let has_key = table.key == 0 || table.key == shape.key;
    if has_key && columns == table.columns {
        return Ok(());
    }
    let has_key = has_key && columns.get(..table.key) == table.columns.get(..table.key);
    let mut named = table.columns.clone();
    columns.sort_unstable();
    named.sort_unstable();
    match has_key && columns == named {
        true => Ok(()),
        false => Err(ApplyError::DoesNotFit(format!(
            "its table {} has other columns",
            table.name
        ))),
    }
}

/// First all keys go, then all rows come: what is unique beside the key may have changed places. Otherwise a constraint
/// would fail while both rows are there.
fn apply_table(
    connection: &Connection,
    table: &TableChange<'_>,
    reader: &mut ChangeReader<'_>,
) -> Result<TouchedTable, ApplyError> {
    let rows = *reader;
    let scopes = delete_keys(connection, table, reader)?;
    insert_rows(connection, table, rows)?;
    if let Some(sequence) = table.sequence {
        set_sequence(connection, table.name, sequence)?;
    }
    Ok(TouchedTable {
        name: table.name.to_owned(),
        scopes,
    })
}

/// Deletes every row that is named, also those that come again. Returns the scopes that they are of.
fn delete_keys(
    connection: &Connection,
    table: &TableChange<'_>,
    reader: &mut ChangeReader<'_>,
) -> Result<BTreeSet<String>, ApplyError> {
    let name = quoted(table.name);
    let key = table.columns.iter().take(table.key);
    let key: Vec<String> = key
        .map(|column| format!("{} = ?", quoted(column)))
        .collect();
    let sql = match key.is_empty() {
        true => format!("DELETE FROM main.{name}"),
        false => format!("DELETE FROM main.{name} WHERE {}", key.join(" AND ")),
    };
    let mut delete = connection.prepare_cached(&sql)?;
    if key.is_empty() {
        delete.raw_execute()?;
    }
    let mut scopes = BTreeSet::new();
    loop {
        let rest = match reader.row(table)? {
            RowChange::End => return Ok(scopes),
            RowChange::Gone => 0,
            RowChange::Row => table.columns.len() - table.key,
        };
        for at in 1..=table.key {
            let value = reader.value()?;
            if at == 1 && table.key > 1 {
                note_scope(&mut scopes, value);
            }
            delete.raw_bind_parameter(at, ToSqlOutput::Borrowed(value))?;
        }
        if table.key > 0 {
            delete.raw_execute()?;
        }
        reader.skip(rest)?;
    }
}

fn insert_rows(
    connection: &Connection,
    table: &TableChange<'_>,
    mut rows: ChangeReader<'_>,
) -> Result<(), ApplyError> {
    let columns: Vec<String> = table.columns.iter().map(|column| quoted(column)).collect();
    let places = vec!["?"; columns.len()].join(", ");
    let (name, list) = (quoted(table.name), columns.join(", "));
    let sql = format!("INSERT INTO main.{name} ({list}) VALUES ({places})");
    let mut insert = connection.prepare_cached(&sql)?;
    loop {
        match rows.row(table)? {
            RowChange::End => return Ok(()),
            RowChange::Gone => rows.skip(table.key)?,
            RowChange::Row => {
                for at in 1..=columns.len() {
                    let value = ToSqlOutput::Borrowed(rows.value()?);
                    insert.raw_bind_parameter(at, value)?;
                }
                insert.raw_execute()?;
            }
        }
    }
}

fn note_scope(scopes: &mut BTreeSet<String>, value: ValueRef<'_>) {
    if let ValueRef::Text(bytes) = value
        && let Ok(text) = std::str::from_utf8(bytes)
        && !scopes.contains(text)
    {
        scopes.insert(text.to_owned());
    }
}

/// The numbers of a table go on where the other file's do, because a number that is given twice would name two rows.
fn set_sequence(connection: &Connection, name: &str, sequence: i64) -> Result<(), rusqlite::Error> {
    let sql = "UPDATE main.sqlite_sequence SET seq = ?2 WHERE name = ?1";
    if connection
        .prepare_cached(sql)?
        .execute(params![name, sequence])?
        == 0
    {
        let sql = "INSERT INTO main.sqlite_sequence (name, seq) VALUES (?1, ?2)";
        connection
            .prepare_cached(sql)?
            .execute(params![name, sequence])?;
    }
    Ok(())
}
