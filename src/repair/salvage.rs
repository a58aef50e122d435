//! What can be read of a damaged file goes into a new one, table by table.
//!
//! The new file has the tables that this version makes, and those that the old one had besides; a file of an older
//! format is salvaged as it is and brought to this one by whoever opens it. Indexes are made afresh.
//!
//! **Invariant**: a row goes over only if its values are of the types that its table declares.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::image::Image;
use super::objects::{Object, holds_all, make_others, objects, stated};
use super::target::{Target, targets};
use super::walk::{Damage, Kind, Walk};
use super::{Kind as File, RepairError};

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
    /// A page of any table may be as it was before the last commits.
    pub(super) is_stale: bool,
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

/// Reads the file at `from` into a new one at `into`.
///
/// # Errors
/// The new file cannot be written, or the old one not be read at all.
pub(super) fn salvage(from: &Path, into: &Path, file: &File) -> Result<Salvaged, RepairError> {
    let image = Image::open(from)?;
    let mut walk = Walk::new(&image);
    let (objects, schema_damage) = objects(&mut walk);
    let schema_is_damaged = !schema_damage.is_none();
    (file.make)(into)?;
    let own = Connection::open(into).and_then(|connection| stated(&connection))?;
    let is_older = !schema_is_damaged
        && (1..file.format).contains(&image.version())
        && !holds_all(&objects, &own)?;
    let (connection, own) = match is_older {
        true => (older_file(into, &image)?, own),
        false => emptied_file(into, &own, file)?,
    };
    make_others(&connection, &objects, &own, is_older)?;
    let targets = targets(&connection, &objects, &own)?;

    let mut filling = Filling {
        connection: &connection,
        waiting: 0,
    };
    sqlite::begin(&connection)?;
    let mut tables = BTreeMap::new();
    for target in &targets {
        tables.insert(target.name.clone(), filling.table(target, &mut walk)?);
    }
    let indexes = read_indexes(&mut walk, &objects, &mut tables, file.indexed)?;
    if walk.free() {
        for kind in [Kind::Table, Kind::Index] {
            filling.strays(kind, &targets, &mut tables, &mut walk)?;
        }
    }
    sqlite::commit(&connection)?;
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
                tracing::warn!(view = object.name, %error, "a view cannot be created again");
            }
        }
    }
    Ok(Salvaged {
        connection,
        tables,
        indexes,
        schema_is_damaged,
        is_stale: image.is_stale(),
        is_older,
    })
}

/// The new file that this version has made, without what it begins with: that is not what the old one holds. It also
/// has the tables that a file gets later, so that a damaged description of one is not taken over. Returns all that it has.
fn emptied_file(
    path: &Path,
    own: &[Object],
    file: &File,
) -> Result<(Connection, Vec<Object>), RepairError> {
    let connection = unflushed_file(path)?;
    for table in own.iter().filter(|own| own.kind == "table") {
        connection.execute(&format!("DELETE FROM \"{}\"", table.name), [])?;
    }
    (file.make_later)(&connection)?;
    let own = stated(&connection)?;
    Ok((connection, own))
}

/// A new file of the old one's format, without tables.
fn older_file(path: &Path, image: &Image) -> Result<Connection, RepairError> {
    super::remove(path)?;
    let connection = unflushed_file(path)?;
    let grows_only = image.page(1).is_none_or(|first| first[52..56] == [0; 4]);
    if !grows_only {
        connection.pragma_update(None, "auto_vacuum", "incremental")?;
    }
    connection.pragma_update(None, "user_version", image.version())?;
    Ok(connection)
}

/// It is of no use until it is complete, and flushed then.
fn unflushed_file(path: &Path) -> Result<Connection, RepairError> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "off")?;
    connection.pragma_update(None, "synchronous", "off")?;
    Ok(connection)
}

/// Counts the entries of every index that covers its table; those of `wanted` tables, where damaged, are the answer.
fn read_indexes(
    walk: &mut Walk<'_>,
    objects: &[Object],
    tables: &mut BTreeMap<String, Table>,
    wanted: &[&str],
) -> Result<HashMap<String, Vec<Vec<Value>>>, RepairError> {
    let mut indexes = HashMap::new();
    for object in objects.iter().filter(|object| object.kind == "index") {
        let Some(table) = tables.get_mut(&object.table) else {
            continue;
        };
        let sql = object.sql.as_ref();
        let is_whole = !sql.is_some_and(|sql| sql.contains(" WHERE "));
        let is_wanted = is_whole && !table.damage.is_none() && wanted.contains(&&*object.table);
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
    Ok(indexes)
}

/// What is wrong with a file that SQLite finds whole: rows that are not what their tables declare.
pub(super) fn invalid_rows(path: &Path) -> Result<u64, RepairError> {
    let image = Image::open(path)?;
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
pub(super) fn is_newer(path: &Path, file: &File, into: &Path) -> Result<bool, RepairError> {
    let image = Image::open(path)?;
    let (objects, damage) = objects(&mut Walk::new(&image));
    super::remove(into)?;
    (file.make)(into)?;
    let own = Connection::open(into).and_then(|connection| stated(&connection));
    super::remove(into)?;
    Ok(damage.is_none() && !holds_all(&objects, &own?)?)
}

/// Writes rows, many in one transaction.
struct Filling<'a> {
    connection: &'a Connection,
    waiting: u64,
}

impl Filling<'_> {
    /// Writes what the table's own tree holds.
    fn table(&mut self, target: &Target, walk: &mut Walk<'_>) -> Result<Table, RepairError> {
        let mut table = Table::default();
        let mut invalid = 0;
        let met = walk.met();
        let unreadable = Damage { pages: 1, rows: 0 };
        table.damage = match target.root {
            Some(root) => walk.tree(root, target.kind, |row| -> Result<(), RepairError> {
                match target.fit(row) {
                    Some(values) => table.kept += self.insert(target, values)?,
                    None => invalid += 1,
                }
                Ok(())
            })?,
            None => unreadable,
        };
        table.damage.rows += invalid;
        if table.kept == 0 && invalid > 0 {
            // Its root is the root of something else.
            walk.forget(met);
            table.damage = unreadable;
        }
        Ok(table)
    }

    /// Writes the rows of pages that no tree has met, if they fit a single one of the damaged tables: a wrong row is
    /// worse than one less.
    fn strays(
        &mut self,
        kind: Kind,
        targets: &[Target],
        tables: &mut BTreeMap<String, Table>,
        walk: &mut Walk<'_>,
    ) -> Result<(), RepairError> {
        let lacks_pages = |target: &&Target| {
            let table = tables.get(&target.name);
            target.kind == kind && table.is_some_and(|table| table.damage.pages > 0)
        };
        let damaged: Vec<&Target> = targets.iter().filter(lacks_pages).collect();
        if damaged.is_empty() {
            return Ok(());
        }
        walk.stray(kind, |row| {
            let mut fitting = damaged
                .iter()
                .filter_map(|target| Some((target, target.fit(row.clone())?)));
            if let (Some((target, values)), None) = (fitting.next(), fitting.next())
                && let Some(table) = tables.get_mut(&target.name)
            {
                table.kept += self.insert(target, values)?;
            }
            Ok(())
        })
    }

    /// How many rows that made: none if there is one of this key.
    fn insert(&mut self, target: &Target, values: Vec<Value>) -> Result<u64, rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(&target.insert)?;
        let made = statement.execute(params_from_iter(values))?;
        self.waiting += 1;
        if self.waiting.is_multiple_of(ROWS_IN_ONE) {
            sqlite::commit(self.connection)?;
            sqlite::begin(self.connection)?;
        }
        Ok(made as u64)
    }
}
