//! Backups of real files, step by step.
//!
//! **Invariant**: no process and no socket: the moments between the steps are the point.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use uuid::Uuid;

use super::folder::Folder;
use super::*;
use base::clock::Lived;
use base::clock::Unix;
use base::order::Seq;
use catalog::{Catalog, FILE as CATALOG};
use item::ItemsWriter;
use journal::log::Client;
use journal::{Durability, FILE as JOURNAL, LogEntry, Options, Outcome, Submission};
use observe::metrics::Metrics;
use pool::{FILE as POOL, Pool, Settlement};
use settings::Settings;
use sqlite::FailStop;

/// More than the journal's writer needs to begin with deleting while it is busy.
const REQUESTS: u64 = 2_000;

struct Files {
    root: TempDir,
    pool: Arc<Pool>,
    journal: Arc<Journal>,
    backups: Backups,
}

impl Files {
    /// A sink that has nothing yet of many requests.
    async fn with_requests() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let pool = Pool::open(&root.path().join(POOL), &FailStop::default()).await;
        let pool = pool.expect("it opens");
        pool.add_sink("sink", Seq::MIN).expect("it is new");
        let catalog = Catalog::open(
            &root.path().join(CATALOG),
            &Settings::default(),
            &FailStop::default(),
        );
        catalog.expect("it opens");
        let options = Options {
            durability: Durability::Os,
            pending_bytes_max: 1 << 20,
            seq_floor: Seq::MIN,
            log_retention: Duration::MAX,
            log_retention_bytes: u64::MAX,
        };
        let metrics = Arc::new(Metrics::new());
        let journal = Journal::open(
            &root.path().join(JOURNAL),
            options,
            metrics,
            &FailStop::default(),
        )
        .await;
        let journal = journal.expect("it opens");
        for _ in 0..REQUESTS {
            journal.submit(submission()).await.expect("it is taken");
        }
        let backups = Backups::new(&journal, root.path(), &[root.path().to_owned()], 0);
        Self {
            root,
            pool,
            journal,
            backups,
        }
    }

    /// The sink gets everything, which is on disk then; the journal may let it go.
    async fn deliver(&self) {
        let settlement = Settlement {
            sink: "sink".into(),
            cursor: Some(Seq::new(REQUESTS)),
            ..Settlement::default()
        };
        self.pool.settle(&settlement).expect("it is written");
        let low_water = self.pool.low_water().expect("it reads");
        assert_eq!(low_water.get(), REQUESTS);
        self.journal.release(low_water);
        // Each is a group, after which the writer deletes what it may.
        for _ in 0..3 {
            self.journal.flush().await.expect("the writer lives");
        }
    }

    fn folder(&self) -> Folder {
        Folder::claim(&self.root.path().join("backup")).expect("it is new")
    }
}

fn submission() -> Submission {
    let mut items = ItemsWriter::new(1 << 20, 0);
    items.push("key", r#"{"n":1}"#).expect("it fits");
    Submission {
        log: LogEntry {
            items: 1,
            bytes: 7,
            client: Client::Unix,
            ..LogEntry::of(
                Uuid::now_v7(),
                Unix::now(),
                "c".into(),
                "s".into(),
                Outcome::Accepted,
            )
        },
        arrived: Lived::now(),
        items: items.into_items(),
        claim: None,
        second: None,
        recheck: None,
    }
}

fn payloads(journal: &Path) -> u64 {
    let connection = sqlite::open_reader(journal, &Arc::default()).expect("a journal");
    let count: i64 = connection
        .query_row("SELECT count(*) FROM payloads", [], |row| row.get(0))
        .expect("a number");
    count.unsigned_abs()
}

#[tokio::test]
async fn what_is_delivered_between_the_two_copies_stays_in_the_journal() {
    let files = Files::with_requests().await;
    let run = files.backups.begin().await.expect("it is the only one");
    let folder = files.folder();
    run.copy(CATALOG, &folder).expect("it is copied");
    run.copy(POOL, &folder).expect("it is copied");
    files.deliver().await;
    run.copy(JOURNAL, &folder).expect("it is copied");
    let manifest = run.verified(&folder.path).expect("they belong together");
    assert_eq!(manifest.highest_seq.get(), REQUESTS);
    assert_eq!(payloads(&folder.path.join(JOURNAL)), REQUESTS);

    drop(run);
    files.deliver().await;
    let left = payloads(&files.root.path().join(JOURNAL));
    assert!(left < REQUESTS, "it was the backup that held them");
    files.journal.close().await;
}

#[tokio::test]
async fn there_is_one_at_a_time_and_it_can_be_stopped() {
    let files = Files::with_requests().await;
    let first = files.backups.begin().await.expect("it is the only one");
    let second = files.backups.make(files.root.path().join("second")).await;
    assert!(matches!(second, Err(BackupError::Running)), "{second:?}");
    drop(first);
    let dir = files.root.path().join("third");
    let manifest = files.backups.make(dir.clone()).await.expect("its turn");
    assert_eq!(Manifest::read(&dir), Ok(manifest));

    files.backups.stop();
    let dir = files.root.path().join("fourth");
    let stopped = files.backups.make(dir.clone()).await;
    assert!(matches!(stopped, Err(BackupError::Stopped)), "{stopped:?}");
    assert!(!dir.exists());
    files.journal.close().await;
}

/// What is done to the copies, which of them is not good then, and why.
type Damage = (fn(&Path), &'static str, &'static str);

#[tokio::test]
async fn copies_that_are_not_good_are_found_and_taken_away() {
    let files = Files::with_requests().await;
    let damages: [Damage; 4] = [
        (
            |dir| edit(dir, JOURNAL, "DELETE FROM payloads WHERE seq = 17"),
            JOURNAL,
            "request 17",
        ),
        (
            |dir| edit(dir, POOL, "UPDATE cursors SET seq = 2001"),
            POOL,
            "ends at 2000",
        ),
        (
            |dir| edit(dir, POOL, "PRAGMA user_version = 1"),
            POOL,
            "format 1",
        ),
        (
            |dir| {
                let path = dir.join(JOURNAL);
                let mut bytes = std::fs::read(&path).expect("a copy");
                let middle = bytes.len() / 2;
                bytes[middle..middle + 8192].fill(0x55);
                std::fs::write(&path, bytes).expect("a copy");
            },
            JOURNAL,
            "",
        ),
    ];
    for (damage, damaged, says) in damages {
        let run = files.backups.begin().await.expect("it is the only one");
        let folder = files.folder();
        let dir = folder.path.clone();
        for (file, _) in FILES {
            run.copy(file, &folder).expect("it is copied");
        }
        run.verified(&dir).expect("it is good so far");
        damage(&dir);
        match run.verified(&dir) {
            Err(BackupError::NotGood { file, problem }) => {
                assert_eq!(file, damaged, "{problem}");
                assert!(problem.contains(says), "{problem}");
            }
            other => panic!("{says}: {other:?}"),
        }
        drop(folder);
        assert!(!dir.exists());
    }
    files.journal.close().await;
}

fn edit(dir: &Path, file: &str, sql: &str) {
    let connection = rusqlite::Connection::open(dir.join(file)).expect("a copy");
    connection.execute_batch(sql).expect("it is changed");
}
