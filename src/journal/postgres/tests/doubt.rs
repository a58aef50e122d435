//! Requests of which the database's answer is lost.

use std::sync::atomic::{AtomicBool, Ordering};

use postgres_server::Line;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_answer_is_lost_is_settled_and_never_guessed() {
    let Some(server) = Postgres::start("a_group_whose_answer_is_lost_is_settled_and_never_guessed")
    else {
        return;
    };
    let line = Line::to(&server);
    let journal = open_with(&line.url(), Duration::from_millis(500)).await;
    // A busy server answers later than that now and then.
    let until_stored = async |key, claim| loop {
        match journal.submit(submission(&[key], Some(claim))).await {
            Ok(stored) => break stored,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    until_stored("a", "before").await;
    // It is committed, and nobody is told.
    line.stall_at("in-doubt");
    let lost = journal.submit(submission(&["b"], Some("in-doubt"))).await;
    assert_eq!(lost, Err(JournalError::Unconfirmed));
    let refused = journal.submit(submission(&["c"], None)).await;
    assert_eq!(refused, Err(JournalError::Unreachable));
    line.go_on();
    // Once the server is asked, the numbers of groups go on behind the one that was lost.
    until_stored("d", "after").await;
    assert!(until_stored("b", "in-doubt").await.replayed);
    assert_eq!(keys_after(&journal, Seq::MIN, 3).await, ["a", "b", "d"]);
    journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_of_the_database_lose_nothing_and_double_nothing() {
    const CRASHES: usize = 5;
    let Some(mut server) =
        Postgres::start("crashes_of_the_database_lose_nothing_and_double_nothing")
    else {
        return;
    };
    let journal = open(&server.url()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..16 {
        let (journal, stop) = (Arc::clone(&journal), Arc::clone(&stop));
        callers.spawn(async move {
            let mut stored = Vec::new();
            for at in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("{caller}-{at}");
                // As a caller does: the same again, until it is acknowledged.
                while journal
                    .submit(submission(&[&name], Some(&name)))
                    .await
                    .is_err()
                {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                stored.push(name);
            }
            stored
        });
    }
    for _ in 0..CRASHES {
        let before = journal.lag(Seq::MIN);
        while journal.lag(Seq::MIN) < before + 50 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let restarting = tokio::task::spawn_blocking(move || {
            server.crash();
            server.resume();
            server
        });
        server = restarting.await.expect("it starts again");
    }
    stop.store(true, Ordering::Relaxed);
    let mut stored = Vec::new();
    while let Some(names) = callers.join_next().await {
        stored.extend(names.expect("no panic"));
    }
    let mut read = keys_after(&journal, Seq::MIN, stored.len()).await;
    read.sort();
    stored.sort();
    assert!(
        read == stored,
        "{} read, {} stored",
        read.len(),
        stored.len()
    );
    journal.close().await;
}
