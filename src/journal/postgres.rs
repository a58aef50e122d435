//! The journal of the engine `postgres`: in a server that several nodes share.
//!
//! One thread stores (`journal/postgres/committer.rs`); another reads what every node stored, in its order, and keeps the
//! database up (`journal/postgres/feed.rs`, `journal/postgres/upkeep.rs`). Lanes that are behind, and the request log, have
//! connections of their own.
//!
//! **Invariant**: the number of a transaction is the order, never that of a sequence, so whoever reads below the horizon misses
//! nothing.

mod committer;
mod feed;
mod group;
mod log;
mod measure;
pub(super) mod moving;
mod reader;
#[cfg(test)]
mod tests;
mod text;
mod upkeep;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use sqlx::Connection as _;
use tokio::runtime::Handle;
use tokio::sync::watch;
use uuid::Uuid;

use super::queue::Queue;
use super::recent::Recent;
use super::{Engine, Journal, Shared, StorageError};
use ::postgres::{Connections, Database, DatabaseCall, DatabaseError, make, within};
use base::order::Seq;
use committer::Committer;
use feed::{Feed, Start};
use observe::metrics::Metrics;
use replica::SharedLog;
use upkeep::{Keep, Patience};

const LOG_READERS_MAX: usize = 3;
const LANE_READERS_MAX: usize = 3;

/// What the journal is opened with.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Where it is.
    pub database: Database,
    /// The node that may own the sinks, as its claims name it.
    pub node: Uuid,
    /// Says which catalog requests are admitted by; none: nobody else changes it.
    pub log: Option<SharedLog>,
    /// Callers are answered 503 after this time without an answer of the database.
    pub commit_wait: Duration,
    /// Bytes of requests that may wait for the writer.
    pub pending_bytes_max: usize,
    /// Sequence numbers go on above this, whatever the database says.
    pub seq_floor: Seq,
    /// How long log entries are kept.
    pub log_retention: Duration,
    /// Bytes that the request log may take, about; the oldest go first.
    pub log_retention_bytes: u64,
}

/// This node's part of the journal.
#[derive(Debug)]
pub(super) struct Node {
    shared: Arc<Shared>,
    feed: Arc<Feed>,
    database: Database,
    #[cfg(test)]
    id: Uuid,
    /// For the request log.
    log_reads: Connections,
    /// For the lanes: they never wait for somebody who reads the log.
    lane_reads: Connections,
    keep: Keep,
    stop: watch::Sender<bool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A question to the database, on the heap: a future that waits for the journal in a file does not hold its state.
pub(super) fn asked<'a, T>(
    question: impl Future<Output = Result<T, DatabaseError>> + Send + 'a,
) -> Pin<Box<dyn Future<Output = Result<T, StorageError>> + Send + 'a>> {
    Box::pin(async move { question.await.map_err(StorageError::Database) })
}

impl StorageError {
    /// Whether the database does not answer.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Database(DatabaseError::Away(_)))
    }
}

impl Journal {
    /// Opens the journal in a database, whose schema is made if there is none, and starts the threads that store and read.
    ///
    /// # Errors
    /// The database cannot be used, or its schema is another version's.
    pub async fn open_postgres(
        options: PostgresOptions,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Self>, StorageError> {
        let database = &options.database;
        let start = begin(database, options.seq_floor).await;
        let start = start.map_err(StorageError::Database)?;
        let seq_floor = options.seq_floor;
        let shared = Arc::new(Shared::new(
            Recent::starting_after(start.last),
            start.last.max(seq_floor),
            metrics,
        ));
        let feed = Arc::new(Feed::new(database.clone(), Arc::clone(&shared), start));
        let queue = Arc::new(Queue::new(options.pending_bytes_max));
        let node = Arc::new(Node {
            shared: Arc::clone(&shared),
            feed: Arc::clone(&feed),
            database: database.clone(),
            #[cfg(test)]
            id: options.node,
            log_reads: Connections::new(database.clone(), DatabaseCall::Log, LOG_READERS_MAX)
                .hurried(),
            lane_reads: Connections::new(database.clone(), DatabaseCall::Read, LANE_READERS_MAX),
            keep: Keep {
                patience: Patience::default(),
                log_retention: options.log_retention,
                log_retention_bytes: options.log_retention_bytes,
            },
            stop: watch::Sender::new(false),
            threads: Mutex::default(),
        });
        let committer = Committer::new(options, feed, Arc::clone(&shared));
        node.start(committer, &queue)?;
        Ok(Self::over(Engine::Postgres(node), shared, queue, seq_floor))
    }
}

impl Node {
    fn start(
        self: &Arc<Self>,
        committer: Committer,
        queue: &Arc<Queue>,
    ) -> Result<(), StorageError> {
        let (runtime, jobs) = (Handle::current(), Arc::clone(queue));
        let storing = thread("journal", move || committer.run(&jobs, &runtime))?;
        let (runtime, node) = (Handle::current(), Arc::clone(self));
        let reading = thread("journal-feed", move || {
            runtime.block_on(async {
                let stop = || node.stop.subscribe();
                tokio::join!(
                    node.feed.run(stop()),
                    node.beat(stop()),
                    node.keep_up(stop()),
                )
            });
        })?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.extend([storing, reading]);
        Ok(())
    }

    /// How many entries lie behind a cursor, up to about 10,000.
    pub(super) fn lag(&self, cursor: Seq) -> u64 {
        self.feed.lag(cursor)
    }

    /// Waits for the threads; the queue of the one that stores is closed.
    pub(super) async fn close(&self) {
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        self.stop.send_replace(true);
        let ended = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let _ = thread.join();
            }
        });
        let _ = ended.await;
        self.log_reads.close().await;
        self.lane_reads.close().await;
    }
}

/// What takes longer than this without an answer is over: the connection is given up.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The same of a start, which waits for requests under way.
const BEGUN_WITHIN: Duration = Duration::from_mins(1);

/// The answer to what nobody has to know the end of.
async fn in_time<T>(
    asking: impl Future<Output = Result<T, DatabaseError>>,
) -> Result<T, DatabaseError> {
    within(ANSWER_MAX, asking).await
}

fn thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StorageError> {
    let thread = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work);
    thread.map_err(StorageError::Thread)
}

/// Makes the schema if there is none, has time lived go on, and numbers above one that a sink has seen, should the database
/// have lost its newest transactions.
async fn begin(database: &Database, floor: Seq) -> Result<Start, DatabaseError> {
    let mut connection = database.connect().await?;
    make(database, &mut connection).await?;
    let beginning = async {
        database.arrive(&mut connection).await?;
        upkeep::begin_life(&mut connection).await?;
        sqlx::query("SELECT raise_above($1)")
            .bind(floor.to_column())
            .execute(&mut connection)
            .await?;
        Start::at_newest(&mut connection).await
    };
    let start = within(BEGUN_WITHIN, beginning).await?;
    let _ = connection.close().await;
    Ok(start)
}
