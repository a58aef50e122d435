//! Recorders on files of the real formats, and copies that follow them.

mod encoded;
mod every_table;
mod followed;
pub(crate) mod random;
mod schema_changes;

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::Value;

use super::*;

/// Files that begin equal: one is written, the other follows it.
struct Pair {
    folder: tempfile::TempDir,
    file: ReplicaFile,
    original: Connection,
    recorder: Recorder,
    place: LogPlace,
    copy: Connection,
    copy_recorder: Recorder,
    copy_place: LogPlace,
}

impl Pair {
    fn new(file: ReplicaFile) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("original.db");
        make(file, &path);
        let original = open(&path);
        let recorder = Recorder::attach(&original, file).expect("it attaches");
        let copied = folder.path().join("copy.db");
        sqlite::copy(&original, &copied.to_string_lossy()).expect("a copy");
        let copy = open(&copied);
        let copy_recorder = Recorder::attach(&copy, file).expect("it attaches");
        Self {
            folder,
            file,
            original,
            recorder,
            place: LogPlace::default(),
            copy,
            copy_recorder,
            copy_place: LogPlace::default(),
        }
    }

    /// Runs the statements in a transaction; the change of the entry, if there is one.
    fn commit(&mut self, work: impl FnOnce(&Connection)) -> Option<Vec<u8>> {
        self.recorder.prepare(&self.original).expect("it prepares");
        sqlite::begin(&self.original).expect("it begins");
        work(&self.original);
        let taken = self.recorder.take(&self.original).expect("it takes");
        let change = taken.map(|part| change(&[(self.file, part)]));
        if let Some(change) = &change {
            self.place = self.place.after(change);
            self.place.store(&self.original).expect("it stores");
        }
        sqlite::commit(&self.original).expect("it commits");
        change
    }

    /// The same, and the copy follows.
    fn sync(&mut self, work: impl FnOnce(&Connection)) -> Vec<TouchedTable> {
        match self.commit(work) {
            Some(change) => self.follow(&change).expect("it fits"),
            None => Vec::new(),
        }
    }

    fn follow(&mut self, change: &[u8]) -> Result<Vec<TouchedTable>, ApplyError> {
        let next = self.copy_place.after(change);
        let entry = LogEntry {
            place: next,
            change,
        };
        self.copy_recorder.prepare(&self.copy)?;
        sqlite::begin(&self.copy)?;
        match self
            .copy_recorder
            .apply(&self.copy, self.copy_place, &entry)
        {
            Ok(applied) => {
                sqlite::commit(&self.copy)?;
                self.copy_place = applied.place;
                assert_eq!(LogPlace::of(&self.copy)?, applied.place);
                Ok(applied.tables)
            }
            Err(error) => {
                sqlite::roll_back(&self.copy)?;
                Err(error)
            }
        }
    }

    /// What differs between the files; none: they are equal.
    fn difference(&self) -> Option<String> {
        let (original, copy) = (content(&self.original), content(&self.copy));
        let at =
            (0..original.len().max(copy.len())).find(|at| original.get(*at) != copy.get(*at))?;
        Some(format!("{:?}\n{:?}", original.get(at), copy.get(at)))
    }

    #[track_caller]
    fn assert_equal(&self) {
        assert_eq!(self.difference(), None);
    }
}

/// A file of the format of today, with the tables that are made when they are needed.
pub(crate) fn make(file: ReplicaFile, path: &Path) {
    match file {
        ReplicaFile::Pool => {
            pool::copy::make(path).expect("a pool");
            pool::copy::make_later(&open(path)).expect("tables");
        }
        ReplicaFile::Catalog => {
            catalog::make(path).expect("a catalog");
            catalog::make_later(&open(path)).expect("tables");
        }
    }
}

pub(crate) fn open(path: &Path) -> Connection {
    sqlite::open_writer(path, sqlite::Synchronous::Normal).expect("it opens")
}

/// Everything that a file has, as lines: what was made, all rows, and where numbers go on.
pub(crate) fn content(connection: &Connection) -> Vec<String> {
    let sql = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND type IN ('table', 'index') ORDER BY name";
    let mut lines = rows(connection, sql);
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_stat%' ESCAPE '\\' ORDER BY name";
    for name in texts(connection, names) {
        let count = "SELECT count(*) FROM pragma_table_xinfo(?1)";
        let columns = connection.query_row(count, [&name], |row| row.get(0));
        let columns: i64 = columns.expect("columns");
        let name = name.replace('"', "\"\"");
        let order: Vec<String> = (1..=columns).map(|column| column.to_string()).collect();
        let sql = format!("SELECT * FROM \"{name}\" ORDER BY {}", order.join(", "));
        lines.extend(
            rows(connection, &sql)
                .iter()
                .map(|row| format!("{name}: {row}")),
        );
    }
    lines
}

fn rows(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).expect("a statement");
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let values = (0..columns).map(|column| row.get::<_, Value>(column));
        Ok(format!("{:?}", values.collect::<Result<Vec<_>, _>>()?))
    });
    rows.expect("rows").map(|row| row.expect("a row")).collect()
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).expect("a statement");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|row| row.expect("a text")).collect()
}

/// The ordinary tables of a file, as SQLite lists them.
fn table_names(connection: &Connection) -> Vec<String> {
    let sql = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name <> 'replica' ORDER BY name";
    texts(connection, sql)
}

/// Numbers that a test draws: the same again for the same seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    /// Of the seed in `HEADGATE_SEED`, or of one that is drawn and printed.
    #[expect(clippy::disallowed_methods, reason = "the test is run by people")]
    pub(crate) fn new() -> Self {
        let seed = std::env::var("HEADGATE_SEED").ok();
        let seed = seed.and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| getrandom::u64().expect("the system has randomness"));
        println!("HEADGATE_SEED={seed}");
        Self(seed | 1)
    }

    /// Of what another draws.
    pub(crate) fn of(numbers: &mut Self) -> Self {
        Self((numbers.below(1 << 30) as u64) << 1 | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(drawn).expect("31 bits") % limit
    }
}
