//! What nodes do when something is lost: an answer, a process, the sinks, the database, an entry.

use super::*;
use postgres_server::Line;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_that_is_lost_is_no_second_change() {
    let Some(server) = Postgres::start("an_answer_that_is_lost_is_no_second_change") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let line = Line::to(&server);
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::open_over(
        &postgres_server::cluster_at(&line.url(), "headgate"),
        &database,
        folder.path(),
    )
    .await;
    node.catch_up().await;
    let _following = node.follow();
    block_in_place(|| node.pool.begin()).expect("an epoch");
    let head = || server.query("SELECT head FROM headgate.log_head");
    let before = head();
    // It is in the bytes of the entry.
    line.stall_at("lost_answer");
    let adding = {
        let node = Arc::clone(&node);
        tokio::task::spawn_blocking(move || node.add("scores", "lost_answer"))
    };
    // It is committed there, the node is not told, and shows nothing.
    while head() == before {
        tokio::task::yield_now().await;
    }
    assert!(!adding.is_finished());
    assert!(
        node.pool
            .item("scores", "lost_answer")
            .await
            .expect("it reads")
            .is_none()
    );
    line.go_on();
    adding.await.expect("no panic").expect("it adds");
    let total = node
        .pool
        .item("scores", "lost_answer")
        .await
        .expect("it reads");
    assert_eq!(total.map(|item| item.fields).as_deref(), Some(r#"{"n":1}"#));
    assert_eq!(node.query("pool.db", "SELECT count(*) FROM acts"), 1);
}

/// The log has an entry that one file has, and the other not, or neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_was_killed_between_two_commits_follows_on() {
    let Some(server) = Postgres::start("a_node_that_was_killed_between_two_commits") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let (one, _following) = Node::start(&database, folders[0].path()).await;
    // As a kill leaves them: the file and its log of writes.
    for lost in [
        &["pool.db"][..],
        &["catalog.db"],
        &["pool.db", "catalog.db"],
    ] {
        let name = lost.join("_").replace('.', "_");
        let other = Node::open(&database, folders[1].path()).await;
        other.catch_up().await;
        let kept: Vec<(std::path::PathBuf, Vec<u8>)> = (lost.iter())
            .flat_map(|file| [(*file).to_owned(), format!("{file}-wal")])
            .filter_map(|file| {
                let path = other.folder.join(file);
                Some((path.clone(), std::fs::read(path).ok()?))
            })
            .collect();
        let following = other.follow();
        block_in_place(|| {
            other.add("scores", &name).expect("it adds");
            other.create_stream(&name).expect("it makes");
            one.add("scores", "total").expect("it adds");
        });
        following.abort();
        let _ = following.await;
        drop(other);
        for file in lost {
            for end in ["-wal", "-shm"] {
                let _ = std::fs::remove_file(folders[1].path().join(format!("{file}{end}")));
            }
        }
        for (path, bytes) in kept {
            std::fs::write(path, bytes).expect("it writes");
        }
        let again = Node::open(&database, folders[1].path()).await;
        again.catch_up().await;
        assert!(again.catalog.stream(&name).is_some());
        assert_equal(&[&one, &again]).await;
        let _following = again.follow();
        block_in_place(|| again.add("scores", "total")).expect("it adds");
        _following.abort();
    }
    let total = one.query(
        "pool.db",
        "SELECT max(json_extract(fields, '$.n')) FROM shown",
    );
    assert!(total >= 5, "{total}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_lost_the_sinks_settles_nothing_and_goes_on_otherwise() {
    let Some(server) = Postgres::start("who_lost_the_sinks_settles_nothing") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let (one, _one) = Node::start(&database, folders[0].path()).await;
    let (other, _other) = Node::start(&database, folders[1].path()).await;
    assert_ne!(one.id, other.id);
    let refused = block_in_place(|| one.settle(&batch(1, &["a"])));
    let is_refused = |refused: &Result<(), PoolError>| {
        let error = refused.as_ref().err().and_then(PoolError::of_log);
        matches!(error, Some(LogError::NotTheOwner))
    };
    assert!(is_refused(&refused), "{refused:?}");
    one.claim().await;
    block_in_place(|| one.settle(&batch(1, &["a"]))).expect("it settles");
    // In the middle: it does not know yet.
    other.claim().await;
    let refused = block_in_place(|| one.settle(&batch(2, &["b"])));
    assert!(is_refused(&refused), "{refused:?}");
    block_in_place(|| {
        one.add("scores", "total").expect("it adds");
        one.create_stream("made").expect("it makes");
        other.settle(&batch(2, &["c"])).expect("it settles");
    });
    assert_equal(&[&one, &other]).await;
    assert_eq!(one.pool.sizes().of(STREAM).items, 2);
    assert!(
        one.pool
            .item(STREAM, "b")
            .await
            .expect("it reads")
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_that_is_away_refuses_and_passes() {
    let Some(mut server) = Postgres::start("a_database_that_is_away_refuses_and_passes") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let folder = tempfile::tempdir().expect("a folder");
    let (node, following) = Node::start(&database, folder.path()).await;
    block_in_place(|| node.add("scores", "total")).expect("it adds");
    server.crash();
    following.abort();
    // What is not sent is not done; what was sent is asked for until it is known.
    let adding = {
        let node = Arc::clone(&node);
        tokio::task::spawn_blocking(move || {
            (node.add("scores", "total"), node.create_stream("made"))
        })
    };
    let shown = node.pool.item("scores", "total").await.expect("it reads");
    assert_eq!(shown.map(|item| item.fields).as_deref(), Some(r#"{"n":1}"#));
    server.resume();
    let (added, made) = adding.await.expect("no panic");
    let times = match &added {
        Ok(()) => 2,
        Err(error) => {
            assert!(error.passes(), "{error}");
            assert!(error.to_string().contains("nothing was changed"), "{error}");
            1
        }
    };
    if let Err(error) = &made {
        assert!(error.passes(), "{error}");
    }
    let _following = node.follow();
    block_in_place(|| node.add("scores", "total")).expect("it adds");
    let shown = node.pool.item("scores", "total").await.expect("it reads");
    let expected = format!(r#"{{"n":{}}}"#, times + 1);
    assert_eq!(shown.map(|item| item.fields).as_deref(), Some(&*expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_copy_that_differs_writes_nothing_any_more() {
    let Some(server) = Postgres::start("a_copy_that_differs_writes_nothing_any_more") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let (one, _following) = Node::start(&database, folders[0].path()).await;
    let other = Node::open(&database, folders[1].path()).await;
    other.catch_up().await;
    block_in_place(|| one.add("scores", "total")).expect("it adds");
    // A failover has lost the entry that the first node has; another one came.
    server.query(
        "DELETE FROM headgate.log WHERE n = (SELECT head FROM headgate.log_head);
         UPDATE headgate.log_head SET head = head - 1,
            digest = (SELECT digest FROM headgate.log ORDER BY n DESC LIMIT 1)",
    );
    block_in_place(|| other.create_stream("made")).expect("it makes");
    let differs = |error: Option<&LogError>| matches!(error, Some(LogError::Differs));
    let adds = block_in_place(|| one.add("scores", "total")).expect_err("it differs");
    assert!(differs(adds.of_log()), "{adds}");
    let makes = block_in_place(|| one.create_stream("other")).expect_err("it differs");
    let is_told = matches!(&makes, catalog::CatalogError::Log(LogError::Differs));
    assert!(is_told, "{makes}");
}
