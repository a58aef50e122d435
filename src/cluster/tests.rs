//! Nodes on a PostgreSQL of the tests' own.
#![expect(
    clippy::disallowed_methods,
    reason = "no daemon tracks the tasks of a test"
)]

mod followers;
mod members;

use std::time::Duration;

use base::clock::since_boot;
use base::lease::Lease;
use postgres::Database;
use postgres_server::{Line, Postgres, cluster_at};
use replica::log::Log;
use replica::{LogPlace, log::AppendError, log::NewEntry};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::candidate::Pace;
use crate::{Candidate, HandOver, Role};

/// Nothing happens because of time.
const PATIENT: Pace = Pace {
    asks: Duration::from_millis(10),
    renews: Duration::from_millis(10),
    silence: Duration::from_hours(1),
    lasts: Duration::from_hours(1),
};

struct Node {
    id: Uuid,
    hand_over: HandOver,
    role: watch::Receiver<Role>,
    lease: Lease,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Node {
    fn start(database: &Database, pace: Pace) -> Self {
        let (id, hand_over) = (Uuid::now_v7(), HandOver::default());
        let candidate = Candidate::with(Log::new(database.clone(), id), pace);
        let candidate = candidate.giving(hand_over.clone());
        let stop = CancellationToken::new();
        Self {
            id,
            hand_over,
            role: candidate.role(),
            lease: candidate.lease(),
            task: tokio::spawn(candidate.run(stop.clone())),
            stop,
        }
    }

    /// The number of its claim, when it runs the sinks.
    async fn runs(&mut self) -> i64 {
        self.runs_from().await.0
    }

    /// The same, and the entry that both files must have before it begins.
    async fn runs_from(&mut self) -> (i64, LogPlace) {
        let role = self.role.wait_for(|role| *role != Role::Waits).await;
        match *role.expect("it lives") {
            Role::Runs { fence, from } => (fence, from),
            Role::Waits => unreachable!("it was waited for"),
        }
    }

    async fn waits(&mut self) {
        let role = self.role.wait_for(|role| *role == Role::Waits).await;
        role.expect("it lives");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_runs_the_sinks_and_another_when_it_has_gone() {
    let Some(server) = Postgres::start("one_node_runs_the_sinks") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let mut first = Node::start(&database, PATIENT);
    let one = first.runs().await;
    let mut second = Node::start(&database, PATIENT);
    // It stops in order: the other one has the sinks, under another number.
    first.stop.cancel();
    first.task.await.expect("no panic");
    assert!(!first.lease.may_begin());
    let two = second.runs().await;
    assert_eq!(two, one + 1);
    // It settles, and dies: its connection is gone with it. The next one begins behind what was settled.
    let mut settling = Log::new(database.clone(), second.id);
    let settled = NewEntry {
        fence: Some(two),
        before: LogPlace::default(),
        change: &replica::change(&[]),
        seq: 0,
        low_water: 0,
        format: 1,
    };
    let settled = settling.append(&settled).await.expect("it is the owner");
    let mut third = Node::start(&database, PATIENT);
    second.task.abort();
    let (three, from) = third.runs_from().await;
    assert_eq!((three, from), (two + 1, settled));
    // What the log says is what counts: one that was frozen settles nothing.
    let mut frozen = Log::new(database.clone(), Uuid::now_v7());
    let late = NewEntry {
        fence: Some(two),
        before: settled,
        change: &replica::change(&[]),
        seq: 0,
        low_water: 0,
        format: 1,
    };
    let late = frozen.append(&late).await;
    assert!(matches!(late, Err(AppendError::NotTheOwner)), "{late:?}");
    third.stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sinks_are_given_to_the_node_that_is_named_when_no_lane_runs() {
    let Some(server) = Postgres::start("the_sinks_are_given_to_the_node_that_is_named") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let mut first = Node::start(&database, PATIENT);
    let fence = first.runs().await;
    first.hand_over.set_lanes_run(true);
    let mut others: Vec<Node> = (0..4).map(|_| Node::start(&database, PATIENT)).collect();
    for round in 1..4 {
        let to = others[round % 4].id;
        let giving = first.hand_over.clone();
        let given = tokio::spawn(async move { giving.give_to(to).await });
        first.waits().await;
        // Its lanes run still, so it renews its claim, and nobody has another one.
        let beat = "SELECT beat FROM headgate.log_head";
        let before = server.query(beat);
        while server.query(beat) == before {
            tokio::task::yield_now().await;
        }
        assert!(first.lease.may_begin() && !given.is_finished());
        assert!(others.iter().all(|node| *node.role.borrow() == Role::Waits));
        first.hand_over.set_lanes_run(false);
        given.await.expect("no panic");
        assert!(!first.lease.may_begin());
        let next = &mut others[round % 4];
        assert_eq!(
            next.runs().await,
            fence + i64::try_from(round).expect("small")
        );
        next.hand_over.set_lanes_run(true);
        std::mem::swap(&mut first, next);
    }
    // Of no node that waits anything is taken.
    others[0].hand_over.give_to(first.id).await;
    first.runs().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_is_connected_and_silent_is_replaced_and_learns_of_it() {
    let Some(server) = Postgres::start("an_owner_that_is_silent_is_replaced") else {
        return;
    };
    let database = server.cluster("headgate").await;
    // It is frozen: its connection stays, and its beat is the same.
    let mut frozen = Log::new(database.clone(), Uuid::now_v7());
    let fence = frozen
        .claim(None)
        .await
        .expect("it answers")
        .expect("it is free");
    let impatient = Pace {
        silence: Duration::from_millis(200),
        ..PATIENT
    };
    let begun = since_boot();
    let mut second = Node::start(&database, impatient);
    assert_eq!(second.runs().await, fence + 1);
    assert!(since_boot() - begun >= impatient.silence);
    let woken = frozen.renew(fence).await.expect_err("it has lost them");
    assert!(woken.is(postgres::refusal::NOT_THE_OWNER), "{woken}");
    // One whose beat rises is left alone, however impatient another one is.
    let eager = Pace {
        silence: Duration::from_secs(30),
        ..PATIENT
    };
    let third = Node::start(&database, eager);
    let line = server.query("SELECT beat FROM headgate.log_head");
    while server
        .query("SELECT beat FROM headgate.log_head")
        .parse::<i64>()
        .expect("a number")
        < line.parse::<i64>().expect("a number") + 100
    {
        tokio::task::yield_now().await;
    }
    assert_eq!(*third.role.borrow(), Role::Waits);
    for node in [second, third] {
        node.stop.cancel();
        node.task.await.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_gets_no_answer_lets_go_and_has_the_same_claim_afterwards() {
    let Some(server) = Postgres::start("a_node_that_gets_no_answer_lets_go") else {
        return;
    };
    server.cluster("headgate").await;
    let line = Line::to(&server);
    let pace = Pace {
        lasts: Duration::from_millis(300),
        ..PATIENT
    };
    let mut node = Node::start(&cluster_at(&line.url(), "headgate"), pace);
    let fence = node.runs().await;
    line.stall();
    node.waits().await;
    assert_eq!(node.lease.left(), Duration::ZERO);
    line.go_on();
    assert_eq!(node.runs().await, fence);
    node.stop.cancel();
    node.task.await.expect("no panic");
    assert_eq!(server.query("SELECT owner FROM headgate.log_head"), "");
}
