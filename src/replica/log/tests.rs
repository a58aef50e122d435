//! The log on a PostgreSQL of the tests' own: what is appended once, refused, followed, claimed and kept.
#![expect(
    clippy::disallowed_methods,
    reason = "no daemon tracks the tasks of a test"
)]

mod at_rest;
mod bases;
mod nodes;
mod owner;
mod raised;
mod running;

use std::future::Future;

use postgres::refusal;
use postgres_server::{Line, Postgres, cluster_at};

use super::*;
use crate::{FileChange, ReplicaFile, change};

/// A schema of a server.
struct Cluster<'a> {
    server: &'a Postgres,
    database: Database,
}

impl<'a> Cluster<'a> {
    async fn new(server: &'a Postgres, schema: &str) -> Self {
        let database = server.cluster(schema).await;
        Self { server, database }
    }

    fn log(&self) -> Log {
        Log::new(self.database.clone(), Uuid::now_v7())
    }

    /// What a statement says in the schema.
    #[track_caller]
    fn query(&self, sql: &str) -> String {
        let schema = self.database.schema();
        self.server
            .query(&format!("SET search_path = {schema}; {sql}"))
    }

    /// A connection in a transaction that holds the head of the log, as an attempt does that is under way.
    async fn begun(&self) -> PgConnection {
        let mut connection = self.database.connect().await.expect("it connects");
        sqlx::raw_sql("BEGIN")
            .execute(&mut connection)
            .await
            .expect("it begins");
        connection
    }
}

/// The change of an entry that says nothing but this.
fn said(text: &str, file: ReplicaFile) -> Vec<u8> {
    let mut writer = crate::encoding::ChangeWriter::default();
    writer.number(1);
    writer.number(1);
    writer.dropped(true, text);
    writer.number(0);
    writer.number(0);
    change(&[(file, FileChange(writer.0))])
}

fn entry(before: LogPlace, change: &[u8]) -> NewEntry<'_> {
    NewEntry {
        fence: None,
        before,
        change,
        seq: 0,
        low_water: 0,
        format: 1,
    }
}

/// Waits until a backend waits for a lock.
async fn until_it_waits(cluster: &Cluster<'_>) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%append%'";
    while cluster.query(sql) == "0" {
        tokio::task::yield_now().await;
    }
}

/// The statement of an attempt, as a node sends it.
async fn attempt(connection: &mut PgConnection, node: Uuid, nonce: i64, new: &NewEntry<'_>) {
    let place = new.before.after(new.change);
    sqlx::query("SELECT append($1, $2, $3, $4, $5, 0, 0, 1, $6, false, $7)")
        .bind(node)
        .bind(new.fence)
        .bind(new.before.n.cast_signed())
        .bind(new.before.digest.as_bytes())
        .bind(place.digest.as_bytes())
        .bind(nonce)
        .bind(new.change)
        .execute(connection)
        .await
        .expect("it is done, and not committed");
}

/// Runs a call while another attempt is under way, which then ends so.
async fn while_it_runs<T: Send + 'static>(
    cluster: &Cluster<'_>,
    mut running: PgConnection,
    end: &'static str,
    call: impl Future<Output = T> + Send + 'static,
) -> T {
    let call = tokio::spawn(call);
    until_it_waits(cluster).await;
    assert!(
        !call.is_finished(),
        "it answers before the other attempt has ended"
    );
    sqlx::raw_sql(end)
        .execute(&mut running)
        .await
        .expect("it ends");
    call.await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_is_appended_once_however_often_it_is_asked_for() {
    let Some(server) = Postgres::start("an_attempt_is_appended_once_however_often_it_is_asked_for")
    else {
        return;
    };
    let first = said("a", ReplicaFile::Pool);
    // The answer was lost while the first attempt still runs: it is waited for, whatever becomes of it.
    for (schema, end) in [("committed", "COMMIT"), ("rolled_back", "ROLLBACK")] {
        let cluster = Cluster::new(&server, schema).await;
        let mut log = cluster.log();
        let mut running = cluster.begun().await;
        attempt(
            &mut running,
            log.node,
            7,
            &entry(LogPlace::default(), &first),
        )
        .await;
        let change = first.clone();
        let again = async move {
            let appended = log.append_as(&entry(LogPlace::default(), &change), 7).await;
            (appended.expect("it is appended"), log)
        };
        let (place, mut log) = while_it_runs(&cluster, running, end, again).await;
        assert_eq!(place, LogPlace::default().after(&first));
        let followed = log.follow(LogPlace::default()).await.expect("it follows");
        assert_eq!(
            (followed.head.place, followed.entries.len()),
            (place, 1),
            "{end}"
        );
        // The same bytes as another attempt, or those of another node, are another entry.
        let again = log.append_as(&entry(LogPlace::default(), &first), 8).await;
        assert!(matches!(again, Err(AppendError::Behind)), "{again:?}");
        let again = cluster
            .log()
            .append_as(&entry(LogPlace::default(), &first), 7)
            .await;
        assert!(matches!(again, Err(AppendError::Behind)), "{again:?}");
        assert_eq!(cluster.query("SELECT count(*) FROM log"), "1");
    }
    // The attempt that is under way is another's: it comes first, or not at all.
    let cluster = Cluster::new(&server, "others").await;
    let mut running = cluster.begun().await;
    attempt(
        &mut running,
        Uuid::now_v7(),
        7,
        &entry(LogPlace::default(), &first),
    )
    .await;
    let mut log = cluster.log();
    let late = async move {
        log.append(&entry(LogPlace::default(), &said("b", ReplicaFile::Pool)))
            .await
    };
    let late = while_it_runs(&cluster, running, "COMMIT", late).await;
    assert!(matches!(late, Err(AppendError::Behind)), "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_is_asked_for_until_it_is_known() {
    let Some(mut server) = Postgres::start("an_answer_that_is_lost_is_asked_for_until_it_is_known")
    else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let line = Line::to(&server);
    let mut log = Log::new(cluster_at(&line.url(), "headgate"), Uuid::now_v7());
    log.answer_max = Duration::from_secs(2);
    let (first, second) = (
        said("a", ReplicaFile::Pool),
        said("b", ReplicaFile::Catalog),
    );
    let place = log
        .append(&entry(LogPlace::default(), &first))
        .await
        .expect("it is appended");
    // It is committed, and nobody is told.
    line.stall();
    let node = log.node;
    let appending = tokio::spawn(async move {
        let appended = log.append(&entry(place, &second)).await;
        (appended, log)
    });
    while cluster.query("SELECT head FROM log_head") != "2" {
        tokio::task::yield_now().await;
    }
    assert!(!appending.is_finished());
    line.go_on();
    let (appended, mut log) = appending.await.expect("no panic");
    let place = appended.expect("it is appended");
    assert_eq!(place.n, 2);
    log.answer_max = ANSWER_MAX;
    let sql =
        format!("SELECT count(*), (SELECT catalog FROM log_head) FROM log WHERE node = '{node}'");
    assert_eq!(cluster.query(&sql), "2|2");
    // A server that is away before anything is sent: nothing was done, and that is known.
    server.crash();
    let third = said("c", ReplicaFile::Pool);
    log.forget_connection();
    let away = log.append(&entry(place, &third)).await;
    assert!(
        matches!(away, Err(AppendError::Database(DatabaseError::Away(_)))),
        "{away:?}"
    );
    server.resume();
    assert_eq!(
        log.append(&entry(place, &third))
            .await
            .expect("it is appended")
            .n,
        3
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_belong_behind_the_head_is_refused_with_its_reason() {
    let Some(server) = Postgres::start("what_does_not_belong_behind_the_head_is_refused") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let mut log = cluster.log();
    let (first, second) = (
        said("a", ReplicaFile::Catalog),
        said("b", ReplicaFile::Pool),
    );
    let one = log
        .append(&entry(LogPlace::default(), &first))
        .await
        .expect("it is appended");
    // A copy that lost its entry 1 and has another one, or that is ahead.
    let other = LogPlace::default().after(&second);
    let ahead = one.after(&second);
    for place in [other, ahead] {
        let differs = log.append(&entry(place, &second)).await;
        assert!(matches!(differs, Err(AppendError::Differs)), "{differs:?}");
        assert!(!log.follow(place).await.expect("it follows").fits);
    }
    let behind = log.append(&entry(LogPlace::default(), &second)).await;
    assert!(matches!(behind, Err(AppendError::Behind)), "{behind:?}");
    // Two claims of one number, of which a failover has lost one: the owner counts as well.
    cluster.query(&format!(
        "UPDATE log_head SET fence = 1, owner = '{}'",
        Uuid::now_v7()
    ));
    let settles = NewEntry {
        fence: Some(1),
        ..entry(one, &second)
    };
    let refused = log.append(&settles).await;
    assert!(
        matches!(refused, Err(AppendError::NotTheOwner)),
        "{refused:?}"
    );
    // Whoever settles nothing needs no claim. What is behind every sink never moves back.
    let low = |low_water, before| NewEntry {
        low_water,
        seq: low_water,
        ..entry(before, &second)
    };
    let two = log.append(&low(9, one)).await.expect("it is appended");
    let three = log.append(&low(4, two)).await.expect("it is appended");
    let head = log.follow(three).await.expect("it follows").head;
    assert_eq!(
        (head.place, head.catalog, head.low_water, head.seq),
        (three, 1, 9, 9)
    );
    cluster.query("UPDATE log_head SET format = 2, version = '9.8.7'");
    let older = log.append(&entry(three, &second)).await;
    let Err(AppendError::Newer(newer)) = older else {
        panic!("{older:?}");
    };
    assert_eq!((newer.format, newer.known), (2, 1));
    assert_eq!(newer.version, "9.8.7");
    // What the log keeps no longer tells nobody whether it was this attempt.
    cluster.query("DELETE FROM log WHERE n = 1");
    let kept = log.append(&entry(LogPlace::default(), &first)).await;
    assert!(matches!(kept, Err(AppendError::Newer(_))), "{kept:?}");
    cluster.query("UPDATE log_head SET format = 1");
    let kept = log.append(&entry(LogPlace::default(), &first)).await;
    assert!(matches!(kept, Err(AppendError::Behind)), "{kept:?}");
    assert!(
        !log.follow(LogPlace::default())
            .await
            .expect("it follows")
            .fits
    );
    let code = refusal::ENTRY_GONE.into();
    let gone = DatabaseError::Refused {
        code,
        message: "".into(),
    };
    assert!(matches!(
        AppendError::of(gone, true, 1),
        AppendError::Unknown
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_come_in_bounded_parts_in_their_order() {
    let Some(server) = Postgres::start("entries_come_in_bounded_parts_in_their_order") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let mut log = cluster.log();
    let mut place = LogPlace::default();
    let (small, large) = ("x".repeat(9), "y".repeat(3 << 20));
    for number in 0..503 {
        let text = if number < 500 { &small } else { &large };
        let change = said(text, ReplicaFile::Pool);
        place = log
            .append(&entry(place, &change))
            .await
            .expect("it is appended");
    }
    let (mut at, mut counts) = (LogPlace::default(), Vec::new());
    while at != place {
        let followed = log.follow(at).await.expect("it follows");
        assert!(followed.fits);
        counts.push(followed.entries.len());
        for entry in followed.entries {
            assert_eq!(entry.place, at.after(&entry.change));
            at = entry.place;
        }
    }
    assert_eq!(counts, [500, 2, 1]);
    let followed = log.follow(place).await.expect("it follows");
    assert!(followed.fits && followed.entries.is_empty());
    // One that is larger than an answer comes alone.
    let change = said(&"z".repeat(9 << 20), ReplicaFile::Pool);
    let next = log
        .append(&entry(place, &change))
        .await
        .expect("it is appended");
    let followed = log.follow(place).await.expect("it follows");
    assert_eq!(
        (followed.entries.len(), followed.entries[0].place),
        (1, next)
    );
}
