//! What two attempts, two lives and two clocks do to each other, step by step, on connections of the test.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

use super::*;
use crate::postgres::group::{Columns, Group, Placed};
use crate::queue::Job;
use ::postgres::refusal;

/// The requests of a group; whoever waits for them is gone.
fn group(requests: &[&Submission]) -> Columns {
    group_with(requests, None)
}

/// The same with the body of a refused request.
fn group_with(requests: &[&Submission], refused: Option<RejectedBody>) -> Columns {
    let mut group = Group::default();
    for request in requests {
        let request = Submission {
            log: request.log.clone(),
            items: request.items.clone(),
            recheck: None,
            ..**request
        };
        let (to, _) = tokio::sync::oneshot::channel();
        let added = group.add(Job::Submit(Box::new(request), to));
        assert!(added.is_ok(), "it fits");
    }
    if let Some(body) = refused {
        let entry = LogEntry::of(
            Uuid::now_v7(),
            Unix::now(),
            "shop".into(),
            "orders".into(),
            Outcome::Rejected,
        );
        let added = group.add(Job::Log(Box::new(entry), Some(Box::new(body))));
        assert!(added.is_ok(), "it fits");
    }
    group.columns
}

/// A schema, and connections that know a writer.
struct Stage {
    server: Postgres,
    database: Database,
    node: Uuid,
}

impl Stage {
    async fn start(test: &str) -> Option<Self> {
        let server = Postgres::start(test)?;
        let database = server.cluster("headgate").await;
        let stage = Self {
            server,
            database,
            node: Uuid::new_v4(),
        };
        stage.joins(stage.node);
        Some(stage)
    }

    fn joins(&self, node: Uuid) {
        let sql = format!("INSERT INTO headgate.writers (node, lived_ms) VALUES ('{node}', 0)");
        self.server.query(&sql);
    }

    async fn connection(&self) -> PgConnection {
        self.database.connect().await.expect("it connects")
    }

    /// Waits until a connection waits for another one's lock.
    async fn until_one_waits(&self) {
        let sql = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        while self.server.query(sql) == "0" {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn stored(&self) -> String {
        self.server.query("SELECT count(*) FROM headgate.requests")
    }

    fn claimed(&self) -> String {
        self.server.query("SELECT count(*) FROM headgate.claims")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_is_under_way_is_waited_for_and_other_requests_never_take_its_place() {
    let name = "an_attempt_that_is_under_way_is_waited_for_and_other_requests_never_take_its_place";
    let Some(stage) = Stage::start(name).await else {
        return;
    };
    let requests = ["a", "b", "c"].map(|key| submission(&[key], Some(key)));
    let [first, second, third] = &requests;
    let mut hanging = stage.connection().await;
    let mut attempt = hanging.begin().await.expect("it begins");
    let sent = group(&[first, second]);
    sent.call(&mut attempt, (stage.node, 1, 0))
        .await
        .expect("it is accepted");
    // The node thinks that its group is lost. It calls another one under the same number, and the same once more.
    let mut one = stage.connection().await;
    let mut other = stage.connection().await;
    let (different, same) = (group(&[second, third]), group(&[first, second]));
    let (different, same, ()) = tokio::join!(
        different.call(&mut one, (stage.node, 1, 0)),
        same.call(&mut other, (stage.node, 1, 0)),
        async {
            stage.until_one_waits().await;
            attempt.commit().await.expect("it is committed");
        }
    );
    let different = different.map(|rows| rows.len()).expect_err("refused");
    assert!(different.is(refusal::OTHER_GROUP), "{different}");
    assert_eq!(same.expect("the same answer").len(), 2);
    assert_eq!(stage.stored(), "2");
    // Another catalog is no way around it either.
    stage
        .server
        .query("UPDATE headgate.log_head SET catalog = 1");
    let next = group(&[third]).call(&mut one, (stage.node, 2, 0)).await;
    let next = next.map(|rows| rows.len()).expect_err("refused");
    assert!(next.is(refusal::CATALOG_CHANGED), "{next}");
    let same = group(&[first, second])
        .call(&mut one, (stage.node, 1, 0))
        .await;
    assert_eq!(same.expect("the same answer").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_life_that_is_not_known_stores_nothing() {
    let Some(stage) = Stage::start("a_life_that_is_not_known_stores_nothing").await else {
        return;
    };
    let request = submission(&["a"], Some("a"));
    let mut connection = stage.connection().await;
    for (node, number) in [(Uuid::new_v4(), 1), (stage.node, 7)] {
        let called = group(&[&request])
            .call(&mut connection, (node, number, 0))
            .await;
        let error = called.map(|rows| rows.len()).expect_err("refused");
        assert!(error.is(refusal::UNKNOWN_NODE), "{error}");
    }
    assert_eq!((stage.stored(), stage.claimed()), ("0".into(), "0".into()));
}

/// The server does all that a call says, and cannot commit it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_committed_has_no_answer_and_holds_no_key() {
    let Some(stage) = Stage::start("what_is_not_committed_has_no_answer").await else {
        return;
    };
    let body = rejected(Bytes::from_static(b"{"));
    // A constraint that is checked at the commit.
    stage.server.query(
        "CREATE FUNCTION headgate.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'at the commit'; END $$;
         CREATE CONSTRAINT TRIGGER fails AFTER UPDATE ON headgate.writers DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION headgate.fail()",
    );
    let request = submission(&["a"], Some("a"));
    let mut connection = stage.connection().await;
    for refused in [None, Some(body)] {
        let columns = group_with(&[&request], refused);
        let called = columns.call(&mut connection, (stage.node, 1, 0)).await;
        let error = called.map(|rows| rows.len()).expect_err("no answer");
        assert!(error.to_string().contains("at the commit"), "{error}");
        assert_eq!((stage.stored(), stage.claimed()), ("0".into(), "0".into()));
    }
    // Its repeat is another request, and the first one.
    stage.server.query("DROP TRIGGER fails ON headgate.writers");
    let repeat = submission(&["a"], Some("a"));
    let rows = group(&[&repeat])
        .call(&mut connection, (stage.node, 1, 0))
        .await;
    let rows = rows.expect("it is accepted");
    let first: Option<Uuid> = rows[0].try_get("first_id").expect("a column");
    assert_eq!(first, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_placed_by_who_runs_the_sinks_and_in_no_generation_before() {
    let Some(stage) = Stage::start("a_request_is_placed_by_who_runs_the_sinks").await else {
        return;
    };
    let mut connection = stage.connection().await;
    let mut place = async |number| {
        let placed = Placed {
            submission: submission(&["a"], None),
            seq: Seq::new(number),
        };
        placed.call(&mut connection, stage.node).await
    };
    let begins = "UPDATE headgate.generations SET first_seq = 1000";
    stage.server.query(begins);
    let claimed_by = |node: Uuid| {
        let sql = format!("UPDATE headgate.log_head SET owner = '{node}', fence = fence + 1");
        stage.server.query(&sql);
    };
    claimed_by(Uuid::new_v4());
    let refused = place(1_000).await.expect_err("refused");
    assert!(refused.is(refusal::NOT_THE_OWNER), "{refused}");
    claimed_by(stage.node);
    let refused = place(999).await.expect_err("refused");
    assert!(refused.is(refusal::PLACE_TAKEN), "{refused}");
    assert_eq!(stage.stored(), "0");
    place(1_000).await.expect("it is placed");
    assert_eq!(stage.stored(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_a_machine_that_was_frozen_holds_as_long_as_any() {
    let Some(stage) =
        Stage::start("a_claim_of_a_machine_that_was_frozen_holds_as_long_as_any").await
    else {
        return;
    };
    // The cluster lived on for nine hours; this node does not know yet.
    let ahead = (Lived::now() + Duration::from_hours(9)).to_column();
    let sql = format!("UPDATE headgate.cluster SET lived_ms = {ahead}");
    stage.server.query(&sql);
    let request = submission(&["a"], Some("a"));
    let mut connection = stage.connection().await;
    let called = group(&[&request])
        .call(&mut connection, (stage.node, 1, 0))
        .await;
    called.expect("it is accepted");
    let stamped = stage.server.query("SELECT lived_ms FROM headgate.claims");
    assert_eq!(stamped, ahead.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_above_what_may_still_be_committed() {
    let Some(stage) = Stage::start("nothing_is_read_above_what_may_still_be_committed").await
    else {
        return;
    };
    let slow = Uuid::new_v4();
    stage.joins(slow);
    let shared = Arc::new(Shared::new(
        Recent::starting_after(Seq::MIN),
        Seq::MIN,
        Arc::new(Metrics::new()),
    ));
    let mut connection = stage.connection().await;
    let start = Start::at_newest(&mut connection).await.expect("it reads");
    let feed = Feed::new(stage.database.clone(), shared, start);
    let mut under_way = stage.connection().await;
    let mut attempt = under_way.begin().await.expect("it begins");
    let first = submission(&["first"], None);
    let rows = group(&[&first])
        .call(&mut attempt, (slow, 1, 0))
        .await
        .expect("it is accepted");
    let number: i64 = rows[0].try_get("seq").expect("a column");
    let second = submission(&["second"], None);
    group(&[&second])
        .call(&mut connection, (stage.node, 1, 0))
        .await
        .expect("it is committed");
    // It is there for everybody, and has the higher number.
    assert_eq!(stage.stored(), "1");
    let read = async || {
        let place = feed.while_nobody_reads(async |place| place).await;
        (place.expect("it reads"), feed.lag(Seq::MIN))
    };
    let (below, read_before) = read().await;
    assert_eq!(read_before, 0, "what is under way comes first");
    // However long it takes: only those of somebody else are passed over.
    let held = sqlx::query_scalar::<_, i64>("SELECT horizon()");
    let held = held.fetch_one(&mut connection).await.expect("it answers");
    assert!(held <= number, "{held} is above {number}");
    attempt.commit().await.expect("it is committed");
    let (above, read_after) = read().await;
    assert_eq!(read_after, 2);
    assert!(above > below);
    // A transaction of somebody else does not hold it back for long.
    let mut stranger = stage.connection().await;
    let mut foreign = stranger.begin().await.expect("it begins");
    sqlx::query(AssertSqlSafe("SELECT pg_current_xact_id()".to_owned()))
        .execute(&mut *foreign)
        .await
        .expect("it has a number");
    let third = submission(&["third"], None);
    group(&[&third])
        .call(&mut connection, (stage.node, 2, 0))
        .await
        .expect("it is committed");
    while read().await.1 < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    foreign.rollback().await.expect("it ends");
}

/// `accept` has a number as soon as it has locked the row of its node, and changes that row a moment later.
#[tokio::test]
async fn an_accept_that_has_only_begun_is_none_of_somebody_else() {
    let test = "an_accept_that_has_only_begun_is_none_of_somebody_else";
    let Some(stage) = Stage::start(test).await else {
        return;
    };
    let slow = Uuid::new_v4();
    stage.joins(slow);
    let mut connection = stage.connection().await;
    let mut under_way = stage.connection().await;
    let mut attempt = under_way.begin().await.expect("it begins");
    sqlx::query("SELECT FROM writers WHERE node = $1 FOR UPDATE")
        .bind(slow)
        .execute(&mut *attempt)
        .await
        .expect("it is locked");
    let sql = "SELECT (pg_current_xact_id()::text::bigint + xid_base) << 12 FROM cluster";
    let number: i64 = sqlx::query_scalar(sql)
        .fetch_one(&mut *attempt)
        .await
        .expect("it has a number");
    let second = submission(&["second"], None);
    group(&[&second])
        .call(&mut connection, (stage.node, 1, 0))
        .await
        .expect("it is committed");
    let horizon = sqlx::query_scalar::<_, i64>("SELECT horizon()");
    let horizon = horizon
        .fetch_one(&mut connection)
        .await
        .expect("it answers");
    assert!(horizon <= number, "{horizon} is above {number}");
    attempt.rollback().await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_two_requests_hold_the_claims_of_one_the_first_claim_decides() {
    const COUNT: usize = 200;
    let name = "where_two_requests_hold_the_claims_of_one_the_first_claim_decides";
    let Some(stage) = Stage::start(name).await else {
        return;
    };
    let each = |text: &str| -> Vec<Submission> {
        let one = |at| submission(&["a"], Some(&format!("{text}{at}")));
        (0..COUNT).map(one).collect()
    };
    let (first, second) = (each("first"), each("second"));
    let repeats = each("first").into_iter().enumerate().map(|(at, repeat)| {
        let second = Some(claim_of(&format!("second{at}"), 0));
        Submission { second, ..repeat }
    });
    let repeats: Vec<Submission> = repeats.collect();
    let mut connection = stage.connection().await;
    for (at, group_of) in [&first, &second].into_iter().enumerate() {
        let sent = group(&group_of.iter().collect::<Vec<_>>());
        let number = i64::try_from(at).expect("small") + 1;
        let sent = sent.call(&mut connection, (stage.node, number, 0)).await;
        assert_eq!(sent.expect("it is accepted").len(), COUNT);
    }
    let sent = group(&repeats.iter().collect::<Vec<_>>());
    let rows = sent.call(&mut connection, (stage.node, 3, 0)).await;
    let rows = rows.expect("it is accepted");
    let of_the_first = rows.iter().zip(&first).filter(|(row, first)| {
        let id: Option<Uuid> = row.get("first_id");
        id == Some(first.log.request_id)
    });
    assert_eq!(of_the_first.count(), COUNT);
}
