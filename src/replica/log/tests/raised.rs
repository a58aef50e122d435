//! Nodes of two versions: the newer ones wait on files of the older format, raise the log when the last older one has gone,
//! and upgrade their files at that entry.

use std::path::Path;

use tempfile::TempDir;

use super::at_rest::{arrive, copies, made, paths};
use super::nodes::Node;
use super::*;
use crate::tests::{Numbers, open};
use crate::{AtRestError, CopiesAtRest, MadeCopies, NewerLog};

/// The format of the files behind the step.
const AFTER: i64 = 1_000;

/// A step as versions have them: rows of a table get numbers and another table, and another table a column. It numbers by what
/// the rows are: where they are in the file differs between copies.
fn step(file: ReplicaFile, path: &Path) -> Result<(), String> {
    let connection = open(path);
    if sqlite::format(&connection).map_err(|error| error.to_string())? == AFTER {
        return Ok(());
    }
    let statements = match file {
        ReplicaFile::Pool => {
            "CREATE TABLE progress_rows (id INTEGER PRIMARY KEY, sink TEXT NOT NULL, seq INTEGER NOT NULL,
                 at_ms INTEGER NOT NULL, UNIQUE (sink, seq));
             INSERT INTO progress_rows SELECT row_number() OVER (ORDER BY sink, seq), sink, seq, at_ms FROM progress;
             DROP TABLE progress;
             CREATE VIEW progress AS SELECT sink, seq, at_ms FROM progress_rows;"
        }
        ReplicaFile::Catalog => {
            "ALTER TABLE streams ADD COLUMN more TEXT NOT NULL DEFAULT 'x';
             UPDATE streams SET more = name;"
        }
    };
    let batch = format!("BEGIN IMMEDIATE; {statements} PRAGMA user_version = {AFTER}; COMMIT;");
    connection
        .execute_batch(&batch)
        .map_err(|error| error.to_string())
}

/// The files of a node of the newer version.
fn newer(paths: &[std::path::PathBuf; 2]) -> CopiesAtRest<'_> {
    CopiesAtRest {
        format: 2,
        upgrade: step,
        ..copies(paths)
    }
}

async fn arrive_newer(log: &mut Log, folder: &TempDir) -> LogPlace {
    let arrived = newer(&paths(folder)).bring_to_head(log).await;
    arrived.expect("it arrives").expect("the log has begun")
}

fn formats(folder: &TempDir) -> [i64; 2] {
    paths(folder).map(|path| sqlite::format(&open(&path)).expect("it reads"))
}

fn empty() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn as_newer(cluster: &Cluster<'_>, folder: TempDir) -> Node {
    let mut node = Node::of(cluster, folder);
    node.format = 2;
    node
}

/// A log that a node of the older version has begun and goes on with, and one that has stopped.
async fn begun(cluster: &Cluster<'_>, numbers: &mut Numbers) -> (Node, TempDir) {
    let folder = made(numbers);
    let begun = copies(&paths(&folder)).begin_log(&mut cluster.log()).await;
    assert!(begun.expect("it begins"));
    let other = empty();
    arrive(&mut cluster.log(), &other)
        .await
        .expect("it arrives");
    let (mut node, mut stops) = (Node::of(cluster, folder), Node::of(cluster, other));
    for _ in 0..5 {
        stops.follow().await;
        stops.work(numbers).await;
        node.follow().await;
        node.work(numbers).await;
    }
    (node, stops.end())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_upgraded_one_by_one_under_load_and_end_equal() {
    const STEPS: usize = 40;
    let Some(server) = Postgres::start("nodes_are_upgraded_one_by_one_under_load") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let mut numbers = Numbers::new();
    let (mut old, stopped) = begun(&cluster, &mut numbers).await;
    let before = formats(&stopped);
    let mut own = Numbers::of(&mut numbers);
    let working = tokio::spawn(async move {
        for _ in 0..STEPS {
            old.follow().await;
            old.work(&mut own).await;
        }
        old.follow().await;
        old
    });
    // A copy that is at the head, one that is taken from a base, and one that waits far behind.
    let (mut log, new, behind) = (cluster.log(), empty(), empty());
    arrive_newer(&mut log, &behind).await;
    while !working.is_finished() {
        arrive_newer(&mut log, &stopped).await;
        arrive_newer(&mut log, &new).await;
    }
    let old = working.await.expect("no panic");
    let head = arrive_newer(&mut log, &stopped).await;
    assert_eq!(formats(&stopped), before, "nobody has raised it");
    assert_eq!(arrive_newer(&mut log, &new).await, head);
    let expected = old.content();
    let waiting = Node::of(&cluster, stopped);
    assert_eq!(waiting.content(), expected, "what was written is there");
    let stopped = waiting.end();
    // The last older node has gone; those that wait raise it at once, and one of them does.
    let (mut one, mut other) = (cluster.log(), cluster.log());
    let raised = tokio::join!(one.raise(head, 2), other.raise(head, 2));
    let raised = [raised.0, raised.1];
    assert_eq!(raised.iter().filter(|raised| raised.is_ok()).count(), 1);
    let again = one.raise(head.after(&crate::raise(2)), 2).await;
    assert!(matches!(again, Err(AppendError::Behind)), "{again:?}");
    // One was killed when its first file was upgraded, and nothing said so yet.
    step(ReplicaFile::Pool, &paths(&new)[0]).expect("it upgrades");
    let mut nodes = Vec::new();
    for folder in [stopped, new, behind, empty()] {
        let place = arrive_newer(&mut log, &folder).await;
        assert_eq!(place.n, head.n + 1);
        assert_eq!(formats(&folder), [AFTER; 2]);
        nodes.push(as_newer(&cluster, folder));
    }
    let counted = "SELECT count(*) = max(n), (SELECT format FROM log_head), (SELECT version FROM log_head) FROM log";
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(cluster.query(counted), format!("t|2|{version}"));
    for node in &nodes[1..] {
        assert_eq!(node.content(), nodes[0].content());
    }
    for _ in 0..10 {
        for node in &mut nodes {
            node.follow().await;
            node.work(&mut numbers).await;
        }
    }
    for node in &mut nodes {
        node.follow().await;
    }
    for node in &nodes[1..] {
        assert_eq!(node.content(), nodes[0].content());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_node_ends_when_the_log_was_raised_and_names_the_version() {
    let Some(server) = Postgres::start("an_older_node_ends_when_the_log_was_raised") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let mut numbers = Numbers::new();
    let (mut old, stopped) = begun(&cluster, &mut numbers).await;
    old.follow().await;
    let mut log = cluster.log();
    let head = arrive_newer(&mut log, &stopped).await;
    let (shared, task) = crate::SharedLog::over(cluster.log(), 1);
    tokio::spawn(task);
    shared.open_at(head);
    shared.read(&mut log).await.expect("it is as the log");
    let raised = log.raise(head, 2).await.expect("it is raised");
    let expected = NewerLog {
        format: 2,
        known: 1,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    // One that runs, however it meets it; and one that starts.
    let change = said("a", ReplicaFile::Pool);
    for place in [head, raised] {
        let refused = cluster.log().append(&entry(place, &change)).await;
        let Err(AppendError::Newer(newer)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(newer, expected);
    }
    let read = shared.read(&mut log).await.map(drop);
    assert_eq!(read, Err(crate::LogError::Newer(expected.clone())));
    assert_eq!(
        shared.ended(),
        Some(crate::LogError::Newer(expected.clone()))
    );
    for folder in [old.end(), empty()] {
        let refused = arrive(&mut cluster.log(), &folder).await;
        let Err(AtRestError::Newer(newer)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(newer, expected);
    }
    assert_eq!(
        cluster.query("SELECT max(n) FROM log"),
        raised.n.to_string()
    );
    assert!(expected.to_string().contains(&expected.version));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_passes_over_a_format_waits_for_a_base_behind_it() {
    let Some(server) = Postgres::start("a_version_that_passes_over_a_format") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let mut numbers = Numbers::new();
    let (_, stopped) = begun(&cluster, &mut numbers).await;
    let mut log = cluster.log();
    let head = arrive_newer(&mut log, &stopped).await;
    log.raise(head, 2).await.expect("it is raised");
    arrive_newer(&mut log, &stopped).await;
    // It leads from the first format to its own, and nowhere between.
    let folder = empty();
    let files = paths(&folder);
    let newest = CopiesAtRest {
        format: 3,
        upgrade: |_, _| Err("it must not be asked".to_owned()),
        ..copies(&files)
    };
    let refused = newest.bring_to_head(&mut log).await;
    assert!(matches!(refused, Err(AtRestError::NoBase)), "{refused:?}");
    assert_eq!(log.base_format().await, Ok(Some(1)));
    let mut node = as_newer(&cluster, stopped);
    node.keep_places();
    let of_node = ReplicaFile::ALL.map(|file| super::nodes::path(node.folder(), file));
    let base = MadeCopies::of([&of_node[0], &of_node[1]]).expect("they are copied");
    assert!(base.store(&mut log, 2).await.expect("it is stored"));
    assert_eq!(log.base_format().await, Ok(Some(2)));
    node.work(&mut numbers).await;
    node.follow().await;
    let arrived = newest.bring_to_head(&mut log).await;
    let arrived = arrived.expect("it arrives").expect("the log has begun");
    assert_eq!(arrived, log.head().await.expect("it answers").place);
    assert_eq!(formats(&folder), [AFTER; 2]);
    assert_eq!(Node::of(&cluster, folder).content(), node.content());
}
