//! Requests that were admitted by a catalog that another node has changed meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::Recheck;
use replica::log::{Log, NewEntry};
use replica::{LogEntry as Entry, LogPlace, SharedLog};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_key_is_revoked_meanwhile_is_not_stored() {
    let Some(server) = Postgres::start("a_request_whose_key_is_revoked_meanwhile") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let log = || Log::new(database.clone(), Uuid::now_v7());
    let shared = SharedLog::over(log(), 1).0;
    let options = PostgresOptions {
        database: database.clone(),
        node: Uuid::now_v7(),
        log: Some(shared.clone()),
        commit_wait: Duration::from_secs(60),
        pending_bytes_max: 64 << 20,
        seq_floor: Seq::MIN,
        log_retention: Duration::from_hours(1),
        log_retention_bytes: u64::MAX,
    };
    let opened = Journal::open_postgres(options, Arc::new(Metrics::new())).await;
    let journal = opened.expect("it opens");
    let is_admitted = Arc::new(AtomicBool::new(true));
    let checked = |key: &str| {
        let is_admitted = Arc::clone(&is_admitted);
        let recheck = Recheck::new(move || is_admitted.load(Ordering::SeqCst));
        Submission {
            recheck: Some(recheck),
            ..submission(&[key], Some(key))
        }
    };
    let before = journal.submit(checked("before")).await;
    before.expect("nothing has changed");
    // Another node revokes the key, and this one has not heard of it.
    let change = replica::change(&[]);
    let revoked = NewEntry {
        fence: None,
        before: LogPlace::default(),
        change: &change,
        seq: 0,
        low_water: 0,
        format: 1,
    };
    let (mut appending, mut following) = (log(), log());
    appending.append(&revoked).await.expect("it is appended");
    server.query("UPDATE headgate.log_head SET catalog = 1");
    // Lookups include it only when the journal asks for it.
    let followed = async {
        shared.lacking().await;
        is_admitted.store(false, Ordering::SeqCst);
        let read = shared.read(&mut following).await.expect("it reads");
        let applied = shared.apply(&read, |_, _: &Entry<'_>| Ok::<_, String>(()));
        applied.expect("it is applied");
        std::future::pending::<()>().await;
    };
    let submitted = tokio::select! {
        submitted = journal.submit(checked("late")) => submitted,
        () = followed => unreachable!("it never ends"),
    };
    assert_eq!(submitted, Err(JournalError::NotAdmitted));
    let stored = "SELECT count(*) FROM headgate.requests";
    assert_eq!(server.query(stored), "1");
    // One that is admitted still is stored by the new catalog.
    is_admitted.store(true, Ordering::SeqCst);
    let after = journal.submit(checked("after")).await;
    assert!(!after.expect("it is stored").replayed);
    assert_eq!(server.query(stored), "2");
    journal.close().await;
}
