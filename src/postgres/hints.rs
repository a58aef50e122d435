//! Hints: a node that has committed something says so, and the others ask at once in place of a moment later.
//!
//! A hint has no content. It goes over a connection of its own, never with what it is about: the server has all commits with a
//! notification wait for each other.
//!
//! **Invariant**: nothing depends on a hint but the time. Whoever waits for one also asks from time to time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Database, DatabaseError, within};

/// From one hint of a node to the next but one: the first is for what was accepted, the second for what was made of
/// it.
const TWO_EVERY: Duration = Duration::from_millis(10);
/// After a failure.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// A connection on which no hint came for so long is asked whether it still is one: a server that is gone without a word sends
/// none, either.
const SILENT_MAX: Duration = Duration::from_secs(10);
/// How often those who get hints ask without one, because a hint can be lost.
const ASKED_EVERY: Duration = Duration::from_millis(250);

/// Hints from this node to the others, and from the others to this one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hints(Arc<State>);

#[derive(Debug)]
struct State {
    /// Tells this node from the others. The server sends a node its own hints, too.
    id: Uuid,
    /// What this node has committed nobody was told of.
    given: Notify,
    /// Rises with each hint of another node.
    heard: watch::Sender<u64>,
    are_heard: AtomicBool,
}

impl Default for Hints {
    fn default() -> Self {
        Self(Arc::new(State {
            id: Uuid::now_v7(),
            given: Notify::new(),
            heard: watch::Sender::new(0),
            are_heard: AtomicBool::new(false),
        }))
    }
}

impl Hints {
    /// Something was committed that other nodes wait for. Several make one hint until it is sent, because a hint has no
    /// content.
    pub fn give(&self) {
        self.0.given.notify_one();
    }

    /// Changes with each hint of another node.
    pub fn heard(&self) -> watch::Receiver<u64> {
        self.0.heard.subscribe()
    }

    /// How long to wait for a hint, where one would ask again after `unhinted` without them.
    pub fn pause(&self, unhinted: Duration) -> Duration {
        match self.0.are_heard.load(Ordering::Relaxed) {
            true => unhinted.max(ASKED_EVERY),
            false => unhinted,
        }
    }

    /// Gives the hints of this node and hears those of the others, until `stop`.
    pub async fn run(&self, database: &Database, stop: CancellationToken) {
        let both = async {
            tokio::join!(self.send_hints(database), self.receive_hints(database));
        };
        stop.run_until_cancelled(both).await;
        self.0.are_heard.store(false, Ordering::Relaxed);
    }

    async fn send_hints(&self, database: &Database) {
        loop {
            if let Err(error) = self.send_until_lost(database).await {
                tracing::debug!(%error, "other nodes get no hints of this one");
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    async fn send_until_lost(&self, database: &Database) -> Result<(), DatabaseError> {
        let mut connection = database.connect().await?;
        let mut before = None;
        loop {
            self.0.given.notified().await;
            let now = Instant::now();
            let notify = sqlx::query("SELECT pg_notify($1, $2)")
                .bind(database.schema())
                .bind(self.0.id.to_string());
            let sent = async { Ok(notify.execute(&mut connection).await?) };
            within(ANSWER_MAX, sent).await?;
            if let Some(before) = before.replace(now) {
                tokio::time::sleep_until(before + TWO_EVERY).await;
            }
        }
    }

    async fn receive_hints(&self, database: &Database) {
        loop {
            let heard = self.receive_until_lost(database).await;
            self.0.are_heard.store(false, Ordering::Relaxed);
            if let Err(error) = heard {
                tracing::debug!(%error, "this node gets no hints of others");
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    async fn receive_until_lost(&self, database: &Database) -> Result<(), DatabaseError> {
        let mut listener = within(ANSWER_MAX, Box::pin(listener(database))).await?;
        self.0.are_heard.store(true, Ordering::Relaxed);
        let own = self.0.id.to_string();
        loop {
            let Ok(hint) = tokio::time::timeout(SILENT_MAX, listener.try_recv()).await else {
                let asking = async { Ok(sqlx::query("SELECT 1").execute(&mut listener).await?) };
                within(ANSWER_MAX, asking).await?;
                continue;
            };
            match hint? {
                Some(hint) if hint.payload() != own => {
                    self.0.heard.send_modify(|count| *count += 1);
                }
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }
}

/// Listens at the primary. It does not connect again alone, because the server at the same address may be another one
/// then.
async fn listener(database: &Database) -> Result<PgListener, DatabaseError> {
    let (connection, server) = database.connect_to_primary().await?;
    let _ = connection.close().await;
    let pool = PgPoolOptions::new().max_connections(1);
    let pool = pool.connect_with(server.clone()).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    // A server that has taken its place may be another one.
    listener.eager_reconnect(false);
    listener.listen(database.schema()).await?;
    Ok(listener)
}
