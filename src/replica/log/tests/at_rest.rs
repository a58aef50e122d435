//! Copies that nobody has open: one node begins the log, the others take what it has, and what is of no use goes.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tempfile::TempDir;

use super::nodes::{Node, path};
use super::*;
use crate::tests::random::{change_something, targets};
use crate::tests::{Numbers, content, make as make_file, open};
use crate::{AtRestError, CopiesAtRest, Tally};

pub(super) fn paths(folder: &TempDir) -> [PathBuf; 2] {
    ReplicaFile::ALL.map(|file| path(folder.path(), file))
}

pub(super) fn copies(paths: &[PathBuf; 2]) -> CopiesAtRest<'_> {
    CopiesAtRest {
        files: [&paths[0], &paths[1]],
        format: 1,
        upgrade: |_, _| Err("there is no older format".to_owned()),
    }
}

pub(super) async fn arrive(
    log: &mut Log,
    folder: &TempDir,
) -> Result<Option<LogPlace>, AtRestError> {
    copies(&paths(folder)).bring_to_head(log).await
}

/// Files that no other folder has.
pub(super) fn made(numbers: &mut Numbers) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ReplicaFile::ALL {
        let path = path(folder.path(), file);
        make_file(file, &path);
        let connection = open(&path);
        let targets = targets(&connection);
        for _ in 0..50 {
            change_something(&connection, numbers, &targets);
        }
    }
    folder
}

/// The rows of both files, apart from their places.
fn rows(folder: &Path) -> Vec<String> {
    let lines = ReplicaFile::ALL.map(|file| content(&open(&path(folder, file))));
    let lines = lines.into_iter().flatten();
    lines
        .filter(|line| !line.starts_with("replica: "))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_begins_the_log_and_the_other_takes_its_files() {
    let Some(server) = Postgres::start("one_node_begins_the_log") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let mut numbers = Numbers::new();
    let folders = [made(&mut numbers), made(&mut numbers)];
    assert_ne!(rows(folders[0].path()), rows(folders[1].path()));
    let mut beginning = Vec::new();
    for folder in folders {
        let mut log = cluster.log();
        beginning.push(tokio::spawn(async move {
            let empty = tempfile::tempdir().expect("a folder");
            let before = arrive(&mut log, &empty).await.expect("it asks");
            assert!(matches!(before, None | Some(LogPlace { n: 0, .. })));
            let is_first = copies(&paths(&folder)).begin_log(&mut log).await;
            (is_first.expect("it begins, or not"), folder)
        }));
    }
    let (mut first, mut others) = (None, Vec::new());
    for began in beginning {
        match began.await.expect("no panic") {
            (true, folder) => assert!(first.replace(folder).is_none(), "two have begun it"),
            (false, folder) => others.push(folder),
        }
    }
    let first = first.expect("one has begun it");
    let (other, mut log) = (&others[0], cluster.log());
    assert!(paths(other).iter().all(|path| !path.exists()));
    let place = arrive(&mut log, other).await.expect("it arrives");
    assert_eq!(place, arrive(&mut log, &first).await.expect("it is there"));
    assert_eq!(rows(first.path()), rows(other.path()));
    // The other one follows what the first one does from then on.
    let mut node = Node::of(&cluster, first);
    for _ in 0..10 {
        node.follow().await;
        node.work(&mut numbers).await;
    }
    node.follow().await;
    let place = arrive(&mut log, other).await.expect("it arrives");
    assert_eq!(place.map(|place| place.n), Some(10));
    assert_eq!(node.content(), rows(other.path()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_no_use_is_taken_anew_and_a_file_of_nobody_is_left_alone() {
    let Some(server) = Postgres::start("a_copy_of_no_use_is_taken_anew") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let mut numbers = Numbers::new();
    let (folder, mut log) = (made(&mut numbers), cluster.log());
    assert!(
        copies(&paths(&folder))
            .begin_log(&mut log)
            .await
            .expect("it begins")
    );
    let mut node = Node::of(&cluster, folder);
    for _ in 0..5 {
        node.follow().await;
        node.work(&mut numbers).await;
    }
    node.follow().await;
    let expected = node.content();
    let copy = tempfile::tempdir().expect("a folder");
    arrive(&mut log, &copy).await.expect("it arrives");
    assert_eq!(rows(copy.path()), expected);

    let [pool, catalog] = paths(&copy);
    let elsewhere = |connection: &Connection, n| {
        let place = LogPlace::default().after(b"elsewhere");
        LogPlace { n, ..place }
            .store(connection)
            .expect("it stores");
    };
    let faults: [(&str, &dyn Fn()); 6] = [
        ("deleted", &|| fs::remove_file(&pool).expect("it is there")),
        ("truncated", &|| {
            let file = fs::OpenOptions::new().write(true).open(&catalog);
            file.and_then(|file| file.set_len(3_000)).expect("a file");
        }),
        ("without its first page", &|| {
            let file = fs::OpenOptions::new().write(true).open(&pool);
            let written = file.and_then(|file| file.write_all_at(&[7; 2_048], 0));
            written.expect("a file");
        }),
        ("with another entry", &|| elsewhere(&open(&catalog), 5)),
        ("ahead of the log", &|| elsewhere(&open(&pool), 9)),
        ("with another entry in the middle", &|| {
            elsewhere(&open(&pool), 3)
        }),
    ];
    for (at, (fault, make)) in faults.into_iter().enumerate() {
        let epoch = cluster.query("SELECT epoch FROM cluster");
        make();
        let place = arrive(&mut log, &copy).await.expect(fault);
        assert_eq!(place.map(|place| place.n), Some(5), "{fault}");
        assert_eq!(rows(copy.path()), expected, "{fault}");
        // What a copy has and the log has not is lost.
        let has_lost = cluster.query("SELECT epoch FROM cluster") != epoch;
        assert_eq!(has_lost, at > 2, "{fault}");
    }

    // A file that was never a copy, and has whatever somebody keeps in it.
    let own = made(&mut numbers);
    let before = rows(own.path());
    let refused = arrive(&mut log, &own).await;
    assert!(
        matches!(refused, Err(AtRestError::OtherFile(_))),
        "{refused:?}"
    );
    assert_eq!(rows(own.path()), before);

    // Neither an entry nor a base: there is nothing to be had, and the copy stays.
    cluster.query("DELETE FROM bases; DELETE FROM log WHERE n < 5");
    elsewhere(&open(&pool), 3);
    let refused = arrive(&mut log, &copy).await;
    assert!(matches!(refused, Err(AtRestError::NoBase)), "{refused:?}");
    assert!(pool.exists() && catalog.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_of_a_cluster_begin_no_other_one() {
    let Some(server) = Postgres::start("copies_of_a_cluster_begin_no_other_one") else {
        return;
    };
    let [cluster, empty] = [
        Cluster::new(&server, "headgate").await,
        Cluster::new(&server, "other").await,
    ];
    let mut numbers = Numbers::new();
    let (folder, mut log) = (made(&mut numbers), cluster.log());
    let begun = copies(&paths(&folder)).begin_log(&mut log).await;
    assert!(begun.expect("it begins"));
    // A node that was killed before the log had begun goes on.
    let arrived = arrive(&mut empty.log(), &folder).await;
    assert!(matches!(arrived, Ok(None)), "{arrived:?}");
    let copy = tempfile::tempdir().expect("a folder");
    let mut node = Node::of(&cluster, folder);
    node.follow().await;
    node.work(&mut numbers).await;
    let place = arrive(&mut log, &copy).await.expect("it arrives");
    assert_eq!(place.map(|place| place.n), Some(1));
    let before = rows(copy.path());
    let refused = arrive(&mut empty.log(), &copy).await;
    assert!(matches!(refused, Err(AtRestError::NoLog)), "{refused:?}");
    assert_eq!(rows(copy.path()), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_begun_within_a_transaction_or_not_at_all() {
    const WAIT: Duration = Duration::from_secs(60);
    let Some(server) = Postgres::start("a_log_is_begun_within_a_transaction") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let mut numbers = Numbers::new();
    let (folder, other) = (made(&mut numbers), tempfile::tempdir().expect("a folder"));
    let tallies =
        |folder: &TempDir| paths(folder).map(|path| Tally::of_file(&path).expect("it reads"));
    let expected = tallies(&folder);
    for end in ["ROLLBACK", "COMMIT"] {
        let before = arrive(&mut cluster.log(), &other).await;
        assert_eq!(before.expect("it asks"), None, "{end}");
        let paths = paths(&folder);
        let base = copies(&paths).first_base().expect("copies");
        let mut connection = cluster.begun().await;
        let away = paths.each_ref().map(|path| path.with_extension("away"));
        let rename = |from: &PathBuf, to: &PathBuf| fs::rename(from, to).expect("it is renamed");
        paths
            .iter()
            .zip(&away)
            .for_each(|(path, away)| rename(path, away));
        // Large files are not copied again while the transaction is idle.
        let begun = base.store_within(&mut connection, WAIT).await;
        assert!(begun.expect("it begins"), "the database has the files");
        paths
            .iter()
            .zip(&away)
            .for_each(|(path, away)| rename(away, path));
        let ended = sqlx::raw_sql(end).execute(&mut connection).await;
        ended.expect("it ends");
    }
    let arrived = arrive(&mut cluster.log(), &other)
        .await
        .expect("it arrives");
    assert_eq!(arrived.map(|place| place.n), Some(0));
    assert_eq!(tallies(&other), expected);
    let pool = &paths(&other)[0];
    assert!(crate::is_copy(pool).expect("it reads"));
    copies(&paths(&other)).leave_log().expect("it leaves");
    assert!(!crate::is_copy(pool).expect("it reads"));
    assert_eq!(tallies(&other), expected);
}
