//! Who runs the sinks, and who appends next.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sinks_are_taken_from_who_is_gone_or_silent_and_from_nobody_else() {
    let Some(server) = Postgres::start("the_sinks_are_taken_from_who_is_gone_or_silent") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let (mut a, mut b) = (cluster.log(), cluster.log());
    let change = said("a", ReplicaFile::Pool);
    let settles = |fence, before| NewEntry {
        fence: Some(fence),
        ..entry(before, &change)
    };
    assert_eq!(a.claim(None).await, Ok(Some(1)));
    assert_eq!(
        a.claim(None).await,
        Ok(Some(1)),
        "an answer that was lost is given again"
    );
    assert_eq!(b.claim(None).await, Ok(None));
    let beat = |head: FollowedEntries| head.head.beat;
    let seen = beat(b.follow(LogPlace::default()).await.expect("it follows"));
    // Each sign of life makes the beat that another has seen an old one: no clock of the server is asked.
    let one = a
        .append(&settles(1, LogPlace::default()))
        .await
        .expect("it is appended");
    assert_eq!(b.claim(Some(seen)).await, Ok(None));
    let seen = beat(b.follow(one).await.expect("it follows"));
    a.renew(1).await.expect("it is the owner");
    assert_eq!(b.claim(Some(seen)).await, Ok(None));
    // Nothing for as long as the other watches: it is frozen, and writes nothing when it wakes.
    let seen = beat(b.follow(one).await.expect("it follows"));
    assert_eq!(b.claim(Some(seen)).await, Ok(Some(2)));
    assert!(
        a.renew(1)
            .await
            .expect_err("it is not")
            .is(refusal::NOT_THE_OWNER)
    );
    let late = a.append(&settles(1, one)).await;
    assert!(matches!(late, Err(AppendError::NotTheOwner)), "{late:?}");
    let two = b.append(&settles(2, one)).await.expect("it is appended");
    // Its connection is gone: at once.
    b.forget_connection();
    let mut fence = None;
    while fence.is_none() {
        fence = a.claim(None).await.expect("it answers");
    }
    assert_eq!(fence, Some(3));
    // What it began to settle under its claim of before is not settled under the new one.
    let late = a.append(&settles(1, two)).await;
    assert!(matches!(late, Err(AppendError::NotTheOwner)), "{late:?}");
    // It lives, on another connection than the one that it claimed on.
    let frozen = b.follow(two).await.expect("it follows").head;
    assert_eq!(frozen.owner, Some(a.node));
    a.forget_connection();
    a.renew(3).await.expect("it is the owner");
    assert_eq!(b.claim(None).await, Ok(None));
    a.resign(3).await.expect("it lets go");
    assert_eq!(b.claim(None).await, Ok(Some(4)));
    // A life that begins anew is another node, and need not wait for its own connection of before.
    let mut again = Log::new(cluster.database.clone(), Uuid::now_v7());
    let seen = again.follow(two).await.expect("it follows").head.beat;
    assert_eq!(again.claim(Some(seen)).await, Ok(Some(5)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_reserves_the_log_is_not_overtaken_and_holds_nobody_up_for_long() {
    let Some(server) = Postgres::start("what_reserves_the_log_is_not_overtaken") else {
        return;
    };
    let cluster = Cluster::new(&server, "headgate").await;
    let mut log = cluster.log();
    let mut busy = cluster.log();
    let change = said("a", ReplicaFile::Pool);
    log.reserve().await.expect("it is reserved");
    let theirs = change.clone();
    let appending =
        tokio::spawn(async move { busy.append(&entry(LogPlace::default(), &theirs)).await });
    until_it_waits(&cluster).await;
    let followed = log.follow(LogPlace::default()).await.expect("it follows");
    let place = log
        .append(&entry(followed.head.place, &change))
        .await
        .expect("it is appended");
    let theirs = appending.await.expect("no panic");
    assert!(matches!(theirs, Err(AppendError::Behind)), "{theirs:?}");
    // Whoever holds it and does nothing loses it: the server ends the connection.
    log.reserve().await.expect("it is reserved");
    let mut other = cluster.log();
    let two = other
        .append(&entry(place, &change))
        .await
        .expect("it is appended");
    let late = log.append(&entry(place, &change)).await;
    assert!(matches!(late, Err(AppendError::Behind)), "{late:?}");
    // What was refused holds nothing.
    log.reserve().await.expect("it is reserved");
    let refused = log.append(&entry(place, &change)).await;
    assert!(matches!(refused, Err(AppendError::Behind)), "{refused:?}");
    other
        .append(&entry(two, &change))
        .await
        .expect("it is appended");
    log.reserve().await.expect("it is reserved");
    log.release().await;
    assert_eq!(cluster.query("SELECT head FROM log_head"), "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reserves_the_log_waits_for_no_server_that_is_silent() {
    let Some(server) = Postgres::start("who_reserves_the_log_waits_for_no_server") else {
        return;
    };
    let _cluster = Cluster::new(&server, "headgate").await;
    let line = Line::to(&server);
    let database = cluster_at(&line.url(), "headgate");
    let mut log = Log::new(database, Uuid::now_v7());
    reserved(&mut log).await;
    line.stall();
    log.answer_max = Duration::from_millis(200);
    let silent = log.reserve().await;
    assert!(matches!(silent, Err(DatabaseError::Away(_))), "{silent:?}");
    line.go_on();
    log.answer_max = ANSWER_MAX;
    reserved(&mut log).await;
    // What cannot be given up is forgotten, and the server ends it.
    line.stall();
    log.answer_max = Duration::from_millis(200);
    log.release().await;
    line.go_on();
    log.answer_max = ANSWER_MAX;
    reserved(&mut log).await;
}

/// Reserves the log, after whoever had it before.
async fn reserved(log: &mut Log) {
    while let Err(error) = log.reserve().await {
        assert!(matches!(error, DatabaseError::Conflict(_)), "{error:?}");
    }
}
