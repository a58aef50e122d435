//! Where a move stores: on a standby, too, and on a disk that is full. What it has done before.

use super::*;

/// Its bytes cannot be compressed.
fn large(random: &mut Random, id: &str) -> String {
    let text = (0..16_000).map(|_| format!("{:016x}", random.next()));
    json!({"id": id, "text": text.collect::<String>()}).to_string()
}

#[test]
fn what_was_moved_survives_the_loss_of_the_primary() {
    let Some(mut primary) = Postgres::start("what_was_moved_survives_the_loss") else {
        return;
    };
    let standby = primary.standby(None);
    let far = Far::new();
    let alone = far.alone();
    let process = alone.spawn();
    let past = Past::of(&process, &mut crate::faults::bench::random("moving"));
    let before = said(&process);
    process.stop();
    let node = far
        .node(&primary, "a")
        .set("cluster.urls", vec![primary.url(), standby.url()])
        .set("cluster.durability", "standby");
    moved(migrate(&node, "--from", alone.data_dir()));
    primary.crash();
    standby.promote();
    // There is none but this one now.
    let node = node.set("cluster.durability", "local");
    let again = moved(migrate(&node, "--from", alone.data_dir()));
    assert_eq!(again["moved_before"], true);
    let running = node.spawn();
    says_the_same(&running, &before);
    past.is_known(&running);
    running.stop();
}

#[test]
fn a_move_that_meets_a_full_disk_says_so_and_is_repeated() {
    const TEST: &str = "a_move_that_meets_a_full_disk_says_so";
    let Some(server) = Postgres::start(TEST) else {
        return;
    };
    let Some(disk) = server.small_disk(TEST, 8) else {
        return;
    };
    let mut random = crate::faults::bench::random("moving");
    let far = Far::new();
    let alone = far.alone();
    let process = alone.spawn();
    let past = Past::of(&process, &mut random);
    for number in 0..64 {
        let body = large(&mut random, &format!("large-{number}"));
        process.accepted("orders", BY_ID, &body);
    }
    process.sink_becomes("pool", "done", |sink| sink["lag"] == 0);
    let before = said(&process);
    process.stop();
    let node = far.node(&server, "a");
    // Requests that wait do not fit, and then the pool.
    for mebibytes in [8, 24] {
        disk.resize(mebibytes);
        let said = migrate(&node, "--from", alone.data_dir()).failed(70);
        assert!(said.contains("the database has no room"), "{said}");
        let again = "nothing was moved: run the same command again";
        assert!(said.contains(again), "{said}");
        let rows = "SELECT (SELECT count(*) FROM headgate.moved_in) + (SELECT count(*) FROM headgate.requests)
             + (SELECT count(*) FROM headgate.bases)";
        assert_eq!(server.query(rows), "0");
        assert!(!alone.data_dir().join("moved-to-cluster").exists());
    }
    disk.resize(1024);
    let told = moved(migrate(&node, "--from", alone.data_dir()));
    assert_eq!(told["moved_before"], false);
    let running = node.spawn();
    says_the_same(&running, &before);
    past.is_known(&running);
    running.stop();
}

/// Starts the verb; what it says that it does can be read.
fn spawned(node: &Setup, from: &Path) -> std::process::Child {
    let config = node.write();
    let mut command = headgate(&node.path(""));
    command.args(["migrate", "--config"]).arg(config);
    command.arg("--from").arg(from);
    let spawned = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    spawned.expect("it starts")
}

#[test]
fn the_copies_are_made_before_the_transaction_begins() {
    let Some(server) = Postgres::start("the_copies_are_made_before_the_transaction") else {
        return;
    };
    let far = Far::new();
    let alone = far.alone();
    let process = alone.spawn();
    process.accepted("orders", BY_ID, r#"{"id": "one"}"#);
    process.stop();
    let node = far.node(&server, "a");
    // The tables are there when it says what it does first.
    let mut child = spawned(&node, alone.data_dir());
    let mut lines = Lines::of(child.stderr.take().expect("piped"));
    let _ = lines.by_ref().take(1).count();
    child.kill().expect("a child");
    child.wait().expect("a child");
    eventually("its transaction has ended", || {
        let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'headgate%'";
        (server.query(open) == "0").then_some(())
    });
    // What a sequence has is seen by a statement that has begun before.
    server.query(
        "CREATE SEQUENCE public.let_go;
         CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             WHILE NOT (SELECT is_called FROM public.let_go) LOOP PERFORM pg_sleep(0.02); END LOOP;
             RETURN NULL;
         END $$;
         CREATE TRIGGER hold BEFORE INSERT ON headgate.requests FOR EACH STATEMENT EXECUTE FUNCTION public.hold()",
    );
    let child = spawned(&node, alone.data_dir());
    eventually("it stores the first rows", || {
        let held = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        (server.query(held) == "1").then_some(())
    });
    let made = ["pool.db.part", "catalog.db.part"].map(|file| {
        let copy = node.data_dir().join("moving.part").join(file);
        copy.metadata().is_ok_and(|copy| copy.len() > 0)
    });
    server.query("SELECT nextval('public.let_go')");
    let moved = child.wait_with_output().expect("a child");
    let said = String::from_utf8_lossy(&moved.stderr);
    assert!(moved.status.success(), "{said}");
    assert_eq!(
        made, [true; 2],
        "a server ends a transaction that is idle meanwhile"
    );
}
