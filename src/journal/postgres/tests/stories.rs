//! What two attempts, two lives and two clocks do to each other, step by step, on connections of the test.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::*;
use crate::postgres::group::{Columns, Group};
use crate::queue::Job;
use ::postgres::refusal;

/// The requests of a group; whoever waits for them is gone.
fn group(requests: &[&Submission]) -> Columns {
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
    assert_eq!(stage.stored(), "0");
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
    group(&[&first])
        .call(&mut attempt, (slow, 1, 0))
        .await
        .expect("it is accepted");
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
