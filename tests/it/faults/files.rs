//! Files that were damaged, removed, or written by somebody else while the daemon was away.

use std::collections::BTreeSet;

use super::{STREAM, all_there, folder, submit};
use crate::process::BY_ID;
use crate::setup::Setup;
use crate::stored::one;

#[test]
fn a_corrupt_payload_is_quarantined_and_everything_else_delivered() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    // Two sinks: neither may take the other's quarantine for a delivery.
    let folder = folder()
        .set("storage.payload_retention_minutes", 60)
        .sink("second", "pool", "*", "");
    let process = folder.spawn();
    let ids: Vec<_> = ["a", "b", "c", "d", "e"]
        .map(|key| submit(&process, key))
        .into();
    process.drained();
    process.kill();
    // The third and the last payload are damaged, and both sinks have everything before them again.
    let damaged = folder.tamper(
        "journal.db",
        "UPDATE payloads SET items = CAST(substr(items, 1, length(items) - 3) || 'zzz' AS BLOB) WHERE seq IN (3, 5)",
    );
    assert_eq!(damaged, 2);
    folder.tamper(
        "pool.db",
        "DELETE FROM items; DELETE FROM progress; UPDATE cursors SET seq = 0",
    );

    let process = folder.spawn();
    process.drained();
    let found = folder.items(STREAM);
    let keys: Vec<_> = found.iter().map(|(key, ..)| key.as_str()).collect();
    assert_eq!(keys, ["a", "b", "d"]);
    for sink in ["pool", "second"] {
        let letters = process.dead_letters(sink);
        assert_eq!(letters.len(), 2, "dead letters of {sink}: {letters:?}");
        for letter in letters {
            let reason = letter["reason"].as_str().expect("text");
            assert!(reason.contains("checksum"), "{reason}");
            assert_eq!(letter["fields"], serde_json::Value::Null);
        }
        assert_eq!(process.sink(sink)["state"], "running");
    }
    for (id, status) in ids
        .iter()
        .zip(["processed", "processed", "failed", "processed", "failed"])
    {
        assert_eq!(process.request(id)["status"], status);
    }
    let journal = folder.journal();
    let mut kept = journal
        .prepare("SELECT seq FROM quarantine WHERE items IS NOT NULL ORDER BY seq")
        .expect("the table");
    let kept = kept.query_map([], |row| row.get(0)).expect("rows");
    let kept: Vec<i64> = kept.map(|seq| seq.expect("a row")).collect();
    assert_eq!(kept, [3, 5]);
    submit(&process, "f");
    process.drained();
    process.stop();
    // It is told once, not at every start.
    let process = folder.spawn();
    process.drained();
    assert_eq!(process.dead_letters("pool").len(), 2);
    process.stop();
}

#[test]
fn files_of_a_newer_version_are_refused_and_left_alone() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    for file in ["catalog.db", "journal.db", "pool.db"] {
        let folder = folder();
        let process = folder.spawn();
        submit(&process, "a");
        process.stop();
        let path = folder.data_dir().join(file);
        folder.tamper(file, "PRAGMA user_version = 99");
        let before = std::fs::read(&path).expect("a file");
        let ended = folder.try_spawn().expect_err("it must not start");
        assert_eq!(ended.status.code(), Some(2), "{}", ended.log);
        assert!(ended.log.contains("format 99"), "{}", ended.log);
        assert!(ended.log.contains("newer"), "{}", ended.log);
        assert_eq!(std::fs::read(&path).expect("a file"), before);
    }
}

#[test]
fn files_that_are_no_databases_are_set_aside_whole() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    for file in ["catalog.db", "journal.db", "pool.db"] {
        let folder = folder();
        std::fs::create_dir(folder.data_dir()).expect("a folder");
        let path = folder.data_dir().join(file);
        let garbage = b"this is no database ".repeat(500);
        std::fs::write(&path, &garbage).expect("a file");
        let process = folder.spawn();
        submit(&process, "a");
        process.drained();
        let entries = folder.data_dir().read_dir().expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let aside = format!("{file}.damaged-");
        let aside = names
            .map(|name| name.to_string_lossy().into_owned())
            .find(|name| name.starts_with(&aside))
            .expect("it is kept");
        let kept = std::fs::read(folder.data_dir().join(&aside)).expect("a file");
        assert_eq!(kept, garbage);
        let status = process.admin("/api/admin/status");
        let problems = status["problems"].to_string();
        assert!(problems.contains(file), "{problems}");
        process.stop();
    }
}

#[test]
fn a_pool_that_was_removed_is_filled_again_from_what_the_journal_still_has() {
    if crate::setup::file_only("a node takes a new copy in place of a damaged file") {
        return;
    }
    let folder = folder();
    let process = folder.spawn();
    for key in ["a", "b", "c"] {
        submit(&process, key);
    }
    process.drained();
    process.stop();
    let kept: i64 = one(&folder.journal(), "SELECT count(*) FROM payloads");
    std::fs::remove_file(folder.data_dir().join("pool.db")).expect("the pool");

    let process = folder.spawn();
    process.drained();
    let replayed = folder.items(STREAM).len();
    assert_eq!(i64::try_from(replayed).expect("small"), kept);
    let id = submit(&process, "after");
    all_there(&process, &BTreeSet::from(["after".to_owned()]));
    assert_eq!(process.request(&id)["status"], "processed");
    process.stop();
}

#[test]
fn a_journal_that_was_removed_does_not_make_new_items_look_old() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    let folder = folder();
    let process = folder.spawn();
    let put = |process: &crate::process::Process, n: u32| {
        let body = format!("{{\"id\": \"a\", \"n\": {n}}}");
        process.accepted(STREAM, BY_ID, &body)
    };
    for n in 1..=5 {
        put(&process, n);
    }
    process.drained();
    process.stop();
    std::fs::remove_file(folder.data_dir().join("journal.db")).expect("the journal");

    let process = folder.spawn();
    let id = put(&process, 6);
    process.request_becomes(&id, "processed");
    assert_eq!(folder.items(STREAM)[0].1["n"], 6);
    process.stop();
}

#[test]
fn a_second_daemon_on_the_same_data_is_refused_and_told_who_has_it() {
    if crate::setup::file_only("a copy belongs to one cluster") {
        return;
    }
    let first = folder();
    let mut process = first.spawn();
    let second = Setup::with_streams(&[STREAM])
        .compiling()
        .sink("pool", "pool", "*", "")
        .data_in(first.data_dir());
    let ended = second.try_spawn().expect_err("it must not start");
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    let holder = format!("process {}", process.id());
    assert!(ended.log.contains(&holder), "{}", ended.log);
    let path = first.data_dir().display().to_string();
    assert!(ended.log.contains(&path), "{}", ended.log);
    assert!(process.lives());
    submit(&process, "a");
    process.kill();
    // The lock of a killed daemon is gone with it.
    second.spawn().stop();
}
