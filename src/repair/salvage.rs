//! What can be read of a damaged file goes into a new one, table by table.
//!
//! The new file has the tables that this version makes, and those that the old one had besides; a file of an older
//! format is salvaged as it is and brought to this one by whoever opens it. Indexes are made afresh.
//!
//! **Invariant**: a row goes over only if its values are of the types that its table declares.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::RepairError;
use super::image::Image;
use super::walk::{Damage, Kind, Row, Walk};

/// Rows between two commits.
const ROWS_IN_ONE: u64 = 50_000;

/// What became of a table.
#[derive(Debug, Default, Clone)]
pub(super) struct Table {
    /// Rows that are in the new file.
    pub(super) kept: u64,
    /// What could not be read.
    pub(super) damage: Damage,
    /// Rows that an index of the old file names, if one can be read whole.
    pub(super) known: Option<u64>,
}

impl Table {
    /// Rows that are missing, as far as that is known.
    pub(super) fn lost(&self) -> Option<u64> {
        match self.known {
            _ if self.damage.is_none() => Some(0),
            Some(known) => Some(known.saturating_sub(self.kept)),
            None if self.damage.pages == 0 => Some(self.damage.rows),
            None => None,
        }
    }
}

/// A new file with what was read.
pub(super) struct Salvaged {
    /// The new file, open, without a journal.
    pub(super) connection: Connection,
    /// What became of each table.
    pub(super) tables: BTreeMap<String, Table>,
    /// The entries of the old file's indexes that can be read whole, by table, for those that were asked for.
    pub(super) indexes: HashMap<String, Vec<Vec<Value>>>,
    /// What the old file said of its tables and indexes cannot be read whole.
    pub(super) schema_is_damaged: bool,
    /// It has an older format, and its tables are as that has them.
    pub(super) is_older: bool,
}

impl Salvaged {
    /// Whether anything of a table was damaged.
    pub(super) fn is_damaged(&self, table: &str) -> bool {
        let table = self.tables.get(table);
        table.is_some_and(|table| !table.damage.is_none())
    }
}

/// A table, an index or a view, as the old file describes it.
#[derive(Debug, Clone)]
struct Object {
    kind: String,
    name: String,
    table: String,
    root: u32,
    sql: Option<String>,
}

/// A table of the new file, and how its rows stand in the old one.
struct Target {
    name: String,
    root: Option<u32>,
    kind: Kind,
    columns: Vec<Column>,
    /// The column of each value of a record.
    record: Vec<usize>,
    insert: String,
}

struct Column {
    name: String,
    declared: String,
    not_null: bool,
    /// It is the rowid.
    is_rowid: bool,
    /// Stands where a record ends early, because the column came later.
    default: Value,
}

/// How a file is read.
pub(super) struct Plan<'a> {
    /// Stands in `PRAGMA user_version` of what this version makes.
    pub(super) format: i64,
    /// Makes an empty file of this version.
    pub(super) make: &'a dyn Fn(&Path) -> Result<(), RepairError>,
    /// Tables whose index entries are wanted if the table is damaged.
    pub(super) indexed: &'a [&'a str],
}

/// Reads the file at `from` into a new one at `into`.
///
/// # Errors
/// The new file cannot be written, or the old one not be read at all.
pub(super) fn salvage(from: &Path, into: &Path, plan: &Plan<'_>) -> Result<Salvaged, RepairError> {
    let image = Image::open(from).map_err(|reason| RepairError::file(from, reason))?;
    let mut walk = Walk::new(&image);
    let (objects, schema_damage) = objects(&mut walk);
    (plan.make)(into)?;
    let mut connection = Connection::open(into)?;
    let own = stated(&connection)?;
    let version = image.page(1).map_or(0, |first| {
        i64::from(i32::from_be_bytes([
            first[60], first[61], first[62], first[63],
        ]))
    });
    let is_older = schema_damage.is_none()
        && (1..plan.format).contains(&version)
        && !holds_all(&objects, &own)?;
    if is_older {
        drop(connection);
        super::remove(into)?;
        connection = Connection::open(into)?;
    }
    connection.pragma_update(None, "journal_mode", "off")?;
    connection.pragma_update(None, "synchronous", "off")?;
    if is_older {
        let grows_only = image.page(1).is_none_or(|first| first[52..56] == [0; 4]);
        if !grows_only {
            connection.pragma_update(None, "auto_vacuum", "incremental")?;
        }
        connection.pragma_update(None, "user_version", version)?;
    }
    for table in own.iter().filter(|own| own.kind == "table" && !is_older) {
        // What a new file begins with is not what the old one holds.
        connection.execute(&format!("DELETE FROM \"{}\"", table.name), [])?;
    }
    make_others(&connection, &objects, &own, is_older)?;
    let targets = targets(&connection, &objects, &own)?;

    let mut filling = Filling {
        connection: &connection,
        waiting: 0,
    };
    filling.begin()?;
    let mut tables = BTreeMap::new();
    for target in &targets {
        let mut table = Table::default();
        let mut unfit = 0;
        let met = walk.met();
        table.damage = match target.root {
            Some(root) => walk.tree(root, target.kind, |row| -> Result<(), RepairError> {
                match target.fit(row) {
                    Some(values) => table.kept += filling.insert(target, values)?,
                    None => unfit += 1,
                }
                Ok(())
            })?,
            None => Damage { pages: 1, rows: 0 },
        };
        table.damage.rows += unfit;
        if table.kept == 0 && unfit > 0 {
            // Its root is the root of something else.
            walk.forget(met);
            table.damage = Damage { pages: 1, rows: 0 };
        }
        tables.insert(target.name.clone(), table);
    }
    let mut indexes = HashMap::new();
    for object in objects.iter().filter(|object| object.kind == "index") {
        let Some(table) = tables.get_mut(&object.table) else {
            continue;
        };
        let is_whole = !object
            .sql
            .as_ref()
            .is_some_and(|sql| sql.contains(" WHERE "));
        let is_wanted =
            is_whole && !table.damage.is_none() && plan.indexed.contains(&&*object.table);
        let (mut count, mut entries) = (0, Vec::new());
        let damage = walk.tree(object.root, Kind::Index, |row| {
            count += 1;
            if is_wanted {
                entries.push(row.values);
            }
            Ok::<_, RepairError>(())
        })?;
        if is_whole && damage.is_none() {
            table.known = table.known.max(Some(count));
            if is_wanted {
                indexes.insert(object.name.clone(), entries);
            }
        }
    }
    let free_is_known = walk.free();
    for kind in [Kind::Table, Kind::Index] {
        let damaged: Vec<&Target> = targets
            .iter()
            .filter(|target| target.kind == kind)
            .filter(|target| {
                tables
                    .get(&target.name)
                    .is_some_and(|it| it.damage.pages > 0)
            })
            .collect();
        if damaged.is_empty() || !free_is_known {
            continue;
        }
        walk.stray(kind, |row| -> Result<(), RepairError> {
            let mut fitting = damaged
                .iter()
                .filter_map(|target| Some((target, target.fit(row.clone())?)));
            // What fits two tables is left: a wrong row is worse than one less.
            if let (Some((target, values)), None) = (fitting.next(), fitting.next())
                && let Some(table) = tables.get_mut(&target.name)
            {
                table.kept += filling.insert(target, values)?;
            }
            Ok(())
        })?;
    }
    filling.commit()?;
    if tables.contains_key("sqlite_sequence") {
        // Filling counts there, too.
        connection.execute(
            "DELETE FROM sqlite_sequence AS one WHERE EXISTS (SELECT 1 FROM sqlite_sequence other
                 WHERE other.name = one.name AND (other.seq, other.rowid) > (one.seq, one.rowid))",
            [],
        )?;
    }
    if is_older {
        for object in objects.iter().filter(|object| object.kind == "view") {
            let made = object.sql.as_ref().map(|sql| connection.execute_batch(sql));
            if let Some(Err(error)) = made {
                tracing::warn!(view = object.name, %error, "a view cannot be made again");
            }
        }
    }
    Ok(Salvaged {
        connection,
        tables,
        indexes,
        schema_is_damaged: !schema_damage.is_none(),
        is_older,
    })
}

/// What is wrong with a file that SQLite finds whole: rows that are not what their tables declare.
pub(super) fn misfits(path: &Path) -> Result<u64, RepairError> {
    let image = Image::open(path).map_err(|reason| RepairError::file(path, reason))?;
    let mut walk = Walk::new(&image);
    let (objects, damage) = objects(&mut walk);
    let mut bad = damage.pages + damage.rows;
    let scratch = Connection::open_in_memory()?;
    make_others(&scratch, &objects, &[], false)?;
    for target in targets(&scratch, &objects, &[])? {
        let Some(root) = target.root else {
            continue;
        };
        let found = walk.tree(root, target.kind, |row| {
            bad += u64::from(target.fit(row).is_none());
            Ok::<_, RepairError>(())
        })?;
        bad += found.pages + found.rows;
    }
    Ok(bad)
}

/// Whether a file has a newer format, and not only a bit that says so.
pub(super) fn is_newer(path: &Path, plan: &Plan<'_>, into: &Path) -> Result<bool, RepairError> {
    let image = Image::open(path).map_err(|reason| RepairError::file(path, reason))?;
    let (objects, damage) = objects(&mut Walk::new(&image));
    super::remove(into)?;
    (plan.make)(into)?;
    let own = Connection::open(into).and_then(|connection| stated(&connection));
    super::remove(into)?;
    Ok(damage.is_none() && !holds_all(&objects, &own?)?)
}

/// What the old file says that it holds.
fn objects(walk: &mut Walk<'_>) -> (Vec<Object>, Damage) {
    let mut objects = Vec::new();
    let mut unfit = 0;
    let done = walk.tree(1, Kind::Table, |row| {
        match object(row) {
            Some(object) => objects.push(object),
            None => unfit += 1,
        }
        Ok::<_, std::convert::Infallible>(())
    });
    let Ok(mut damage) = done;
    damage.rows += unfit;
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
fn stated(connection: &Connection) -> Result<Vec<Object>, rusqlite::Error> {
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
fn holds_all(objects: &[Object], own: &[Object]) -> Result<bool, rusqlite::Error> {
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
fn make_others(
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
                Some(Err(error)) if crate::sqlite::is_full(&error) => return Err(error.into()),
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

fn is_bit_apart(one: &str, other: &str) -> bool {
    let bits = one
        .bytes()
        .zip(other.bytes())
        .map(|(a, b)| (a ^ b).count_ones());
    one.len() == other.len() && bits.sum::<u32>() == 1
}

/// Every table of the new file. Where the old one cannot say where it is, it is where this version puts it.
fn targets(
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
fn record(connection: &Connection, table: &str) -> Result<Vec<String>, rusqlite::Error> {
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
    fn fit(&self, row: Row) -> Option<Vec<Value>> {
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

/// Writes rows, many in one transaction.
struct Filling<'a> {
    connection: &'a Connection,
    waiting: u64,
}

impl Filling<'_> {
    fn begin(&self) -> Result<(), rusqlite::Error> {
        self.connection.execute_batch("BEGIN IMMEDIATE")
    }

    fn commit(&self) -> Result<(), rusqlite::Error> {
        self.connection.execute_batch("COMMIT")
    }

    /// How many rows that made: none if there is one of this key.
    fn insert(&mut self, target: &Target, values: Vec<Value>) -> Result<u64, rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(&target.insert)?;
        let made = statement.execute(params_from_iter(values))?;
        self.waiting += 1;
        if self.waiting.is_multiple_of(ROWS_IN_ONE) {
            self.commit()?;
            self.begin()?;
        }
        Ok(made as u64)
    }
}
