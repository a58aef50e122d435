//! What cannot be moved is refused, and nothing of it is anywhere.

use super::*;

#[test]
fn what_cannot_be_moved_is_refused_with_what_to_do() {
    let Some(mut server) = Postgres::start("what_cannot_be_moved_is_refused") else {
        return;
    };
    let far = Far::new();
    let alone = far.alone();
    let target = far.node(&server, "a");
    let from = |dir: &Path, code: i32, words: &str| {
        let said = migrate(&target, "--from", dir).failed(code);
        assert!(said.contains(words), "{said}");
    };
    let data_dir = alone.data_dir().to_owned();
    from(&data_dir, 1, "cannot read");
    let running = alone.spawn();
    running.accepted("orders", BY_ID, r#"{"id": "one"}"#);
    from(&data_dir, 1, "in use by another headgate");
    from(target.path("").as_path(), 1, "has no catalog.db");
    running.stop();
    let own = migrate(&target.clone().data_in(&data_dir), "--from", &data_dir);
    assert!(own.failed(2).contains("which needs its own directory"));
    let file = migrate(&alone, "--from", &data_dir).failed(2);
    assert!(file.contains("storage.engine is \"file\""), "{file}");
    let format = |number: u32| {
        alone.tamper("journal.db", &format!("PRAGMA user_version = {number}"));
    };
    let known = journal::FORMAT as u32;
    format(known - 1);
    from(&data_dir, 1, "start this version once on it");
    // One bit more than it should have may be damage.
    let newer = (known + 1..).find(|newer| (newer ^ known).count_ones() > 1);
    format(newer.expect("a number"));
    from(&data_dir, 2, "use the version that wrote it");
    format(known);
    server.crash();
    from(
        &data_dir,
        70,
        "nothing was moved: run the same command again",
    );
    server.resume();
    // Of nothing that was refused is anything there.
    let empty = migrate(&target, "--to", &target.path("none")).failed(2);
    assert!(
        empty.contains("no cluster that a node has begun"),
        "{empty}"
    );
    assert!(!target.path("none").exists(), "it is left as it was");

    let node = target.spawn();
    node.accepted("orders", BY_ID, r#"{"id": "own"}"#);
    let other = target.clone().data_in(target.path("other"));
    let begun = migrate(&other, "--from", &data_dir).failed(2);
    assert!(begun.contains("has the data of a cluster"), "{begun}");
    let full = migrate(&other, "--to", &target.path("")).failed(1);
    assert!(full.contains("not empty"), "{full}");
    node.stop();
    let copies = migrate(&other, "--from", target.data_dir()).failed(1);
    assert!(copies.contains("the copies of a node"), "{copies}");
    let alone_on_copies = far.alone().data_in(target.data_dir()).try_spawn();
    let refused = alone_on_copies.expect_err("its requests are elsewhere").log;
    assert!(refused.contains("headgate migrate --to"), "{refused}");

    // Another schema of the same server takes it; then it is another directory's.
    let second = target
        .clone()
        .set("cluster.schema", "second")
        .data_in(target.path("second"));
    moved(migrate(&second, "--from", &data_dir));
    let stranger = far.alone();
    let process = stranger.spawn();
    process.accepted("orders", BY_ID, r#"{"id": "other"}"#);
    process.stop();
    let filled = migrate(&second, "--from", stranger.data_dir()).failed(2);
    assert!(
        filled.contains("filled from another data directory"),
        "{filled}"
    );
    // Back without what the cluster has.
    std::fs::remove_file(data_dir.join("moved-to-cluster")).expect("it is marked");
    let process = alone.spawn();
    process.accepted("orders", BY_ID, r#"{"id": "again"}"#);
    process.stop();
}
