//! Nodes that say that they live, on a PostgreSQL of the tests' own.

use super::*;
use crate::{ClusterStatus, JoinError, Member, Members, NodeStatus, RemoveError, Said, Status};
use replica::SharedLog;

/// A node that says that it lives until it is told to stop.
struct Living {
    id: Uuid,
    status: Status,
    may_claim: watch::Receiver<bool>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// A version of Headgate, and the newest format of the log that it knows.
const VERSION: (&str, i32) = ("1.2.3", 1);

async fn join(
    database: &Database,
    name: &str,
    said: Said,
) -> Result<(Uuid, Status, Members), JoinError> {
    join_as(database, name, VERSION, said).await
}

async fn join_as(
    database: &Database,
    name: &str,
    (version, format): (&str, i32),
    said: Said,
) -> Result<(Uuid, Status, Members), JoinError> {
    let member = Member {
        id: Uuid::now_v7(),
        name: name.to_owned(),
        version: version.to_owned(),
        address: format!("{name}.example:8080"),
        may_run_sinks: true,
        format,
    };
    let (id, status) = (member.id, Status::default());
    let members = Members::join(database.clone(), member, status.clone(), move || said).await?;
    Ok((id, status, members))
}

/// A log with which nobody appends.
fn log_of(database: &Database) -> SharedLog {
    SharedLog::over(Log::new(database.clone(), Uuid::now_v7()), 1).0
}

impl Living {
    async fn start(database: &Database, name: &str, said: Said) -> Self {
        Self::start_as(database, name, VERSION, said).await
    }

    async fn start_as(database: &Database, name: &str, version: (&str, i32), said: Said) -> Self {
        let joined = join_as(database, name, version, said).await;
        let (id, status, members) = joined.expect("a free name");
        let stop = CancellationToken::new();
        Self {
            id,
            status,
            may_claim: members.may_claim(),
            task: tokio::spawn(members.run(log_of(database), stop.clone())),
            stop,
        }
    }

    /// What it knows, as soon as it is so.
    async fn knows(&self, is_so: impl Fn(&ClusterStatus) -> bool) -> ClusterStatus {
        loop {
            let known = self.status.read();
            if is_so(&known) {
                return known;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("no panic");
    }
}

fn node<'a>(cluster: &'a ClusterStatus, name: &str) -> Option<&'a NodeStatus> {
    cluster.nodes.iter().find(|node| node.name == name)
}

fn is_live(cluster: &ClusterStatus, name: &str) -> bool {
    node(cluster, name).is_some_and(|node| node.is_live)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_see_each_other_and_one_that_stops_is_gone() {
    let Some(server) = Postgres::start("nodes_see_each_other") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let said = Said {
        place: 7,
        catalog: 5,
        delay: Duration::from_millis(40),
        renderers: 3,
        ..Said::default()
    };
    let one = Living::start(&database, "a", said).await;
    let two = Living::start(&database, "b", Said::default()).await;
    let known = one.knows(|cluster| is_live(cluster, "b")).await;
    assert!(known.database.reachable && known.database.problem.is_none());
    assert!(
        known
            .database
            .version
            .starts_with(|c: char| c.is_ascii_digit())
    );
    assert!(known.database.standbys.is_empty());
    assert_eq!(known.generation, 1);
    let known = two.knows(|cluster| is_live(cluster, "a")).await;
    let first = node(&known, "a").expect("it is there");
    let expected = NodeStatus {
        id: one.id,
        name: "a".to_owned(),
        version: "1.2.3".to_owned(),
        address: "a.example:8080".to_owned(),
        format: 1,
        is_live: true,
        may_run_sinks: true,
        catalog: 5,
        entry: 7,
        delay: Duration::from_millis(40),
        seen: first.seen,
        renderers: 3,
        ..NodeStatus::default()
    };
    assert_eq!(*first, expected);
    assert!(node(&known, "b").is_some_and(|node| node.is_this && node.is_live));
    assert!(*two.may_claim.borrow());
    two.stop().await;
    one.knows(|cluster| node(cluster, "b").is_none()).await;
    one.stop().await;
    assert_eq!(server.query("SELECT count(*) FROM headgate.nodes"), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_seen_everywhere_when_the_last_live_node_sees_it() {
    let Some(server) = Postgres::start("a_change_is_seen_everywhere") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let said = |place, catalog| Said {
        place,
        catalog,
        ..Said::default()
    };
    let joined = join(&database, "a", said(9, 8)).await;
    let mut first = joined.expect("a free name").2;
    assert_eq!(first.seen_everywhere(), 8);
    // One that is behind; and one that has no copies yet, and shows nothing.
    let mut others = Vec::new();
    for (name, said) in [("b", said(7, 5)), ("c", said(0, 0))] {
        let joined = join(&database, name, said).await;
        others.push(joined.expect("a free name"));
    }
    // A beat that rises is one of a live node, however slow the machine is.
    for _ in 0..2 {
        others[0].2.announce().await.expect("it answers");
        first.announce().await.expect("it answers");
    }
    assert_eq!(first.seen_everywhere(), 5);
    assert_eq!(others[0].2.seen_everywhere(), 5);
    let behind = others[0].0;
    server.query(&format!(
        "DELETE FROM headgate.nodes WHERE node = '{behind}'"
    ));
    first.announce().await.expect("it answers");
    assert_eq!(first.seen_everywhere(), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_taken_from_a_node_that_is_gone_and_from_no_other() {
    let Some(server) = Postgres::start("a_name_is_taken_from_a_node_that_is_gone") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let one = Living::start(&database, "a", Said::default()).await;
    let taken = join(&database, "a", Said::default()).await.err();
    let taken = taken.expect("it lives").to_string();
    assert!(
        taken.contains("name a is running already, on a.example:8080"),
        "{taken}"
    );
    // It dies, and its connection with it.
    let dead = one.id;
    one.task.abort();
    let two = Living::start(&database, "a", Said::default()).await;
    let known = two.status.read();
    assert_eq!(known.nodes.len(), 1, "{known:?}");
    assert_ne!(known.nodes[0].id, dead);
    two.stop().await;
    // It is frozen: its connection stays, and its beat does not rise.
    let (_, _, frozen) = join(&database, "b", Said::default()).await.expect("free");
    let begun = since_boot();
    let three = Living::start(&database, "b", Said::default()).await;
    assert!(since_boot() - begun >= Duration::from_secs(5));
    // It wakes, and finds its name taken.
    let may_claim = frozen.may_claim();
    let stop = CancellationToken::new();
    let woken = tokio::spawn(frozen.run(log_of(&database), stop.clone()));
    three.knows(|cluster| cluster.nodes.len() == 2).await;
    let mut may_claim = may_claim;
    let waited = may_claim.wait_for(|may| !may).await;
    waited.expect("it lives");
    assert!(*three.may_claim.borrow());
    stop.cancel();
    woken.await.expect("no panic");
    three.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_dead_can_be_removed_and_one_that_lives_cannot() {
    let Some(server) = Postgres::start("a_node_that_is_dead_can_be_removed") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let one = Living::start(&database, "a", Said::default()).await;
    let two = Living::start(&database, "b", Said::default()).await;
    one.knows(|cluster| is_live(cluster, "b")).await;
    let removed = crate::remove(&database, &one.status, "b").await;
    assert!(matches!(removed, Err(RemoveError::Live(_))), "{removed:?}");
    let removed = crate::remove(&database, &one.status, "c").await;
    assert!(
        matches!(removed, Err(RemoveError::Unknown(_))),
        "{removed:?}"
    );
    two.task.abort();
    one.knows(|cluster| !is_live(cluster, "b")).await;
    // Who begins to look now does not take it for live either.
    let three = Living::start(&database, "c", Said::default()).await;
    let known = three.knows(|cluster| is_live(cluster, "a")).await;
    assert!(!is_live(&known, "b"), "{known:?}");
    let removed = crate::remove(&database, &one.status, "b").await;
    removed.expect("it is dead");
    three.knows(|cluster| node(cluster, "b").is_none()).await;
    one.stop().await;
    three.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_differs_from_who_runs_the_sinks_says_so_and_does_not_claim() {
    let Some(server) = Postgres::start("a_node_that_differs_says_so") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let one = Living::start(&database, "a", Said::default()).await;
    let other = Said {
        config: [1; 16],
        plugins: [2; 16],
        ..Said::default()
    };
    let mut two = Living::start(&database, "b", other).await;
    // Nobody runs the sinks: there is nobody to differ from.
    assert!(*two.may_claim.borrow());
    let mut log = Log::new(database.clone(), one.id);
    let fence = log.claim(None).await.expect("it answers").expect("free");
    two.may_claim.wait_for(|may| !may).await.expect("it lives");
    let known =
        one.knows(|cluster| node(cluster, "b").is_some_and(|node| node.problems.len() == 2));
    let known = known.await;
    assert!(node(&known, "a").is_some_and(|node| node.runs_sinks && node.problems.is_empty()));
    let why = &node(&known, "b").expect("it is there").problems;
    let said = "its declared configuration differs from that of node a, which runs the sinks";
    assert!(why[0].starts_with(said), "{why:?}");
    assert!(
        why[1].contains("plugins differ from those of node a"),
        "{why:?}"
    );
    assert!(*one.may_claim.borrow());
    // Who ran them last is what counts until somebody says that it does not come back.
    one.task.abort();
    two.knows(|cluster| !is_live(cluster, "a")).await;
    assert!(!*two.may_claim.borrow());
    let removed = crate::remove(&database, &two.status, "a").await;
    removed.expect("it is dead");
    two.may_claim.wait_for(|may| *may).await.expect("it lives");
    log.resign(fence).await.expect("it answers");
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_a_newer_version_is_said_to_wait_for_the_older_ones() {
    let Some(server) = Postgres::start("a_node_of_a_newer_version_is_said_to_wait") else {
        return;
    };
    let database = server.cluster("headgate").await;
    // Both read the same files; the newer one knows a setting more.
    let with = |config| Said {
        config: [config; 16],
        ..Said::default()
    };
    let old = Living::start(&database, "a", with(1)).await;
    let mut log = Log::new(database.clone(), old.id);
    log.claim(None).await.expect("it answers").expect("free");
    let new = Living::start_as(&database, "b", ("1.3.0", 2), with(2)).await;
    let known =
        old.knows(|cluster| node(cluster, "b").is_some_and(|node| !node.problems.is_empty()));
    let problems = node(&known.await, "b")
        .expect("it is there")
        .problems
        .clone();
    let waits = "it runs headgate 1.3.0, and waits until these nodes are upgraded or stopped: a (headgate 1.2.3)";
    assert_eq!(problems, [waits]);
    // It says so of no node that waits for nobody, and the one that waits says it elsewhere.
    let known = new.knows(|cluster| is_live(cluster, "a")).await;
    assert!(
        known.nodes.iter().all(|node| node.problems.is_empty()),
        "{known:?}"
    );
    assert_eq!(node(&known, "a").map(|node| node.format), Some(1));
    old.stop().await;
    new.knows(|cluster| node(cluster, "a").is_none()).await;
    assert!(*new.may_claim.borrow());
    new.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_other_admin_tokens_says_so_and_may_claim_nevertheless() {
    let Some(server) = Postgres::start("a_node_with_other_admin_tokens") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let with = |tokens| Said {
        tokens,
        ..Said::default()
    };
    let one = Living::start(&database, "a", with(Some([1; 16]))).await;
    let same = Living::start(&database, "b", with(Some([1; 16]))).await;
    let other = Living::start(&database, "c", with(Some([2; 16]))).await;
    // What a node does not say does not differ.
    let silent = Living::start(&database, "d", Said::default()).await;
    let problem = |cluster: &ClusterStatus, name: &str| {
        node(cluster, name).and_then(|node| node.token_problem.clone())
    };
    let mut log = Log::new(database.clone(), one.id);
    log.claim(None).await.expect("it answers").expect("free");
    for living in [&one, &same, &other, &silent] {
        let known = living
            .knows(|cluster| problem(cluster, "c").is_some())
            .await;
        let why = problem(&known, "c").expect("it differs");
        let said = "its admin tokens differ from those of node a,";
        assert!(why.starts_with(said), "{why}");
        for name in ["a", "b", "d"] {
            assert_eq!(problem(&known, name), None, "{name}");
        }
        assert!(known.nodes.iter().all(|node| node.problems.is_empty()));
        assert!(*living.may_claim.borrow());
    }
    for living in [one, same, other, silent] {
        living.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_is_told_of_and_comes_back_by_itself() {
    let Some(mut server) = Postgres::start("a_database_that_is_away_is_told_of") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let line = Line::to(&server);
    let stalled = Living::start(&cluster_at(&line.url(), "headgate"), "a", Said::default()).await;
    let other = Living::start(&database, "b", Said::default()).await;
    let before = stalled.knows(|cluster| is_live(cluster, "b")).await;
    line.stall();
    let away = stalled.knows(|cluster| !cluster.database.reachable).await;
    assert_eq!(away.nodes.len(), before.nodes.len());
    assert!(away.database.problem.is_some() && away.database.since >= before.database.since);
    line.go_on();
    stalled.knows(|cluster| cluster.database.reachable).await;
    server.crash();
    other.knows(|cluster| !cluster.database.reachable).await;
    server.resume();
    let back = other.knows(|cluster| cluster.database.reachable).await;
    assert_eq!(back.database.problem, None);
    stalled.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_beat_that_waits_for_a_standby_takes_one_connection() {
    let Some(server) = Postgres::start("a_beat_that_waits_for_a_standby") else {
        return;
    };
    server.cluster("headgate").await;
    let options = postgres::DatabaseOptions {
        urls: vec![server.url()],
        schema: "headgate".to_owned(),
        name: "a".to_owned(),
        durability: postgres::Durability::Standby,
    };
    let database = Database::new(&options).expect("plain");
    let node = Living::start(&database, "a", Said::default()).await;
    let promises = |cluster: &ClusterStatus| cluster.database.asynchronous.is_some();
    node.knows(promises).await;
    server.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.query("SELECT pg_reload_conf()");
    let told = |cluster: &ClusterStatus| {
        let problem = cluster.database.problem.as_ref();
        problem.is_some_and(|why| why.contains("commits wait for a standby"))
    };
    node.knows(told).await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    assert_eq!(server.query(waiting), "1");
    server.query("ALTER SYSTEM RESET synchronous_standby_names");
    server.query("SELECT pg_reload_conf()");
    let back = node.knows(|cluster| cluster.database.reachable).await;
    assert!(is_live(&back, "a"));
    node.stop().await;
}
