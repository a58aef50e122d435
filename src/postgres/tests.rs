//! The schema in a server of the tests' own. Run by `cargo test`.

use std::time::Instant;

use postgres_server::{Line, Postgres};

use super::*;

fn options(url: &str, schema: &str) -> DatabaseOptions {
    DatabaseOptions {
        urls: vec![url.to_owned()],
        schema: schema.to_owned(),
        name: "a".to_owned(),
        durability: Durability::Local,
    }
}

#[tokio::test]
async fn the_schema_is_made_once_and_used_by_everybody() {
    let Some(server) = Postgres::start("the_schema_is_made_once_and_used_by_everybody") else {
        return;
    };
    let database = Database::new(&options(&server.url(), "show_1")).expect("plain");
    let mut one = database.connect().await.expect("it connects");
    let mut other = database.connect().await.expect("it connects");
    let both = tokio::join!(make(&database, &mut one), make(&database, &mut other));
    let mut both = [both.0.expect("made"), both.1.expect("made")];
    both.sort_by_key(|made| *made == Made::Before);
    assert_eq!(both, [Made::Now, Made::Before]);
    let same = database.connect_to_write().await;
    same.expect("the same server");
    assert_eq!(server.query("SELECT xid_base FROM show_1.cluster"), "0");
    // Another server, which begins to count anew.
    server.query("UPDATE show_1.cluster SET system_identifier = 7; UPDATE show_1.generations SET first_seq = 1 << 30");
    let another = database.connect_to_write().await;
    another.expect("another server");
    let next = "SELECT ((pg_current_xact_id()::text::bigint + xid_base) << 12) > 1 << 30 FROM show_1.cluster";
    assert_eq!(server.query(next), "t");
}

#[tokio::test]
async fn a_server_that_was_promoted_or_restored_never_gives_the_same_numbers_again() {
    let Some(server) = Postgres::start("a_server_that_was_promoted_or_restored") else {
        return;
    };
    for (schema, durability, restored, may_have_lost) in [
        ("a", Durability::Standby, "timeline = 99", false),
        ("b", Durability::Local, "timeline = 99", true),
        ("c", Durability::Standby, "system_identifier = 7", true),
    ] {
        let database = Database::new(&DatabaseOptions {
            durability,
            ..options(&server.url(), schema)
        });
        let database = database.expect("plain");
        let mut connection = database.connect().await.expect("it connects");
        make(&database, &mut connection).await.expect("it is made");
        let base = format!("SELECT xid_base, epoch FROM {schema}.cluster");
        assert_eq!(server.query(&base), "0|0");
        server.query(&format!("UPDATE {schema}.cluster SET {restored}"));
        for _ in 0..2 {
            database.arrive(&mut connection).await.expect("it arrives");
        }
        let risen = format!(
            "SELECT xid_base >= 1 << 28 AND xid_base < 1 << 29, epoch > 0 FROM {schema}.cluster"
        );
        let expected = if may_have_lost { "t|t" } else { "t|f" };
        assert_eq!(server.query(&risen), expected, "{restored}");
    }
}

#[tokio::test]
async fn a_silent_server_keeps_nobody_from_the_one_that_is_promoted() {
    let Some(server) = Postgres::start("a_silent_server_keeps_nobody") else {
        return;
    };
    let line = Line::to(&server);
    line.stall();
    let database = Database::new(&DatabaseOptions {
        urls: vec![line.url(), server.url()],
        ..options("", "headgate")
    });
    let database = database.expect("plain");
    let begun = Instant::now();
    database.connect().await.expect("it connects");
    assert!(begun.elapsed() < CONNECT_MAX, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_schema_gets_the_additions_of_newer_versions_until_one_needs_a_newer_version() {
    let Some(server) = Postgres::start("a_schema_gets_the_additions_of_newer_versions") else {
        return;
    };
    let database = Database::new(&options(&server.url(), "headgate")).expect("plain");
    let mut one = database.connect().await.expect("it connects");
    let mut other = database.connect().await.expect("it connects");
    assert_eq!(make(&database, &mut one).await, Ok(Made::Now));
    let of_cluster =
        |columns: &str| server.query(&format!("SELECT {columns} FROM headgate.cluster"));
    assert_eq!(usize::try_from(FORMAT), Ok(schema::STEPS.len() + 1));
    let added = "ALTER TABLE @schema@.writers ADD COLUMN more int NOT NULL DEFAULT 7";
    let steps = [added];
    let both = tokio::join!(
        schema::make_with(&database, &mut one, &steps),
        schema::make_with(&database, &mut other, &steps)
    );
    let mut both = [both.0.expect("made"), both.1.expect("made")];
    both.sort_by_key(|made| *made == Made::Before);
    assert_eq!(both, [Made::Upgraded, Made::Before]);
    assert_eq!(of_cluster("format, oldest"), "2|1");
    let more = "SELECT count(more) FROM headgate.writers";
    assert_eq!(server.query(more), "0");
    // A version that knows nothing of it goes on.
    assert_eq!(make(&database, &mut one).await, Ok(Made::Before));
    assert_eq!(of_cluster("format"), "2");
    assert!(database.inspect().await.is_ok());
    // One that fails changes nothing.
    let failing = [added, "CREATE TABLE @schema@.next (a int)", "no statement"];
    let failed = schema::make_with(&database, &mut one, &failing).await;
    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(
        server.query("SELECT to_regclass('headgate.next') IS NULL"),
        "t"
    );
    let last = "UPDATE @schema@.cluster SET oldest = 3, needs = '@version@'";
    let made = schema::make_with(&database, &mut other, &[added, last]).await;
    assert_eq!(made, Ok(Made::Upgraded));
    let version = env!("CARGO_PKG_VERSION");
    let newer = || DatabaseError::Newer {
        format: 3,
        version: version.into(),
    };
    assert_eq!(make(&database, &mut one).await, Err(newer()));
    assert_eq!(database.inspect().await, Err(newer()));
    let said = newer().to_string();
    assert!(
        said.contains(&format!("headgate {version} or newer")),
        "{said}"
    );
}

#[tokio::test]
async fn a_schema_is_dropped_and_no_other_one() {
    let Some(server) = Postgres::start("a_schema_is_dropped_and_no_other_one") else {
        return;
    };
    let [gone, stays] = ["gone_1", "stays_1"];
    let database = server.cluster(gone).await;
    server.cluster(stays).await;
    assert_eq!(database.has_standby().await, Ok(false));
    // The second time there is none.
    for _ in 0..2 {
        assert_eq!(database.drop_schema().await, Ok(()));
        let left = "SELECT nspname FROM pg_namespace WHERE nspname IN ('gone_1', 'stays_1')";
        assert_eq!(server.query(left), stays);
    }
}

#[test]
fn a_name_or_url_that_will_not_do_is_named_without_its_secret() {
    for (url, schema) in [
        ("postgres:///a", "Head"),
        ("postgres:///a", "a\"; DROP"),
        ("postgres:///a", ""),
        ("mysql://user:secret@host/a", "headgate"),
        ("postgres://user:secret@host:99999999/a", "headgate"),
    ] {
        let error = Database::new(&options(url, schema))
            .map(drop)
            .expect_err(url);
        assert!(!error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_away_and_the_next_is_asked() {
    let Some(server) = Postgres::start("a_server_that_is_not_there_is_away_and_the_next_is_asked")
    else {
        return;
    };
    let nobody = format!("postgres://127.0.0.1:{}/a", postgres_server::free_port());
    let mut asked = options(&nobody, "headgate");
    let database = Database::new(&asked).expect("plain");
    let away = database.connect().await.map(drop);
    assert!(matches!(away, Err(DatabaseError::Away(_))), "{away:?}");
    asked.urls.push(server.url());
    let database = Database::new(&asked).expect("plain");
    database.connect().await.expect("the second one");
    server.query("CREATE ROLE nobody2 LOGIN PASSWORD 'x'");
    asked.urls = vec![server.url_of("nobody2", "wrong")];
    let refused = Database::new(&asked)
        .expect("plain")
        .connect()
        .await
        .map(drop);
    assert!(
        matches!(refused, Err(DatabaseError::Away(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn transactions_that_are_open_for_long_are_named() {
    let Some(server) = Postgres::start("transactions_that_are_open_for_long_are_named") else {
        return;
    };
    let own = server.cluster("headgate").await;
    let mut connection = own.connect().await.expect("it connects");
    let now = Duration::ZERO;
    let none = inspect::long_transactions(&mut connection, now).await;
    assert_eq!(none, Ok(Vec::new()));
    let other = server_of(&server.url()).expect("a URL");
    let mut other = PgConnection::connect_with(&other.application_name("report"))
        .await
        .expect("it connects");
    let begin = sqlx::raw_sql("BEGIN; SELECT pg_current_xact_id()");
    begin.execute(&mut other).await.expect("it begins");
    let long = inspect::long_transactions(&mut connection, now).await;
    let [sentence] = &*long.expect("it looks") else {
        panic!("not one");
    };
    assert!(sentence.contains("\"report\""), "{sentence}");
    let end = sentence.split("end it with ").nth(1).expect("what ends it");
    // In seconds at most, and when it has gone.
    let end = end.replace(')', ", 180000)");
    assert_eq!(server.query(&end), "t");
    let none = inspect::long_transactions(&mut connection, now).await;
    assert_eq!(none, Ok(Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_publishes_of_limits_is_read_by_the_others_and_not_by_itself() {
    let Some(server) = Postgres::start("what_a_node_publishes_of_limits") else {
        return;
    };
    let database = Database::new(&options(&server.url(), "headgate")).expect("plain");
    let mut connection = database.connect().await.expect("it connects");
    make(&database, &mut connection).await.expect("it is made");
    let nodes = [1, 2, 3].map(uuid::Uuid::from_u128);
    // What nodes publish that are not there is deleted.
    server.query(
        "INSERT INTO headgate.nodes SELECT ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'n' || n, '', '', true, 1, '', '',
             NULL, 0, 0, 0, 0, 1, clock_timestamp(), pg_backend_pid(), clock_timestamp() FROM generate_series(1, 3) AS n",
    );
    let (key, rate, day) = ([7; 32], vec![1, 2], 20_000);
    let mut connections = Vec::new();
    for _ in nodes {
        let connection = LimitsConnection::to(&database).await;
        connections.push(connection.expect("it connects"));
    }
    let published = |bytes| LimitsToPublish {
        shares: vec![(rate.clone(), 500, 10)],
        withdrawn: Vec::new(),
        stored: vec![(key, day, bytes)],
    };
    for (at, bytes) in [(0, 100), (1, 20), (1, 30)] {
        let publishing = connections[at].publish(nodes[at], &published(bytes)).await;
        publishing.expect("it is published");
    }
    for (at, elsewhere) in [(0, 30), (1, 100), (2, 130)] {
        let stored = connections[at].stored_elsewhere(nodes[at], day).await;
        assert_eq!(stored.expect("it is read"), [(key, elsewhere)]);
        let shares = connections[at]
            .shares(nodes[at])
            .await
            .expect("they are read");
        let mut of: Vec<uuid::Uuid> = shares.iter().map(|one| one.node).collect();
        of.sort_unstable();
        let others = nodes[..2].iter().copied().filter(|node| *node != nodes[at]);
        assert_eq!(of, others.collect::<Vec<_>>());
        assert!(
            shares
                .iter()
                .all(|one| one.id == rate && (one.share, one.wanted) == (500, 10))
        );
        let other_day = connections[at].stored_elsewhere(nodes[at], day + 1).await;
        assert_eq!(other_day.expect("it is read"), []);
    }
    // What comes later is read, too, though only what has changed is asked for.
    let later = connections[0].publish(nodes[0], &published(150)).await;
    later.expect("it is published");
    let stored = connections[2].stored_elsewhere(nodes[2], day).await;
    assert_eq!(stored.expect("it is read"), [(key, 180)]);
}

#[tokio::test]
async fn two_clusters_in_one_database_do_not_wait_for_each_other() {
    let Some(server) = Postgres::start("two_clusters_in_one_database") else {
        return;
    };
    let made = async |schema| {
        let database = Database::new(&options(&server.url(), schema)).expect("plain");
        let mut connection = database.connect().await.expect("it connects");
        make(&database, &mut connection).await.expect("it is made");
        (database, connection)
    };
    let (one, _) = made("one").await;
    let (other, mut connection) = made("other").await;
    let moving = MoveIn::begin(&one).await.expect("an answer");
    assert!(matches!(moving, Target::Empty(_)), "{moving:?}");
    let wait = "SET lock_timeout = '2s'";
    let set = sqlx::raw_sql(wait).execute(&mut connection).await;
    set.expect("it is set");
    for sql in ["SELECT turn(g) FROM cluster", "SELECT raise_above(1)"] {
        let done = sqlx::query(sql).execute(&mut connection).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for lock in [
        ClusterLock::Names,
        ClusterLock::Upkeep,
        ClusterLock::Generation,
    ] {
        for (database, is_free) in [(&one, false), (&other, true)] {
            let lock = database.lock(lock);
            let sql = format!("SELECT pg_try_advisory_xact_lock({lock})");
            let free: bool = sqlx::query_scalar(AssertSqlSafe(sql))
                .fetch_one(&mut connection)
                .await
                .expect("an answer");
            assert_eq!(free, is_free, "{lock}");
        }
    }
    // What the functions of the schema take is the same.
    let set = sqlx::raw_sql("SET search_path = one").execute(&mut connection);
    set.await.expect("it is set");
    let waits = sqlx::query("SELECT turn(g) FROM cluster").execute(&mut connection);
    let waits = waits.await.map_err(DatabaseError::from);
    assert!(waits.is_err(), "{waits:?}");
}

#[tokio::test]
async fn too_few_connections_are_found_before_nodes_lack_them() {
    let Some(server) = Postgres::start("too_few_connections_are_found") else {
        return;
    };
    let database = Database::new(&options(&server.url(), "headgate")).expect("plain");
    let found = async || {
        let found = database.inspect().await.expect("it looks");
        let found = found
            .into_iter()
            .filter(|one| one.sentence.contains("connections"));
        let found = found.inspect(|one| assert!(!one.is_error, "{one:?}"));
        found.map(|one| one.sentence).collect::<Vec<String>>()
    };
    assert_eq!(
        found().await,
        Vec::<String>::new(),
        "500 are enough for two"
    );
    let mut connection = database.connect().await.expect("it connects");
    make(&database, &mut connection).await.expect("it is made");
    server.query("ALTER ROLE headgate CONNECTION LIMIT 55");
    server.query("ALTER DATABASE postgres CONNECTION LIMIT 56");
    let said = found().await;
    let [role] = &*said else {
        panic!("not one: {said:?}");
    };
    let expected = "the role headgate can have 55 connections, and 2 nodes need up to 56; run ALTER ROLE headgate CONNECTION LIMIT -1";
    assert_eq!(role, expected);
    server.query("ALTER ROLE headgate CONNECTION LIMIT -1");
    server.query("ALTER DATABASE postgres CONNECTION LIMIT -1");
    // One of them is this node, by its name.
    let add = "INSERT INTO headgate.nodes SELECT gen_random_uuid(), CASE n WHEN 1 THEN 'a' ELSE 'n' || n END, '', '', true, 1, '', '',
             NULL, 0, 0, 0, 0, 1, clock_timestamp(), pg_backend_pid(), clock_timestamp() FROM generate_series(1, 18) AS n";
    server.query(add);
    let said = found().await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("the server can have 497 connections, and 18 nodes need up to 504"),
        "{said:?}"
    );
    assert!(said[0].contains("SET max_connections = 527"), "{said:?}");
}
