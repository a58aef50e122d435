//! A copy of a file whose writing connection a test has: it is told what was recorded, and compared.
//!
//! The tests of the pool and of the catalog have it of each file that they open.
//!
//! **Invariant**: whatever the owner of a file does to it, its copy has the same rows.

pub use replica::ReplicaFile;
use replica::{LogEntry, LogPlace, Recorder};
use rusqlite::Connection;
use rusqlite::types::Value;

/// The file's copy, and what is recorded for it.
pub struct CopiedFile {
    file: ReplicaFile,
    recorder: Recorder,
    copy: Connection,
    follower: Recorder,
    _folder: tempfile::TempDir,
}

impl CopiedFile {
    /// From now on what the connection changes is recorded.
    pub fn of(original: &Connection, file: ReplicaFile) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("copy.db");
        let recorder = Recorder::attach(original, file).expect("it attaches");
        sqlite::copy(original, &path.to_string_lossy()).expect("a copy");
        let copy = sqlite::open_writer(&path, sqlite::Synchronous::Normal).expect("it opens");
        let follower = Recorder::attach(&copy, file).expect("it attaches");
        Self {
            file,
            recorder,
            copy,
            follower,
            _folder: folder,
        }
    }

    /// The copy follows, and has what the file has, which is in no transaction.
    pub fn check(&mut self, original: &Connection) {
        sqlite::begin(original).expect("it begins");
        let part = self.recorder.take(original).expect("it takes");
        sqlite::commit(original).expect("it commits");
        // Tables that were made in between are recorded from now on.
        self.recorder.prepare(original).expect("it prepares");
        if let Some(part) = part {
            let change = replica::change(&[(self.file, part)]);
            let place = LogPlace::of(&self.copy).expect("it reads");
            let next = place.after(&change);
            let entry = LogEntry {
                place: next,
                change: &change,
            };
            self.follower.prepare(&self.copy).expect("it prepares");
            sqlite::begin(&self.copy).expect("it begins");
            let applied = self.follower.apply(&self.copy, place, &entry);
            applied.expect("it fits");
            sqlite::commit(&self.copy).expect("it commits");
        }
        assert_equal(original, &self.copy);
    }
}

/// Both files have the same rows.
#[track_caller]
pub fn assert_equal(one: &Connection, other: &Connection) {
    let (expected, found) = (content(one), content(other));
    let differs = expected.iter().zip(&found).find(|(a, b)| a != b);
    assert!(
        differs.is_none() && expected.len() == found.len(),
        "{differs:#?}"
    );
}

/// The rows of all tables but the one that says where a copy is.
fn content(connection: &Connection) -> Vec<String> {
    let sql = "SELECT name, (SELECT group_concat(cid + 1) FROM pragma_table_info(one.name))
         FROM sqlite_schema AS one WHERE type = 'table' AND name <> 'replica' ORDER BY name";
    let mut statement = connection.prepare(sql).expect("a statement");
    let tables = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let mut lines = Vec::new();
    for table in tables.expect("tables") {
        let (name, order): (String, String) = table.expect("a table");
        // An insertion that found nothing begins the numbers of its table at 0.
        let begun = if name == "sqlite_sequence" {
            "seq > 0"
        } else {
            "true"
        };
        let sql = format!("SELECT * FROM \"{name}\" WHERE {begun} ORDER BY {order}");
        let mut statement = connection.prepare(&sql).expect("a statement");
        let columns = statement.column_count();
        let mut rows = statement.query([]).expect("rows");
        while let Some(row) = rows.next().expect("a row") {
            let values = (0..columns).map(|column| row.get::<_, Value>(column).expect("a value"));
            lines.push(format!("{name}: {:?}", values.collect::<Vec<_>>()));
        }
    }
    lines
}
