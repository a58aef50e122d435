//! Bases of files that a node goes on using.

use super::at_rest::{arrive, copies, made, paths};
use super::nodes::{Node, path};
use super::*;
use crate::tests::Numbers;
use crate::{AtRestError, MadeCopies};

const FORMAT: i32 = 1;

/// The files of a node that has begun the log.
async fn begun(cluster: &Cluster<'_>, numbers: &mut Numbers) -> Node {
    let folder = made(numbers);
    let begun = copies(&paths(&folder)).begin_log(&mut cluster.log()).await;
    assert!(begun.expect("it begins"));
    Node::of(cluster, folder)
}

fn copied(node: &Node) -> MadeCopies {
    let paths = ReplicaFile::ALL.map(|file| path(node.folder(), file));
    MadeCopies::of([&paths[0], &paths[1]]).expect("they are copied")
}

/// Keeps them as a base; whether they are of one entry.
async fn stored(made: &MadeCopies, log: &mut Log) -> bool {
    let stored: Result<bool, AtRestError> = made.store(log, FORMAT).await;
    stored.expect("the database answers")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_node_takes_the_base_of_a_running_one() {
    let Some(server) = Postgres::start("a_new_node_takes_the_base") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let (mut numbers, mut log) = (Numbers::new(), cluster.log());
    let mut node = begun(&cluster, &mut numbers).await;
    let mut bases = Vec::new();
    for round in 0..12 {
        for _ in 0..numbers.below(4) {
            node.follow().await;
            node.work(&mut numbers).await;
        }
        node.follow().await;
        if round % 3 != 2 {
            node.keep_places();
        }
        let made = copied(&node);
        // What comes now is in no file of the base.
        let is_changed = numbers.below(2) == 1;
        if is_changed {
            node.work(&mut numbers).await;
            node.follow().await;
        }
        if stored(&made, &mut log).await {
            bases.push(log.head().await.expect("it answers").base);
            log.drop_bases().await.expect("they are dropped");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let place = arrive(&mut log, &folder).await.expect("it arrives");
        let head = log.head().await.expect("it answers");
        assert_eq!(place, Some(head.place));
        let other = Node::of(&cluster, folder);
        assert_eq!(other.content(), node.content(), "round {round}");
    }
    assert!(bases.len() > 3, "{bases:?}");
    assert!(bases.is_sorted() && bases[0] < bases[bases.len() - 1]);
    let parts = std::fs::read_dir(node.folder()).expect("a folder");
    let names = parts.map(|entry| entry.expect("an entry").file_name());
    let left: Vec<_> = names
        .filter(|name| name.to_string_lossy().contains(".base"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_between_which_the_catalog_was_changed_are_no_base() {
    let Some(server) = Postgres::start("copies_between_which_the_catalog") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let (mut numbers, mut log) = (Numbers::new(), cluster.log());
    let mut node = begun(&cluster, &mut numbers).await;
    let catalog = |head: LogHead| head.catalog;
    let mut refused = 0;
    for _ in 0..20 {
        node.follow().await;
        node.keep_places();
        let made = copied(&node);
        let before = catalog(log.head().await.expect("it answers"));
        node.work(&mut numbers).await;
        node.follow().await;
        let is_changed = catalog(log.head().await.expect("it answers")) != before;
        assert_eq!(stored(&made, &mut log).await, !is_changed);
        refused += u32::from(is_changed);
    }
    assert!((1..20).contains(&refused), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_of_before_the_first_entry_are_the_base_that_there_is() {
    let Some(server) = Postgres::start("copies_of_before_the_first_entry") else {
        return;
    };
    let mut numbers = Numbers::new();
    for round in 0..8 {
        let cluster = Cluster::new(&server, &format!("round_{round}")).await;
        let mut log = cluster.log();
        let mut node = begun(&cluster, &mut numbers).await;
        let made = copied(&node);
        node.work(&mut numbers).await;
        let head = log.head().await.expect("it answers");
        assert_eq!(stored(&made, &mut log).await, head.catalog == 0);
        assert_eq!(log.head().await.expect("it answers").base, 0);
    }
}
