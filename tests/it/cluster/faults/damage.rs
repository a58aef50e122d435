//! Pages of a copy that are damaged: while its node runs, and after it was killed.
//!
//! **Invariant**: a node that meets a damaged page starts again by itself, takes new copies, and shows what the others do.

use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rusqlite::Connection;

use super::*;
use crate::app::Random;
use crate::wait::PROCESS_DEADLINE;

/// What a node says that has met damage and starts again.
const TAKES_NEW_COPY: &str = "this node takes a new one";

/// Zeros a page of the file that every reader and writer of the items needs: the first of their table.
pub(in crate::cluster) fn zero_a_page(pool: &Path) {
    let (root, bytes) = {
        let pool = Connection::open(pool).expect("a database");
        pool.busy_timeout(PROCESS_DEADLINE)
            .expect("a setting of SQLite");
        // A page in the write-ahead log would be read in its place.
        let copied = pool.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            row.get::<_, i64>(0)
        });
        assert_eq!(copied, Ok(0), "nobody is in the way");
        let root = "SELECT rootpage FROM sqlite_master WHERE name = 'items'";
        let root = pool.query_row(root, [], |row| row.get::<_, i64>(0));
        let bytes = pool.query_row("PRAGMA page_size", [], |row| row.get::<_, i64>(0));
        (root.expect("a table"), bytes.expect("a size"))
    };
    let [root, bytes] = [root, bytes].map(|number| usize::try_from(number).expect("not negative"));
    let file = fs::OpenOptions::new().write(true).open(pool);
    let written =
        (file.expect("it opens")).write_all_at(&vec![0; bytes], ((root - 1) * bytes) as u64);
    written.expect("it writes");
}

/// Cuts the write-ahead log where a power cut could: behind all that was copied into the database, anywhere.
pub(in crate::cluster) fn cut_the_log(pool: &Path, random: &mut Random) {
    let log = pool.with_extension("db-wal");
    // Nobody has opened it since the node was killed: what was copied is said by the index of the log.
    let (Ok(log), Ok(index)) = (
        fs::OpenOptions::new().read(true).write(true).open(log),
        fs::read(pool.with_extension("db-shm")),
    ) else {
        return;
    };
    let number = |at: usize| {
        let bytes = index
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok());
        u64::from(bytes.map_or(0, u32::from_ne_bytes))
    };
    // Frames that were copied, and frames that may have been (walformat.html, 2.1 of the documentation of SQLite).
    let frames = number(96).max(number(128));
    let page = {
        let mut header = [0; 4];
        match log.read_exact_at(&mut header, 8) {
            Ok(()) => u64::from(u32::from_be_bytes(header)),
            Err(_) => return,
        }
    };
    let (first, length) = (
        32 + frames * (page + 24),
        log.metadata().expect("a size").len(),
    );
    if first < length {
        let cut = random.within(first..length);
        eprintln!(
            "the write-ahead log is cut at {cut} of {length} bytes, {frames} frames are copied"
        );
        log.set_len(cut).expect("it shrinks");
    }
}

#[test]
fn a_page_that_is_damaged_while_a_node_runs_has_it_start_again_with_a_new_copy() {
    let Some(server) = Postgres::start("a_page_that_is_damaged_while_a_node_runs") else {
        return;
    };
    let [mut runs, mut waits] = owner_first(["a", "b"].map(|name| node(&server, name).spawn()));
    let mut sent = 0;
    while sent < 50 {
        accepted(&waits, &format!("{sent}"));
        sent += 1;
    }
    for node in [&runs, &waits] {
        shows(node, sent);
        // What is looked through later finds the damage, too.
        node.looked_through();
    }
    // One that follows applies changes to the page; one that runs the sinks writes it.
    for harmed in ["the one that follows", "the one that runs the sinks"] {
        if harmed != "the one that follows" {
            std::mem::swap(&mut runs, &mut waits);
        }
        zero_a_page(&waits.setup.data_dir().join("pool.db"));
        for _ in 0..3 {
            accepted(&runs, &format!("{sent}"));
            sent += 1;
        }
        waits.says(TAKES_NEW_COPY);
        // It listens again.
        waits.looked_through();
        accepted(&waits, &format!("{sent}"));
        sent += 1;
        let shown = shows(&runs, sent);
        assert_eq!(shows(&waits, sent), shown, "{harmed}");
        ready_becomes(&waits, None);
        assert!(waits.lives(), "{harmed}");
    }
    for node in [runs, waits] {
        node.stop();
    }
}
