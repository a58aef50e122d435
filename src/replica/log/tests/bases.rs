//! Whole copies: whose are stored, and how long they stay.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// Files with this in them: of no part, and of several.
fn files(folder: &Path, text: &str) -> [PathBuf; 2] {
    let files = ["pool", "catalog"].map(|name| folder.join(name));
    fs::write(&files[0], text.repeat(3 << 20)).expect("a file");
    fs::write(&files[1], text).expect("a file");
    files
}

async fn store(log: &mut Log, place: LogPlace, text: &str) -> Result<(), BaseError> {
    let folder = tempfile::tempdir().expect("a folder");
    let [pool, catalog] = files(folder.path(), text);
    log.store_base(place, 1, [&pool, &catalog]).await
}

async fn load(log: &mut Log) -> Option<(LogPlace, String, usize)> {
    let folder = tempfile::tempdir().expect("a folder");
    let [pool, catalog] = ["pool", "catalog"].map(|name| folder.path().join(name));
    let place = log
        .load_base(1, [&pool, &catalog])
        .await
        .expect("it loads")?;
    let length = fs::read(&pool).expect("a file").len();
    Some((place, fs::read_to_string(&catalog).expect("a file"), length))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_base_is_of_an_entry_of_the_log_and_stays_while_it_is_loaded() {
    let Some(server) = Postgres::start("a_base_is_of_an_entry_of_the_log") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let (mut log, mut loader) = (cluster.log(), cluster.log());
    assert_eq!(load(&mut loader).await, None);
    let change = said("a", ReplicaFile::Pool);
    let one = log
        .append(&entry(LogPlace::default(), &change))
        .await
        .expect("it is appended");
    let two = log
        .append(&entry(one, &change))
        .await
        .expect("it is appended");
    // A node whose entry 1 is another one makes nobody's base.
    let other = LogPlace::default().after(b"other");
    let differs = store(&mut log, other, "x").await;
    assert!(matches!(differs, Err(BaseError::Differs)), "{differs:?}");
    store(&mut log, one, "1").await.expect("it is stored");
    assert_eq!(
        load(&mut loader).await,
        Some((one, "1".to_owned(), 3 << 20))
    );
    // While that one is loaded another is made: both stay, and the log behind the first.
    store(&mut log, two, "2").await.expect("it is stored");
    assert_eq!(log.follow(two).await.expect("it follows").head.base, 2);
    log.drop_bases().await.expect("it drops");
    assert_eq!(
        cluster.query("SELECT string_agg(n::text, ',' ORDER BY n) FROM bases"),
        "1,2"
    );
    cluster.query(
        "UPDATE cluster SET g = 2, lived_ms = 100; INSERT INTO generations VALUES (2, 1, 10)",
    );
    assert_eq!(cluster.query("SELECT count(*) FROM log_is_over(50)"), "0");
    // It ends, or is killed: nobody holds the first one any more.
    loader.forget_connection();
    while cluster.query("SELECT count(*) FROM bases") != "1" {
        log.drop_bases().await.expect("it drops");
    }
    assert_eq!(
        load(&mut loader).await,
        Some((two, "2".to_owned(), 3 << 20))
    );
    // The log of a generation goes when every base is behind it, and not before what was under way then has asked.
    assert_eq!(cluster.query("SELECT log_is_over(91)"), "");
    assert_eq!(cluster.query("SELECT log_is_over(90)"), "1");
    let three = log
        .append(&entry(two, &change))
        .await
        .expect("it is appended");
    assert_eq!(cluster.query("SELECT g FROM log WHERE n = 3"), "2");
    cluster.query("UPDATE log SET g = 1 WHERE n = 3");
    assert_eq!(cluster.query("SELECT count(*) FROM log_is_over(90)"), "0");
    assert_eq!(three.n, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_base_that_is_not_whole_is_none() {
    let Some(server) = Postgres::start("a_base_that_is_not_whole_is_none") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let (mut log, mut maker) = (cluster.log(), cluster.log());
    let folder = tempfile::tempdir().expect("a folder");
    let [pool, missing] = ["pool", "missing"].map(|name| folder.path().join(name));
    fs::write(&pool, "x").expect("a file");
    let failed = maker
        .store_base(LogPlace::default(), 1, [&pool, &missing])
        .await;
    assert!(matches!(failed, Err(BaseError::File(_))), "{failed:?}");
    assert_eq!(load(&mut log).await, None);
    // Its maker may be at it still.
    log.drop_bases().await.expect("it drops");
    assert_eq!(cluster.query("SELECT count(*) FROM base_parts"), "1");
    maker.forget_connection();
    while cluster.query("SELECT count(*) FROM base_parts") != "0" {
        log.drop_bases().await.expect("it drops");
    }
    // One of a newer format is for others.
    maker
        .store_base(LogPlace::default(), 2, [&pool, &pool])
        .await
        .expect("it is stored");
    assert_eq!(load(&mut log).await, None);
    let lacks = sqlx::query("SELECT end_base(id, '{1,2}', '') FROM bases");
    log.ask(postgres::DatabaseCall::Base, lacks)
        .await
        .expect_err("a part of the second file is missing");
}
