//! What a file has of tables and indexes, and which columns name a row.
//!
//! **Invariant**: every ordinary table is there but [`OWN_TABLE`]. A table whose rows nothing names for certain has no key,
//! and is carried whole.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::OWN_TABLE;

/// Columns that the key of a table has at most; one with more is carried whole.
pub(super) const KEY_COLUMNS_MAX: usize = 4;
/// The temporary table of what the open transaction has changed: table and key.
pub(super) const NOTES: &str = "replica_notes";

/// What a file has at one moment.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) version: i64,
    /// Tables and indexes by name.
    pub(super) objects: BTreeMap<String, SchemaObject>,
    pub(super) tables: BTreeMap<String, TableShape>,
    /// The file has tables that never give a number twice.
    pub(super) has_sequences: bool,
}

/// A table or an index as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SchemaObject {
    pub(super) is_table: bool,
    /// The table that an index is of.
    pub(super) table: String,
    pub(super) sql: String,
}

/// The columns of a table, those of the key first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TableShape {
    /// What its rows are noted under.
    pub(super) id: i64,
    pub(super) columns: Vec<String>,
    /// So many name a row; 0: the table is carried whole.
    pub(super) key: usize,
    /// Reads what was noted of it: the key, then the row as it is now. Of one without a key it reads all rows.
    pub(super) changed: String,
}

impl Schema {
    pub(super) fn load(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut schema = Self {
            version: version(connection)?,
            ..Self::default()
        };
        let sql = "SELECT type = 'table', name, tbl_name, sql FROM main.sqlite_schema WHERE type IN ('table', 'index')";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(1)?;
            schema.has_sequences |= name == "sqlite_sequence";
            let object = SchemaObject {
                is_table: row.get(0)?,
                table: row.get(2)?,
                // What SQLite makes by itself has none.
                sql: row.get::<_, Option<_>>(3)?.unwrap_or_default(),
            };
            let is_own = object.table == OWN_TABLE;
            if !is_own && !object.sql.is_empty() && !name.starts_with("sqlite_") {
                schema.objects.insert(name, object);
            }
        }
        let tables = schema.objects.iter().filter(|(_, one)| one.is_table);
        for (id, (name, _)) in (1..).zip(tables) {
            let shape = TableShape::load(connection, id, name)?;
            schema.tables.insert(name.clone(), shape);
        }
        Ok(schema)
    }
}

/// SQLite's number of what the file has. It costs less than reading the schema, so it is asked before each transaction.
pub(super) fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    let mut statement = connection.prepare_cached("PRAGMA main.schema_version")?;
    statement.query_row([], |row| row.get(0))
}

impl TableShape {
    /// A column of the key that can be NULL names no row, because two NULLs are not equal.
    fn load(connection: &Connection, id: i64, name: &str) -> Result<Self, rusqlite::Error> {
        // Hidden columns are computed.
        let sql = "SELECT name, \"notnull\", pk, lower(type) FROM pragma_table_xinfo(?1, 'main') WHERE hidden = 0
             ORDER BY pk = 0, pk, cid";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query([name])?;
        let mut columns = Vec::new();
        let (mut key, mut is_certain, mut is_number) = (0, true, false);
        while let Some(row) = rows.next()? {
            columns.push(row.get(0)?);
            if row.get::<_, i64>(2)? > 0 {
                key += 1;
                is_certain &= row.get::<_, bool>(1)?;
                is_number = key == 1 && row.get::<_, String>(3)? == "integer";
            }
        }
        // Keys are compared byte by byte here. The number of a row has no index, and is never missing.
        let sql = "SELECT count(*), coalesce(sum(coll <> 'BINARY'), 0)
             FROM pragma_index_list(?1, 'main') AS list, pragma_index_xinfo(list.name, 'main') AS part
             WHERE list.origin = 'pk' AND part.\"key\"";
        let mut statement = connection.prepare_cached(sql)?;
        let (indexed, folded): (i64, i64) =
            statement.query_row(params![name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let is_number = is_number && indexed == 0;
        let names_rows = (is_certain && folded == 0) || is_number;
        let key = if names_rows && key <= KEY_COLUMNS_MAX {
            key
        } else {
            0
        };
        Ok(Self {
            id,
            changed: changed(name, &columns, key),
            columns,
            key,
        })
    }

    /// The statement that reads all rows.
    pub(super) fn all(&self, name: &str) -> String {
        changed(name, &self.columns, 0)
    }
}

fn changed(name: &str, columns: &[String], key: usize) -> String {
    let table = quoted(name);
    let of = |prefix: &str, columns: &[String]| {
        let quoted = columns
            .iter()
            .map(|column| format!("{prefix}{}", quoted(column)));
        quoted.collect::<Vec<_>>().join(", ")
    };
    if key == 0 {
        return format!("SELECT {} FROM main.{table}", of("", columns));
    }
    let numbered = (1..=key).map(|number| format!("noted.k{number}"));
    let numbered: Vec<String> = numbered.collect();
    let pairs = numbered.iter().zip(columns);
    let pairs = pairs.map(|(noted, column)| format!("now.{} = {noted}", quoted(column)));
    format!(
        "SELECT {}, {} FROM temp.{NOTES} AS noted LEFT JOIN main.{table} AS now ON {} WHERE noted.t = ?1",
        numbered.join(", "),
        of("now.", columns),
        pairs.collect::<Vec<_>>().join(" AND ")
    )
}

/// A name as SQL has it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
