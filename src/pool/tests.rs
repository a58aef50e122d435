//! Settlements and removals: which numbers they take, what the file holds, what listeners hear.

mod acts;
mod change_log;
mod copied;
mod delivery_status;
mod fills;
mod item_meta;
mod latest;
mod migration;
mod newest;
mod nodes;
mod order;
mod past_values;
mod removals;
mod resends;
mod retries;
mod row_numbers;
mod sizes;
mod tombstones;
mod views;

use std::path::Path;

use super::*;
use base::clock::Unix;
use base::order::{ChangeSeq, ItemPosition};
use changes::Recent;
use copied::Copied;
use item::batch::{Action, Batch, Entry, Slice};
use item::{ItemMeta, Items, ItemsWriter};
use uuid::Uuid;

const STREAM: &str = "orders";
const EVERYTHING: PageLimit = PageLimit {
    rows: 1_000,
    bytes: usize::MAX,
};

struct Test {
    /// Ends before the pool.
    copied: Copied,
    pool: Arc<Pool>,
    folder: tempfile::TempDir,
}

impl Pool {
    /// The retry that is due first.
    fn next_retry(&self, sink: &str) -> Result<Option<Retry>, PoolError> {
        let sql = "SELECT min(id) FROM retries WHERE sink = ?1 AND due_ms = (SELECT min(due_ms) FROM retries WHERE sink = ?1)";
        let id: Option<i64> = (self.lock().connection).query_row(sql, [sink], |row| row.get(0))?;
        id.map_or(Ok(None), |id| self.retry(sink, id))
    }
}

impl Test {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pool = open(folder.path()).await;
        Self::on(pool, folder)
    }

    fn on(pool: Arc<Pool>, folder: tempfile::TempDir) -> Self {
        Self {
            copied: Copied::of(&pool),
            pool,
            folder,
        }
    }

    async fn reopened(mut self) -> Self {
        self.pool.close().await.expect("it closes");
        self.copied.check();
        let pool = open(self.folder.path()).await;
        Self::on(pool, self.folder)
    }

    /// Upserts, with publishing or not.
    fn upsert(&self, batch: &Batch, published: bool) {
        self.settle(Some(batch), published.then_some(batch));
    }

    fn settle(&self, upserted: Option<&Batch>, published: Option<&Batch>) {
        let settlement = Settlement {
            sink: "pool".into(),
            staged: Staged {
                effects: upserted.cloned().map(Effect::Upsert).into_iter().collect(),
                publishes: published.cloned().into_iter().collect(),
                ..Staged::default()
            },
            ..Settlement::default()
        };
        self.pool.settle(&settlement).expect("it settles");
    }

    /// Removes for everything up to the request `accepted_seq`, that one as well; the number of the change.
    fn remove(&self, stream: &str, key: &str, accepted_seq: u64) -> Option<u64> {
        let before = self.seq();
        self.delete(&removal(stream, accepted_seq, key));
        let after = self.seq();
        (after > before).then_some(after)
    }

    fn delete(&self, batch: &Batch) {
        let removed = self.pool.settle(&deletion(batch));
        removed.expect("it settles");
    }

    /// The keys that are remembered as removed; with `!` those that renderers are not told of.
    fn tombstones(&self) -> String {
        let sql = "SELECT coalesce(group_concat(name, ' '), '') FROM
             (SELECT key || iif(seq = 0, '!', '') AS name FROM removed ORDER BY stream, key)";
        let writer = self.pool.lock();
        let keys = writer.connection.query_row(sql, [], |row| row.get(0));
        keys.expect("it reads")
    }

    fn forget(&self) {
        self.pool.forget_removed(&[], || false).expect("it forgets");
    }

    /// The cursor of a sink comes to this request.
    fn passes(&self, sink: &str, seq: u64) {
        let settlement = Settlement {
            sink: sink.into(),
            cursor: Some(Seq::new(seq)),
            ..Settlement::default()
        };
        self.pool.settle(&settlement).expect("it settles");
    }

    /// Key and number of each item.
    async fn items(&self, stream: &str) -> Vec<(String, u64)> {
        let items = self.pool.items(stream, None, EVERYTHING).await;
        let items = items.expect("it reads");
        let items = items.into_iter();
        items.map(|item| (item.key, item.seq.get())).collect()
    }

    async fn fields(&self, stream: &str, key: &str) -> Option<String> {
        let item = self.pool.item(stream, key).await.expect("it reads");
        item.map(|item| item.fields)
    }

    /// What somebody who listens hears after a position: key, number, whether it is gone.
    fn heard(&self, stream: &str, position: u64) -> Vec<(String, u64, bool)> {
        let after = ChangeSeq::new(position);
        match self
            .pool
            .changes()
            .read()
            .after(stream, None, after, usize::MAX)
        {
            Recent::Changes { changes, .. } => changes.iter().map(|change| show(change)).collect(),
            Recent::Nothing => Vec::new(),
            Recent::Behind => panic!("the memory does not reach back to {position}"),
        }
    }

    /// The same from the file.
    async fn read(&self, stream: &str, position: u64) -> Vec<(String, u64, bool)> {
        let position = ChangeSeq::new(position);
        let page = (self.pool).changed_after(stream, None, position, EVERYTHING);
        let page = page.await.expect("it reads");
        assert!(!page.more && page.is_whole);
        assert_eq!(page.through, self.pool.position().seq);
        page.changes.iter().map(show).collect()
    }

    fn seq(&self) -> u64 {
        self.pool.position().seq.get()
    }
}

async fn open(folder: &Path) -> Arc<Pool> {
    let opened = Pool::open(&folder.join("pool.db"), &FailStop::default()).await;
    let opened = opened.expect("it opens");
    opened.set_on_update(HashMap::from([("merged".into(), OnUpdate::Merge)]));
    opened.add_sink("pool", Seq::new(0)).expect("it writes");
    opened
}

fn show(change: &changes::Change) -> (String, u64, bool) {
    (change.key.to_string(), change.seq.get(), change.removed)
}

fn told(key: &str, seq: u64) -> (String, u64, bool) {
    (key.to_owned(), seq, false)
}

fn gone(key: &str, seq: u64) -> (String, u64, bool) {
    (key.to_owned(), seq, true)
}

/// Some items of a request, as they are to be tried again.
fn part(seq: u64, start: u32, end: u32) -> Part {
    Part(
        Seq::new(seq),
        ItemPosition::new(start),
        ItemPosition::new(end),
        false,
    )
}

/// A batch of one request, with key and fields of each item.
fn batch_of(stream: &str, accepted_seq: u64, items: &[(&str, &str)]) -> Batch {
    request_of(stream, accepted_seq, items, Action::Upsert)
}

fn request_of(stream: &str, accepted_seq: u64, items: &[(&str, &str)], action: Action) -> Batch {
    let mut writer = ItemsWriter::new(1 << 20, 0);
    for (key, fields) in items {
        let pushed = writer.push_with(key, fields, action, ItemMeta::default());
        pushed.expect("it fits");
    }
    whole(stream, accepted_seq, writer.into_items())
}

/// A batch of one request.
fn whole(stream: &str, accepted_seq: u64, items: Items) -> Batch {
    let entry = Entry {
        seq: Seq::new(accepted_seq),
        request_id: Uuid::from_u128(accepted_seq.into()),
        stream: stream.into(),
        received_at: Unix::from_ms(accepted_seq * 1_000),
        arrived: None,
        items,
    };
    Batch::new(vec![Slice::whole(Arc::new(entry))], 1)
}

/// A request that removes, after all items of the request with the same number.
fn removal(stream: &str, accepted_seq: u64, key: &str) -> Batch {
    let batch = request_of(stream, accepted_seq, &[(key, "{}")], Action::Remove);
    let slice = Slice {
        base: ItemPosition::new(u32::MAX - 1),
        ..batch.slices()[0].clone()
    };
    Batch::new(vec![slice], 1)
}

fn deletion(batch: &Batch) -> Settlement {
    Settlement {
        sink: "pool".into(),
        staged: Staged {
            effects: vec![Effect::Delete(batch.clone())],
            ..Staged::default()
        },
        ..Settlement::default()
    }
}

fn batch(accepted_seq: u64, keys: &[&str]) -> Batch {
    let items: Vec<(&str, &str)> = keys.iter().map(|key| (*key, "{}")).collect();
    batch_of(STREAM, accepted_seq, &items)
}

#[tokio::test]
async fn each_change_takes_the_next_number_and_listeners_hear_it() {
    let test = Test::new().await;
    let _listener = test.pool.changes().listen(&[STREAM.into()], None);
    test.upsert(&batch(1, &["b", "a", "b"]), true);
    assert_eq!(test.heard(STREAM, 0), [told("a", 1), told("b", 2)]);
    // The same values once more are changes, too: the source lives.
    test.upsert(&batch(2, &["a"]), true);
    assert_eq!(test.heard(STREAM, 2), [told("a", 3)]);
    assert_eq!(test.remove(STREAM, "b", 2), Some(4));
    assert_eq!(test.heard(STREAM, 2), [told("a", 3), gone("b", 4)]);
    assert_eq!(test.read(STREAM, 0).await, test.heard(STREAM, 0));
    assert_eq!(test.items(STREAM).await, [("a".to_owned(), 3)]);
    let test = test.reopened().await;
    assert_eq!(test.seq(), 4);
    test.upsert(&batch(3, &["c"]), true);
    assert_eq!(test.read(STREAM, 3).await, [gone("b", 4), told("c", 5)]);
}

#[tokio::test]
async fn what_leaves_a_row_as_it_is_takes_no_number() {
    let test = Test::new().await;
    let _listener = test.pool.changes().listen(&[STREAM.into()], None);
    test.upsert(&batch(5, &["a"]), true);
    // Delivered again, and delivered late.
    test.upsert(&batch(5, &["a"]), true);
    test.upsert(&batch(4, &["a"]), true);
    test.settle(None, None);
    assert_eq!(test.remove(STREAM, "z", 5), None);
    assert_eq!((test.seq(), test.heard(STREAM, 0)), (1, vec![told("a", 1)]));
    assert_eq!(test.read(STREAM, 0).await, [told("a", 1)]);
}

#[tokio::test]
async fn what_is_not_published_is_held_and_numbered_and_not_told() {
    let test = Test::new().await;
    let listener = test.pool.changes().listen(&[STREAM.into()], None);
    test.upsert(&batch(1, &["a"]), false);
    assert_eq!((test.seq(), test.heard(STREAM, 0)), (1, vec![]));
    let silent = tokio::time::timeout(
        std::time::Duration::from_millis(20),
        listener.wakeup.woken(),
    );
    assert!(silent.await.is_err(), "nobody is woken for it");
    assert_eq!(test.items(STREAM).await, [("a".to_owned(), 1)]);
    // Another sink publishes it: whoever wrote it, listeners hear what the pool holds.
    let late = batch_of(STREAM, 1, &[("a", r#"{"not":"held"}"#), ("z", "{}")]);
    test.settle(None, Some(&late));
    assert_eq!(test.heard(STREAM, 0), [told("a", 2)]);
    assert_eq!(test.fields(STREAM, "a").await.as_deref(), Some("{}"));
    assert_eq!(test.read(STREAM, 0).await, [told("a", 2)]);
    assert_eq!(test.items(STREAM).await, [("a".to_owned(), 2)]);
}

#[tokio::test]
async fn several_streams_share_one_sequence() {
    let test = Test::new().await;
    let _listener = test
        .pool
        .changes()
        .listen(&[STREAM.into(), "other".into()], None);
    test.upsert(&batch(1, &["a"]), true);
    test.upsert(&batch_of("other", 2, &[("a", "{}")]), true);
    test.upsert(&batch(3, &["a"]), true);
    assert_eq!(test.remove("other", "a", 3), Some(4));
    assert_eq!(test.heard(STREAM, 0), [told("a", 3)]);
    assert_eq!(test.heard("other", 0), [gone("a", 4)]);
    let last = async |stream| {
        let last = test.pool.last_change(stream).await;
        last.expect("it reads").get()
    };
    assert_eq!(
        (last(STREAM).await, last("other").await, last("none").await),
        (3, 4, 0)
    );
}

#[tokio::test]
async fn a_failed_settlement_takes_no_numbers_and_is_not_told() {
    let test = Test::new().await;
    let _listener = test.pool.changes().listen(&[STREAM.into()], None);
    test.pool
        .lock()
        .connection
        .execute_batch(
            "CREATE TRIGGER full BEFORE UPDATE ON history BEGIN SELECT RAISE(ABORT, 'full'); END",
        )
        .expect("a trigger");
    let refused = batch(1, &["a"]);
    let settlement = Settlement {
        sink: "pool".into(),
        staged: Staged {
            effects: vec![Effect::Upsert(refused.clone())],
            publishes: vec![refused],
            ..Staged::default()
        },
        ..Settlement::default()
    };
    test.pool.settle(&settlement).expect_err("it is refused");
    assert_eq!((test.seq(), test.heard(STREAM, 0)), (0, vec![]));
    test.pool
        .lock()
        .connection
        .execute_batch("DROP TRIGGER full")
        .expect("it is gone");
    // What went wrong is unknown: nothing more is written before the file was read afresh.
    let again = test.pool.settle(&settlement);
    assert!(matches!(again, Err(PoolError::Closed)), "{again:?}");
    let test = test.reopened().await;
    let _listener = test.pool.changes().listen(&[STREAM.into()], None);
    test.upsert(&batch(1, &["a"]), true);
    assert_eq!(test.heard(STREAM, 0), [told("a", 1)]);
}

#[tokio::test]
async fn no_number_is_given_twice_and_only_a_kill_leaves_some_out() {
    let test = Test::new().await;
    test.upsert(&batch(1, &["a", "b"]), true);
    let test = test.reopened().await;
    test.upsert(&batch(2, &["a"]), true);
    assert_eq!(test.seq(), 3);
    // Killed: nobody says how far the numbers went.
    let Test { pool, folder, .. } = test;
    let epoch = pool.position().epoch;
    drop(pool);
    let pool = open(folder.path()).await;
    let test = Test::on(pool, folder);
    assert_eq!(test.pool.position().epoch, epoch);
    let began = test.seq();
    assert!(began > 3, "{began}");
    assert_eq!(test.read(STREAM, began).await, []);
    test.upsert(&batch(3, &["b"]), true);
    assert_eq!(test.read(STREAM, 3).await, [told("b", began + 1)]);
    let test = test.reopened().await;
    assert_eq!(test.seq(), began + 1);
}

#[tokio::test]
async fn pages_of_changes_go_on_where_the_last_one_ended() {
    let test = Test::new().await;
    for seq in 1..=9 {
        test.upsert(&batch(seq, &[&seq.to_string()]), true);
    }
    test.remove(STREAM, "2", 9);
    test.remove(STREAM, "4", 9);
    let whole = test.read(STREAM, 0).await;
    for rows in 1..12 {
        let limit = PageLimit {
            rows,
            bytes: usize::MAX,
        };
        let (mut position, mut all) = (ChangeSeq::MIN, Vec::new());
        loop {
            let page = (test.pool).changed_after(STREAM, None, position, limit);
            let page = page.await.expect("it reads");
            assert!(page.changes.len() <= rows as usize);
            all.extend(page.changes.iter().map(show));
            position = page.through;
            if !page.more {
                break;
            }
        }
        assert_eq!(
            (all, position),
            (whole.clone(), ChangeSeq::new(11)),
            "{rows} rows"
        );
    }
}
