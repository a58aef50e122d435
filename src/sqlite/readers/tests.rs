//! Unit tests of `readers.rs`.

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
