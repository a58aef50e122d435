//! Generations begin, and go when nothing in them is needed.

use super::*;

fn node(journal: &Journal) -> &Node {
    match &journal.engine {
        Engine::Postgres(node) => node,
        Engine::File(_) => panic!("not in a database"),
    }
}

/// As upkeep does it after six hours.
async fn turn(connection: &mut sqlx::PgConnection) {
    for sql in [
        "DO $$ BEGIN PERFORM turn(g) FROM cluster; END $$",
        "DO $$ DECLARE after int := (SELECT g + 2 FROM cluster); BEGIN CALL shelf(after); END $$",
    ] {
        let done = sqlx::query(sql).execute(&mut *connection).await;
        done.expect("it turns");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_goes_as_a_whole_and_its_claims_hold_for_a_day() {
    let Some(server) =
        Postgres::start("a_generation_goes_as_a_whole_and_its_claims_hold_for_a_day")
    else {
        return;
    };
    let journal = open(&server.url()).await;
    let first = submit(&journal, &["a"], Some("one")).await;
    keys_after(&journal, Seq::MIN, 1).await;
    let node = node(&journal);
    let mut connection = node.database.connect().await.expect("it connects");
    turn(&mut connection).await;
    // What one generation claimed holds in the next.
    assert!(submit(&journal, &["a"], Some("one")).await.replayed);
    submit(&journal, &["b"], Some("two")).await;
    keys_after(&journal, Seq::MIN, 2).await;
    turn(&mut connection).await;
    let tables = || {
        server.query(
            "SELECT coalesce(string_agg(relname, ' ' ORDER BY relname), '') FROM pg_class
             WHERE relkind = 'r' AND relname ~ '^(requests|payloads|claims)_[12]$' AND relnamespace = 'headgate'::regnamespace",
        )
    };
    let mut keep = async |now: Lived| {
        let kept_up = node.drop_generations(&mut connection, now).await;
        kept_up.expect("it is kept up");
    };
    let all = "claims_1 claims_2 payloads_1 payloads_2 requests_1 requests_2";
    let now = Lived::now();
    keep(now).await;
    assert_eq!(tables(), all, "no sink has them");
    let row = journal.log_get(first.request_id).await.expect("it reads");
    journal.release(row.expect("it is there").seq);
    keep(now).await;
    assert_eq!(
        tables(),
        all,
        "nobody has said that all of a generation is done"
    );
    journal.release(*journal.newest().borrow() + (1 << 20));
    keep(now).await;
    assert_eq!(tables(), "claims_1 claims_2 requests_1 requests_2");
    keep(now + Duration::from_hours(25)).await;
    assert_eq!(tables(), "requests_1 requests_2");
    keep(now + Duration::from_hours(24 * 31)).await;
    assert_eq!(tables(), "");
    let row = journal.log_get(first.request_id).await.expect("it reads");
    assert!(row.is_none());
    assert!(!submit(&journal, &["c"], Some("one")).await.replayed);
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_has_run_out_gives_way_also_without_a_turn() {
    let Some(server) = Postgres::start("a_claim_that_has_run_out_gives_way_also_without_a_turn")
    else {
        return;
    };
    let journal = open(&server.url()).await;
    submit(&journal, &["a"], Some("one")).await;
    server.query("UPDATE headgate.claims SET lived_ms = lived_ms - 86400001 - 60000");
    let again = submit(&journal, &["b"], Some("one")).await;
    assert!(!again.replayed);
    let repeat = submit(&journal, &["b"], Some("one")).await;
    assert_eq!(repeat.request_id, again.request_id);
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_the_connector_that_has_most_are_given_up_first() {
    let Some(server) = Postgres::start("bodies_of_the_connector_that_has_most_are_given_up_first")
    else {
        return;
    };
    let journal = open(&server.url()).await;
    let retention = |bytes_max| Retention {
        bytes_max,
        age_max: Duration::from_hours(1),
    };
    journal.keep_bodies(retention(1 << 20));
    let mut ids = Vec::new();
    for (connector, bytes) in [
        // More than all may be together: it is not kept, and pushes out none.
        ("large", 2 << 20),
        ("few", 100),
        ("many", 1_000),
        ("many", 1_000),
        ("many", 1_000),
    ] {
        let entry = LogEntry::of(
            Uuid::now_v7(),
            Unix::now(),
            connector.into(),
            "orders".into(),
            Outcome::Rejected,
        );
        ids.push(entry.request_id);
        let body = rejected(Bytes::from(vec![b'x'; bytes]));
        journal.record_refused(entry, Some(body));
    }
    submit(&journal, &["a"], None).await;
    journal.keep_bodies(retention(1_500));
    let node = node(&journal);
    let mut connection = node.database.connect().await.expect("it connects");
    let given_up = node.give_up_bodies(&mut connection, Lived::now()).await;
    given_up.expect("they are given up");
    let mut kept = Vec::new();
    for id in ids {
        let row = journal.log_get(id).await.expect("it reads").expect("there");
        let body = journal.refused_body(row.seq).await.expect("it reads");
        kept.push(body.is_some());
    }
    assert_eq!(kept, [false, true, false, false, true]);
    journal.close().await;
}

/// The same node, whose upkeep waits for nothing.
fn impatient(node: &Node) -> Node {
    let at_once = Duration::from_millis(300);
    let reads = |call| Connections::new(node.database.clone(), call, 1);
    Node {
        shared: Arc::clone(&node.shared),
        feed: Arc::clone(&node.feed),
        database: node.database.clone(),
        id: node.id,
        log_reads: reads(DatabaseCall::Log),
        lane_reads: reads(DatabaseCall::Read),
        keep: Keep {
            patience: Patience {
                rows: at_once,
                tables: at_once,
            },
            ..node.keep
        },
        stop: watch::Sender::new(false),
        threads: Mutex::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn upkeep_that_gets_no_answer_ends_and_keeps_nobody_else_from_it() {
    let Some(server) = Postgres::start("upkeep_that_gets_no_answer_ends") else {
        return;
    };
    let journal = open(&server.url()).await;
    let node = impatient(node(&journal));
    let connect = async || node.connect_for_upkeep().await.expect("it connects");
    let mut idle = connect().await;
    let idle_max = sqlx::query_scalar::<_, String>("SHOW idle_session_timeout");
    let idle_max = idle_max.fetch_one(&mut idle).await.expect("a setting");
    assert_eq!(idle_max, "1min", "the lock of a frozen node");
    let lives = || server.query("SELECT count(*) FROM headgate.writers WHERE name = 'gone'");
    // The journal itself may do it at the same time.
    loop {
        let mut holds = node.database.connect().await.expect("it connects");
        let lock = "BEGIN; LOCK TABLE quarantine IN EXCLUSIVE MODE; \
                    INSERT INTO writers (node, lived_ms, name) VALUES (gen_random_uuid(), -1000000000000, 'gone')";
        let held = sqlx::raw_sql(lock).execute(&mut holds).await;
        held.expect("it is held");
        let kept_up = node.upkeep(&mut connect().await).await;
        let ended = sqlx::raw_sql("COMMIT").execute(&mut holds).await;
        ended.expect("nobody holds it any more");
        match kept_up {
            Err(DatabaseError::Away(_)) => break,
            Ok(()) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => panic!("{error}"),
        }
    }
    // The server lets go of the lock when it sees that the connection is closed.
    while lives() != "0" {
        let kept_up = node.upkeep(&mut connect().await).await;
        kept_up.expect("it is kept up");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    journal.close().await;
}
