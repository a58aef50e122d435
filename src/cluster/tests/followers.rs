//! Nodes that follow the log, on a PostgreSQL of the tests' own.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::Follower;
use replica::SharedLog;

/// A node that applies an entry when the test lets it.
struct Following {
    copy: crate::Copy,
    /// The entries that it was handed, each with the one before.
    handed: Receiver<(u64, u64)>,
    go_on: Sender<()>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Following {
    fn start(database: &Database) -> Self {
        let log = || Log::new(database.clone(), Uuid::now_v7());
        let shared = SharedLog::over(log(), 1).0;
        let ((handing, handed), (go_on, goes_on)) = (channel(), channel());
        let goes_on = Mutex::new(goes_on);
        let apply = move |before: LogPlace, entry: &replica::LogEntry<'_>| {
            let handed = handing.send((before.n, entry.place.n));
            handed.map_err(|error| error.to_string())?;
            let goes_on = goes_on.lock().expect("no panic while held");
            let allowed = tokio::task::block_in_place(|| goes_on.recv());
            allowed.map_err(|error| error.to_string())
        };
        let follower = Follower::new(log(), shared, Box::new(apply), Box::new(|| Ok(())));
        let stop = CancellationToken::new();
        Self {
            copy: follower.copy(),
            handed,
            go_on,
            task: tokio::spawn(follower.run(stop.clone())),
            stop,
        }
    }

    /// The next entry that it is handed, and has not applied yet.
    fn next(&self) -> (u64, u64) {
        let handed = tokio::task::block_in_place(|| self.handed.recv());
        handed.expect("it lives")
    }

    /// Whether it says by now that it has all.
    async fn has_all(&self, until: Duration) -> bool {
        let at_once = Duration::ZERO;
        let level = tokio::time::timeout(at_once, self.copy.caught_up()).await;
        let all = tokio::time::timeout(at_once, self.copy.has_all_until(until)).await;
        level.is_ok() && all.is_ok()
    }
}

/// Appends so many entries; the place behind them.
async fn append(log: &mut Log, mut place: LogPlace, count: usize) -> LogPlace {
    let change = replica::change(&[]);
    for _ in 0..count {
        let entry = NewEntry {
            fence: None,
            before: place,
            change: &change,
            seq: 0,
            low_water: 0,
            format: 1,
        };
        place = log.append(&entry).await.expect("it is appended");
    }
    place
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_has_all_when_the_last_entry_is_applied_and_not_before() {
    let Some(server) = Postgres::start("a_node_has_all_when_the_last_entry_is_applied") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let mut log = Log::new(database.clone(), Uuid::now_v7());
    let place = append(&mut log, LogPlace::default(), 3).await;
    let node = Following::start(&database);
    for n in 1..=3 {
        assert_eq!(node.next(), (n - 1, n));
        assert!(!node.has_all(Duration::ZERO).await, "entry {n} is missing");
        assert_eq!(node.copy.delay(), None);
        node.go_on.send(()).expect("it lives");
    }
    node.copy.caught_up().await.expect("it follows");
    assert!(node.copy.delay().is_some());
    // What came since: it asks again, and says so when that is applied, too.
    append(&mut log, place, 1).await;
    let asked = since_boot();
    assert_eq!(node.next(), (3, 4));
    assert!(!node.has_all(asked).await, "entry 4 is missing");
    node.go_on.send(()).expect("it lives");
    let all = node.copy.has_all_until(asked).await;
    all.expect("it follows");
    node.stop.cancel();
    node.task.await.expect("no panic");
}
