//! Unit tests of `reads.rs`.

use std::sync::mpsc;

use futures_util::FutureExt as _;

use super::*;

/// Counts without an end.
const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";

/// A file with one row, and readers of it.
fn readers(connections_max: u32) -> (tempfile::TempDir, Readers) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("test.db");
    let writer = crate::open_writer(&path, crate::Synchronous::Normal).expect("a writer");
    writer
        .execute_batch("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (7)")
        .expect("a row");
    let readers = Readers::open(&path, connections_max).expect("readers");
    (folder, readers)
}

async fn value(readers: &Readers) -> Result<i64, Error> {
    let read = readers.read(|connection| {
        let mut statement = connection.prepare_cached("SELECT n FROM t")?;
        statement.query_row([], |row| row.get(0))
    });
    read.await
}

#[tokio::test]
async fn a_read_has_a_connection_that_cannot_write() {
    let (_folder, readers) = readers(2);
    assert_eq!(value(&readers).await, Ok(7));
    let write = readers.read(|connection| connection.execute("DELETE FROM t", []));
    write.await.expect_err("it is read-only");
    assert_eq!(value(&readers).await, Ok(7));
    assert_eq!(readers.idle.lock().len(), 1, "the same one each time");
}

#[tokio::test]
async fn a_read_ends_with_its_caller() {
    let (_folder, readers) = readers(1);
    let (begins, begun) = mpsc::channel();
    let (ends, ended) = mpsc::channel();
    let mut read = Box::pin(readers.read(move |connection| {
        begins.send(()).expect("the test waits");
        let found = connection.query_row(ENDLESS, [], |row| row.get::<_, i64>(0));
        ends.send(found.as_ref().map_err(Error::sqlite_error_code).err())
            .expect("the test waits");
        found
    }));
    tokio::select! {
        _ = &mut read => panic!("it has no end"),
        begun = tokio::task::spawn_blocking(move || begun.recv()) => {
            begun.expect("no panic").expect("it begins");
        }
    }
    drop(read);
    let waited = tokio::task::spawn_blocking(move || ended.recv());
    let code = waited.await.expect("no panic").expect("it ends");
    assert_eq!(
        code.flatten(),
        Some(rusqlite::ErrorCode::OperationInterrupted)
    );
    assert_eq!(value(&readers).await, Ok(7), "its connection is free");
}

#[tokio::test]
async fn no_more_reads_than_connections_run_at_once() {
    let (_folder, readers) = readers(2);
    let running = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let reads = (0..50).map(|_| {
        let running = Arc::clone(&running);
        readers.read(move |connection| {
            let before = running.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let n = connection.query_row("SELECT n FROM t", [], |row| row.get::<_, i64>(0))?;
            running.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            Ok::<_, Error>((before, n))
        })
    });
    for read in futures_util::future::join_all(reads).await {
        let (before, n) = read.expect("it reads");
        assert!(before < 2 && n == 7);
    }
    assert!(readers.idle.lock().len() <= 2);
}

#[tokio::test]
async fn a_panic_is_the_callers_and_costs_a_connection_at_most() {
    let (_folder, readers) = readers(1);
    let read = readers.read(|_| -> Result<(), Error> { panic!("it fails") });
    let read = std::panic::AssertUnwindSafe(read).catch_unwind();
    assert!(read.await.is_err(), "a panic");
    assert_eq!(value(&readers).await, Ok(7));
}

#[tokio::test]
async fn closed_readers_say_so() {
    let (_folder, readers) = readers(2);
    readers.close().await;
    let error = value(&readers).await.expect_err("closed");
    assert!(error.to_string().contains("the file is closed"), "{error}");
    assert!(!crate::damage::is_damage(&error));
    readers.close().await;
}
