//! Nodes with files of their own on one log, in a PostgreSQL of the test's own.
#![expect(
    clippy::disallowed_methods,
    reason = "no daemon tracks the tasks of a test"
)]

mod faults;
mod large;

use std::time::Duration;

use serde_json::json;
use tokio::task::{JoinHandle, block_in_place};

use super::*;
use crate::acts::{Act, Author};
use catalog::{Actor, Catalog};
use postgres::Database;
use postgres_server::Postgres;
use replica::log::Log;
use replica::{LogEntry, LogError, LogPlace, SharedLog};
use settings::{Patch, Settings};

/// A node that has nothing else to do looks this often for what others have appended.
const POLL: Duration = Duration::from_millis(5);

/// A node: both files, their log, and what it follows with.
struct Node {
    id: Uuid,
    log: SharedLog,
    pool: Arc<Pool>,
    catalog: Arc<Catalog>,
    reading: tokio::sync::Mutex<Log>,
    folder: std::path::PathBuf,
}

impl Node {
    /// Opens the files of a folder. Nothing is followed yet.
    async fn open(database: &Database, folder: &Path) -> Arc<Self> {
        Self::open_over(database, database, folder).await
    }

    /// The same with a way of its own for what it appends.
    async fn open_over(appending: &Database, following: &Database, folder: &Path) -> Arc<Self> {
        let id = Uuid::now_v7();
        let (log, task) = SharedLog::over(Log::new(appending.clone(), id), 1);
        tokio::spawn(task);
        let fail_stop = FailStop::default();
        let path = folder.join("catalog.db");
        let catalog = Catalog::open_logged(&path, &Settings::default(), &fail_stop, &log);
        let pool = Pool::open_logged(&folder.join("pool.db"), &fail_stop, &log).await;
        let (pool, catalog) = (pool.expect("it opens"), catalog.expect("it opens").0);
        // As the daemon does, under the catalog's lock.
        let told = Arc::clone(&pool);
        catalog.follow_streams(move |streams| {
            let names = || streams.values().map(|stream| Arc::clone(&stream.name));
            told.set_on_update(names().map(|name| (name, OnUpdate::Merge)).collect());
            told.set_history(names().map(|name| (name, 3)).collect());
        });
        Arc::new(Self {
            id,
            log,
            pool,
            catalog: Arc::new(catalog),
            reading: tokio::sync::Mutex::new(Log::new(following.clone(), id)),
            folder: folder.to_owned(),
        })
    }

    /// Opens, follows from now on, and is as far as the log.
    async fn start(database: &Database, folder: &Path) -> (Arc<Self>, JoinHandle<()>) {
        let node = Self::open(database, folder).await;
        node.catch_up().await;
        let following = node.follow();
        block_in_place(|| node.pool.begin()).expect("an epoch");
        (node, following)
    }

    fn apply(&self, before: LogPlace, entry: &LogEntry<'_>) -> Result<(), String> {
        let done = self.catalog.follow_entry(before, entry);
        done.map_err(|error| error.to_string())?;
        let done = self.pool.follow_entry(before, entry);
        done.map_err(|error| error.to_string())
    }

    /// One round; how many entries there were.
    async fn round(&self) -> Result<usize, String> {
        let read = self.log.read(&mut *self.reading.lock().await).await;
        let read = read.map_err(|error| error.to_string())?;
        block_in_place(|| {
            let apply = |before, entry: &LogEntry<'_>| self.apply(before, entry);
            self.log.apply(&read, apply)
        })?;
        Ok(read.entries.len())
    }

    async fn catch_up(&self) {
        while self.round().await.expect("it follows") > 0 {}
    }

    /// Follows until it is aborted.
    fn follow(self: &Arc<Self>) -> JoinHandle<()> {
        let node = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                if !matches!(node.round().await, Ok(1..)) {
                    let _ = tokio::time::timeout(POLL, node.log.lacking()).await;
                }
            }
        })
    }

    /// Takes the sinks from whoever has them.
    async fn claim(&self) -> i64 {
        let mut log = self.reading.lock().await;
        let head = log
            .follow(LogPlace::default())
            .await
            .expect("it reads")
            .head;
        let fence = log.claim(Some(head.beat)).await.expect("it asks");
        let fence = fence.expect("nobody else claims");
        self.log.set_fence(Some(fence));
        fence
    }

    fn settle(&self, batch: &Batch) -> Result<(), PoolError> {
        let settlement = Settlement {
            sink: "pool".into(),
            staged: Staged {
                effects: vec![Effect::Upsert(batch.clone())],
                publishes: vec![batch.clone()],
                ..Staged::default()
            },
            cursor: Some(batch.slices()[0].entry.seq),
            ..Settlement::default()
        };
        self.pool.settle(&settlement).map(drop)
    }

    /// Adds 1 to what is shown of the field `n` of an item.
    fn add(&self, stream: &str, key: &str) -> Result<(), PoolError> {
        let act = Act::Add {
            key: key.to_owned(),
            field: "n".to_owned(),
            step: "1".to_owned(),
            until: None,
            create: true,
        };
        let by = Author {
            operator: "admin token".into(),
            name: "admin".into(),
            client: "127.0.0.1".to_owned(),
            request_id: Uuid::now_v7(),
        };
        let done = self.pool.act(&stream.into(), &act, &by, None)?;
        done.unwrap_or_else(|refused| panic!("{refused:?}"));
        Ok(())
    }

    fn create_stream(&self, name: &str) -> Result<(), catalog::CatalogError> {
        let body = json!({ "name": name }).as_object().cloned();
        let patch = Patch::of_new(settings::Stream::FIELDS, &[], body.expect("an object"));
        let actor = Actor {
            who: "admin token".into(),
            client: "127.0.0.1".to_owned(),
        };
        let patch = patch.expect("a body");
        self.catalog.create_stream(&patch, &actor).map(drop)
    }

    fn query(&self, file: &str, sql: &str) -> i64 {
        let connection = sqlite::open_reader(&self.folder.join(file), &Arc::default());
        let number = connection
            .expect("it opens")
            .query_row(sql, [], |row| row.get(0));
        number.expect("a number")
    }
}

/// All have the rows of the first, and what memory has of them fits.
async fn assert_equal(nodes: &[&Arc<Node>]) {
    for node in nodes {
        node.catch_up().await;
    }
    let open = |node: &Node, file: &str| {
        sqlite::open_reader(&node.folder.join(file), &Arc::default()).expect("it opens")
    };
    let (first, others) = nodes.split_first().expect("a node");
    for other in others {
        for file in ["catalog.db", "pool.db"] {
            copies::assert_equal(&open(first, file), &open(other, file));
        }
        assert_eq!(other.pool.position(), first.pool.position());
        for stream in ["orders", "scores", "merged"] {
            let sizes = [first, other].map(|node| node.pool.sizes().of(stream));
            assert_eq!(sizes[0], sizes[1], "{stream}");
        }
        let streams = [first, other].map(|node| {
            let streams = node.catalog.streams().into_iter();
            streams.map(|one| one.name.to_string()).collect::<Vec<_>>()
        });
        assert_eq!(streams[0], streams[1]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_write_at_once_end_with_equal_copies_and_do_all_once() {
    const TIMES: u64 = 12;
    let Some(server) = Postgres::start("nodes_that_write_at_once_end_with_equal_copies") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let mut nodes = Vec::new();
    let mut following = Vec::new();
    for folder in &folders {
        let (node, task) = Node::start(&database, folder.path()).await;
        nodes.push(node);
        following.push(task);
    }
    nodes[0].claim().await;
    block_in_place(|| {
        nodes[0]
            .pool
            .add_sink("pool", Seq::new(0))
            .expect("it writes");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for seq in 1..=5 * TIMES {
                    let key = format!("k{}", seq % 17);
                    let batch = batch_of(STREAM, seq, &[("a", r#"{"x":1}"#), (&key, r#"{"y":2}"#)]);
                    nodes[0].settle(&batch).expect("it settles");
                }
            });
            for (number, node) in nodes.iter().enumerate() {
                scope.spawn(move || {
                    for _ in 0..TIMES {
                        node.add("scores", "total").expect("it adds");
                    }
                });
                scope.spawn(move || {
                    for at in 0..TIMES {
                        let made = node.create_stream(&format!("s{number}_{at}"));
                        made.expect("it makes");
                        let swept = node.pool.sweep_past_values(|| false);
                        swept.expect("it sweeps");
                    }
                });
            }
        });
    });
    following.iter().for_each(JoinHandle::abort);
    let all: Vec<&Arc<Node>> = nodes.iter().collect();
    assert_equal(&all).await;
    for node in &nodes {
        let shown = node.pool.item("scores", "total").await.expect("it reads");
        let expected = format!(r#"{{"n":{}}}"#, 3 * TIMES);
        assert_eq!(shown.map(|item| item.fields).as_deref(), Some(&*expected));
        assert_eq!(node.pool.sizes().of(STREAM).items, 18);
        assert_eq!(node.query("pool.db", "SELECT count(*) FROM acts"), 36);
        assert_eq!(node.query("catalog.db", "SELECT count(*) FROM audit"), 36);
        let recorded = node.query("pool.db", "SELECT count(*) FROM recorded_streams");
        assert!(recorded >= 36, "{recorded}");
        let verified = node.catalog.verify_audit(None).expect("it reads");
        assert!(verified.is_good(), "{verified:?}");
    }
    // As opening the files anew would leave it.
    for (node, folder) in nodes.into_iter().zip(&folders) {
        let position = node.pool.position();
        let sizes = node.pool.sizes().of(STREAM);
        node.pool.close().await.expect("it closes");
        drop(node);
        let anew = Node::open(&database, folder.path()).await;
        assert_eq!(
            (anew.pool.position(), anew.pool.sizes().of(STREAM)),
            (position, sizes)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn work_that_was_overtaken_runs_again_on_what_came_before() {
    let Some(server) = Postgres::start("work_that_was_overtaken_runs_again") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let (one, _following) = Node::start(&database, folders[0].path()).await;
    let other = Node::open(&database, folders[1].path()).await;
    other.catch_up().await;
    assert_eq!(one.pool.position(), other.pool.position());
    // The other node knows nothing of these when its own begin.
    block_in_place(|| {
        for _ in 0..3 {
            one.add("scores", "total").expect("it adds");
        }
        one.create_stream("made").expect("it makes");
    });
    assert!(other.catalog.stream("made").is_none());
    let _following = other.follow();
    block_in_place(|| {
        other.add("scores", "total").expect("it adds");
        let taken = other.create_stream("made").expect_err("there is one");
        let is_taken = matches!(taken, catalog::CatalogError::Taken(_));
        assert!(is_taken, "{taken:?}");
        other.create_stream("more").expect("it makes");
    });
    assert_equal(&[&one, &other]).await;
    let total = one.pool.item("scores", "total").await.expect("it reads");
    assert_eq!(total.map(|item| item.fields).as_deref(), Some(r#"{"n":4}"#));
    assert_eq!(one.catalog.streams().len(), 2);
}

/// Two nodes of which neither follows the log by itself. The other one has what the first one began with.
async fn two_at_rest(database: &Database, folders: &[tempfile::TempDir; 2]) -> [Arc<Node>; 2] {
    let (one, following) = Node::start(database, folders[0].path()).await;
    following.abort();
    let other = Node::open(database, folders[1].path()).await;
    other.catch_up().await;
    [one, other]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_agree_on_the_epoch_that_follows_on_a_loss() {
    let Some(server) = Postgres::start("nodes_agree_on_the_epoch_that_follows") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [one, other] = two_at_rest(&database, &folders).await;
    block_in_place(|| one.add(STREAM, "a").expect("it adds"));
    other.catch_up().await;
    let before = one.pool.position();
    let listener = other.pool.changes().listen(&["another".into()], None);
    let epoch = Epoch::new(7);
    block_in_place(|| one.pool.begin_epoch(epoch).expect("it begins"));
    other.catch_up().await;
    listener.wakeup.woken().await;
    // Whoever is told later does nothing.
    block_in_place(|| other.pool.begin_epoch(epoch).expect("it has begun"));
    one.catch_up().await;
    for node in [&one, &other] {
        let after = node.pool.position();
        assert!(after.epoch == epoch && after.seq > before.seq, "{after:?}");
        assert!(!node.pool.resumes_from(before));
    }
    let _following = other.follow();
    block_in_place(|| other.add(STREAM, "b").expect("it adds"));
    one.catch_up().await;
    assert_equal(&[&one, &other]).await;
}

/// What is derived from the file is loaded anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_followed_decides_and_tells_as_the_one_that_wrote() {
    let Some(server) = Postgres::start("a_node_that_followed_decides_as_the_one_that_wrote") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [one, other] = two_at_rest(&database, &folders).await;
    let _listener = other.pool.changes().listen(&[STREAM.into()], None);
    one.claim().await;
    block_in_place(|| {
        one.pool.add_sink("slow", Seq::new(0)).expect("it writes");
        one.settle(&batch(1, &["a", "b"])).expect("it settles");
        one.settle(&batch(5, &["c"])).expect("it settles");
        one.pool
            .settle(&deletion(&removal(STREAM, 5, "a")))
            .expect("it settles");
        one.add(STREAM, "b").expect("it adds");
    });
    other.catch_up().await;
    // Who listens is told to read the file, up to the same place.
    let heard = other
        .pool
        .changes()
        .read()
        .after(STREAM, None, ChangeSeq::MIN, usize::MAX);
    assert!(matches!(heard, Recent::Behind), "{heard:?}");
    assert_eq!(other.pool.position(), one.pool.position());
    assert!(other.pool.changes().updated_at(STREAM) > Some(Unix::MIN));
    assert!(other.pool.has_acted_since(STREAM, ChangeSeq::MIN));
    // It takes over. What is older than the removal does not bring the item back, and what is overridden stays so.
    let before = other.pool.position().seq;
    other.claim().await;
    block_in_place(|| {
        other.settle(&batch(3, &["a"])).expect("it settles");
        other
            .settle(&batch_of(STREAM, 6, &[("b", r#"{"n":70}"#)]))
            .expect("it settles");
        while other.pool.refresh_views().expect("it makes views") {}
    });
    assert!(
        other
            .pool
            .item(STREAM, "a")
            .await
            .expect("it reads")
            .is_none()
    );
    let shown = other.pool.item(STREAM, "b").await.expect("it reads");
    let shown = shown.expect("it is there").fields;
    let rows = other.query("pool.db", "SELECT count(*) FROM shown_orders");
    assert_eq!(rows, 2);
    one.catch_up().await;
    let same = one.pool.item(STREAM, "b").await.expect("it reads");
    assert_eq!(same.map(|item| item.fields).as_ref(), Some(&shown));
    assert!(other.pool.position().seq > before);
    assert_equal(&[&one, &other]).await;
    let seqs = "SELECT count(*) - count(DISTINCT seq) FROM items";
    assert_eq!(one.query("pool.db", seqs), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_follows_goes_on_at_a_node_that_is_behind() {
    let Some(server) = Postgres::start("who_follows_goes_on_at_a_node_that_is_behind") else {
        return;
    };
    let database = server.cluster("headgate").await;
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let (first, following) = Node::start(&database, folders[0].path()).await;
    let behind = Node::open(&database, folders[1].path()).await;
    behind.catch_up().await;
    first.claim().await;
    block_in_place(|| {
        let added = first.pool.add_sink("pool", Seq::new(0));
        added.expect("it writes");
        let batch = batch_of(STREAM, 1, &[("a", r#"{"x":1}"#)]);
        first.settle(&batch).expect("it settles");
    });
    let told = first.pool.position();
    assert!(behind.pool.position().seq < told.seq);
    assert!(behind.pool.resumes_from(told));
    assert!(!behind.pool.reaches_back_to(told));
    let of_another_life = Position {
        epoch: base::order::Epoch::default(),
        ..told
    };
    assert!(!behind.pool.resumes_from(of_another_life));
    behind.catch_up().await;
    assert!(behind.pool.reaches_back_to(told));
    following.abort();
}
