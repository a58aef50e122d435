//! Other processes that read a file at this moment: what keeps its write-ahead log from being copied back.
//!
//! **Invariant**: nothing of the file is opened: a process that closes a file loses its own locks on it.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::beside;

/// The kernel's table of locks.
const LOCKS: &str = "/proc/locks";
/// Bytes of the map of shared memory that readers lock (SQLite's `WAL_READ_LOCK`).
const READ_MARKS: std::ops::RangeInclusive<u64> = 123..=127;

/// Those that can be seen from here: `sqlite3 (process 1234)`. Processes of other containers have no number here.
pub fn of(path: &Path) -> Vec<String> {
    let Ok(metadata) = beside(path, "-shm").metadata() else {
        return Vec::new();
    };
    let locks = std::fs::read_to_string(LOCKS).unwrap_or_default();
    let mut processes: Vec<u32> = locks
        .lines()
        .filter_map(|line| reader(line, metadata.ino()))
        .filter(|process| *process != std::process::id())
        .collect();
    processes.sort_unstable();
    processes.dedup();
    processes.into_iter().map(base::process::named).collect()
}

/// The process that holds a lock on a read mark: `3: POSIX  ADVISORY  READ 14345 fe:00:10559569 123 123`.
fn reader(line: &str, inode: u64) -> Option<u32> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    if fields.next()? != "POSIX" || fields.next()? != "ADVISORY" || fields.next()? != "READ" {
        return None;
    }
    let process = fields.next()?.parse().ok()?;
    let (_, locked) = fields.next()?.rsplit_once(':')?;
    let first: u64 = fields.next()?.parse().ok()?;
    let is_reader = locked.parse() == Ok(inode) && READ_MARKS.contains(&first) && process > 0;
    is_reader.then_some(process)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::{Synchronous, open_writer};

    #[test]
    fn a_process_that_reads_a_file_is_named_until_its_transaction_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool.db");
        let own = open_writer(&path, Synchronous::Normal).expect("a file");
        own.execute_batch("CREATE TABLE items (id); INSERT INTO items VALUES (7); BEGIN;")
            .expect("a table");
        let count = "SELECT count(*) FROM items";
        let counted: i64 = own.query_row(count, [], |row| row.get(0)).expect("a row");
        assert_eq!(counted, 1);
        assert_eq!(of(&path), Vec::<String>::new());

        let mut command = Command::new("sqlite3");
        command
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut other = match command.spawn() {
            Ok(other) => other,
            Err(error) if std::env::var_os("CI").is_none() => {
                return eprintln!("SKIPPED a_process_that_reads_a_file: no sqlite3: {error}");
            }
            Err(error) => panic!("sqlite3: {error}"),
        };
        let mut say = other.stdin.take().expect("its input");
        let mut hear = BufReader::new(other.stdout.take().expect("its output")).lines();
        writeln!(say, "BEGIN; SELECT id FROM items;").expect("it listens");
        assert_eq!(hear.next().expect("an answer").expect("text"), "7");
        let name = format!("sqlite3 (process {})", other.id());
        assert_eq!(of(&path), [name]);
        writeln!(say, "COMMIT; SELECT 8;").expect("it listens");
        assert_eq!(hear.next().expect("an answer").expect("text"), "8");
        assert_eq!(of(&path), Vec::<String>::new());
        drop(say);
        assert!(other.wait().expect("an end").success());
    }
}
