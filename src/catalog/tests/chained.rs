//! The audit log as a chain: what was done to it by others is found.

use std::sync::mpsc;
use std::time::Duration;

use rusqlite::Connection;

use super::*;
use crate::{AuditChange, Verified, verify_audit_of};

/// Writes so many entries, which are about a backup each.
fn write(desk: &Desk, count: usize) {
    for n in 0..count {
        let change = AuditChange::done("create", ResourceKind::Backup, format!("b{n}"), n.into());
        desk.catalog.note(&change, &actor()).expect("it is written");
    }
}

/// Somebody else writes the file.
fn tamper(desk: &Desk, sql: &str) {
    desk.copied.bypass();
    let file = Connection::open(desk.folder.path().join("catalog.db")).expect("the file");
    file.execute_batch(sql).expect("a change");
}

fn verify(desk: &Desk, expected: Option<KeyHash>) -> Verified {
    let verified = desk.catalog.verify_audit(expected).expect("it is read");
    let path = desk.folder.path().join("catalog.db");
    let beside = verify_audit_of(&path, expected).expect("it is read");
    assert_eq!(verified, beside);
    verified
}

#[test]
fn a_trail_as_it_was_written_verifies() {
    let desk = Desk::new(&settings());
    assert_eq!(verify(&desk, None), Verified::default());
    write(&desk, 3);
    desk.stream("news").expect("a stream");
    let verified = verify(&desk, None);
    assert!(verified.is_good(), "{verified:?}");
    assert_eq!(verified.entries, 4);
    let entries = desk
        .catalog
        .audit(&AuditFilter::default(), 10)
        .expect("a page");
    let newest = verified.newest.expect("entries");
    assert_eq!((newest.id, Some(newest.digest)), (4, entries[0].digest));
    assert_eq!(verified.oldest.map(|oldest| oldest.id), Some(1));

    let desk = desk.reopened(&settings());
    write(&desk, 2);
    let later = verify(&desk, Some(newest.digest));
    assert_eq!((later.entries, later.expected), (6, Some(true)));
}

#[test]
fn a_trail_is_read_while_a_change_is_under_way() {
    let desk = Desk::new(&settings());
    // More than are read at a time.
    write(&desk, 1_001);
    std::thread::scope(|threads| {
        let change = desk.catalog.store();
        let begun = change
            .connection
            .execute_batch("BEGIN IMMEDIATE; UPDATE audit SET who = 'another' WHERE id = 1;");
        begun.expect("a change that is not committed");
        let (sender, answer) = mpsc::channel();
        let catalog = &desk.catalog;
        threads.spawn(move || {
            let _ = sender.send(catalog.verify_audit(None));
        });
        let verified = answer.recv_timeout(Duration::from_mins(1));
        let verified = verified.expect("an answer").expect("it is read");
        assert!(verified.is_good(), "{verified:?}");
        assert_eq!(verified.entries, 1_001);
        change.connection.execute_batch("ROLLBACK").expect("undone");
    });
}

#[test]
fn the_digest_is_that_of_the_documented_text() {
    let desk = Desk::new(&settings());
    tamper(
        &desk,
        "INSERT INTO audit (at_ms, who, client, action, kind, name, connector, before, after)
         VALUES (5, 'admin token', '::1', 'create', 'key', 'é\"', 'shop', NULL, '{\"n\":1}')",
    );
    let desk = desk.reopened(&settings());
    let text = format!(
        r#"["{}",1,5,"admin token","::1","create","key","é\"","shop",null,"{{\"n\":1}}"]"#,
        "0".repeat(64)
    );
    let newest = verify(&desk, None).newest.expect("an entry");
    assert_eq!(newest.digest, KeyHash::of(&text));
}

#[test]
fn what_others_did_to_the_trail_is_found_where_it_begins() {
    for (sql, id, says) in [
        (
            "UPDATE audit SET after = '7' WHERE id = 3",
            3,
            "its content was changed",
        ),
        (
            "UPDATE audit SET who = 'x' WHERE id = 6",
            6,
            "its content was changed",
        ),
        (
            "UPDATE audit SET at_ms = -at_ms WHERE id = 3",
            3,
            "cannot be read",
        ),
        (
            "UPDATE audit SET name = x'ff' WHERE id = 3",
            3,
            "cannot be read",
        ),
        (
            "UPDATE audit SET digest = NULL WHERE id = 3",
            3,
            "no digest",
        ),
        (
            "UPDATE audit SET previous = x'00' WHERE id = 3",
            3,
            "no digest of",
        ),
        (
            "DELETE FROM audit WHERE id = 3",
            4,
            "the entry 3 is missing",
        ),
        (
            "DELETE FROM audit WHERE id IN (3, 4)",
            5,
            "the entries 3 to 4 are missing",
        ),
        ("DELETE FROM audit WHERE id < 3", 3, "before it are missing"),
        (
            "DELETE FROM audit WHERE id = 3; UPDATE audit SET id = id - 1 WHERE id > 3",
            3,
            "the previous entry was changed or replaced",
        ),
        (
            "UPDATE audit SET id = 99 WHERE id = 3; UPDATE audit SET id = 3 WHERE id = 4;
             UPDATE audit SET id = 4 WHERE id = 99",
            3,
            "the previous entry was changed or replaced",
        ),
    ] {
        let desk = Desk::new(&settings());
        write(&desk, 6);
        tamper(&desk, sql);
        let verified = verify(&desk, None);
        let mismatch = verified.mismatch.expect(sql);
        assert_eq!(mismatch.id, id, "{sql}: {mismatch:?}");
        assert!(mismatch.reason.contains(says), "{sql}: {mismatch:?}");
    }
}

#[test]
fn a_cut_end_is_found_by_a_digest_that_was_noted() {
    let desk = Desk::new(&settings());
    write(&desk, 5);
    let noted = verify(&desk, None).newest.expect("entries").digest;
    tamper(&desk, "DELETE FROM audit WHERE id > 3");
    let verified = verify(&desk, None);
    assert!(verified.is_good(), "the digests that are left fit");
    let verified = verify(&desk, Some(noted));
    assert_eq!(
        (verified.is_good(), verified.expected),
        (false, Some(false))
    );
    // What is written from then on leaves a gap.
    write(&desk, 1);
    let mismatch = verify(&desk, None).mismatch.expect("a gap");
    assert_eq!(mismatch.id, 6);
}

#[test]
fn a_trail_whose_oldest_entries_were_deleted_for_their_number_verifies() {
    let desk = Desk::new(&settings());
    write(&desk, 3);
    let noted = verify(&desk, None).newest.expect("entries").digest;
    // As if there were as many as are kept.
    let rows = "WITH RECURSIVE n(i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
        INSERT INTO audit (id, at_ms, who, client, action, kind, name) SELECT i, i, 'a', 'b', 'c', 'd', 'e' FROM n";
    tamper(&desk, rows);
    let desk = desk.reopened(&settings());
    assert_eq!(verify(&desk, Some(noted)).entries, 100_000);
    write(&desk, 3);
    let verified = verify(&desk, Some(noted));
    assert!(verified.is_good(), "{:?}", verified.mismatch);
    assert_eq!(verified.entries, 100_000);
    assert_eq!(verified.oldest.map(|oldest| oldest.id), Some(4));
    tamper(&desk, "DELETE FROM audit WHERE id < 10");
    let mismatch = verify(&desk, None).mismatch.expect("too few");
    assert!(mismatch.reason.contains("newest 100000"), "{mismatch:?}");
}

#[test]
fn entries_of_an_older_format_are_chained_when_it_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("catalog.db");
    let file = Connection::open(&path).expect("a file");
    let made = schema::of_format(4)
        + "INSERT INTO audit VALUES (1, 5, 'admin token', 'unix', 'create', 'stream', 'a', NULL, NULL, '{}');
           INSERT INTO audit VALUES (2, 6, 'admin token', 'unix', 'delete', 'stream', 'a', NULL, '{}', NULL);
           PRAGMA user_version = 4;";
    file.execute_batch(&made).expect("rows");
    drop(file);
    let refused = verify_audit_of(&path, None).expect_err("there is no chain yet");
    assert!(refused.to_string().contains("format 4"), "{refused}");
    let desk = Desk::in_folder(folder, &settings());
    write(&desk, 1);
    let verified = verify(&desk, None);
    assert!(verified.is_good(), "{verified:?}");
    assert_eq!(verified.entries, 3);
}
