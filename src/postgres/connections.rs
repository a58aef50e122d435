//! Connections for single statements, made when they are needed and kept for the next.
//!
//! **Invariant**: a connection on which anything but an answer of the server happened is closed, and so is one whose question
//! was dropped.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Connection, PgConnection, Postgres};
use tokio::sync::Semaphore;

use super::{Database, DatabaseCall, DatabaseError, within};

/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// One that was not used for so long is asked whether it still is one, because a server that is gone closes nothing.
const FRESH: Duration = Duration::from_secs(1);
/// Longest wait for that: a server that is gone without a word never answers.
const PING_MAX: Duration = Duration::from_secs(2);

/// Some connections to a database.
#[derive(Debug)]
pub struct Connections {
    database: Database,
    /// What its statements are for.
    call: DatabaseCall,
    /// Its statements write.
    writes: bool,
    /// Somebody waits for the answers.
    hurries: bool,
    /// The one used last is taken first, because it needs no question whether it still is one.
    idle: Mutex<Vec<(PgConnection, Instant)>>,
    /// They bound the connections of a node, because the server has a limit for all nodes.
    turns: Semaphore,
}

impl Connections {
    /// For reading, for this: at most `max` at a time; none is made yet.
    pub fn new(database: Database, call: DatabaseCall, max: usize) -> Self {
        Self {
            database,
            call,
            writes: false,
            hurries: false,
            idle: Mutex::default(),
            turns: Semaphore::new(max),
        }
    }

    /// The same for statements that also write.
    pub fn to_write(database: Database, call: DatabaseCall, max: usize) -> Self {
        Self {
            writes: true,
            ..Self::new(database, call, max)
        }
    }

    /// The same for answers that somebody waits for: a database that is known to be away is not asked.
    pub fn hurried(self) -> Self {
        Self {
            hurries: true,
            ..self
        }
    }

    /// The database that they are to.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// All rows of an answer.
    ///
    /// # Errors
    /// The database's.
    pub fn all<'a>(
        &'a self,
        query: Query<'a, Postgres, PgArguments>,
    ) -> BoxFuture<'a, Result<Vec<PgRow>, DatabaseError>> {
        Box::pin(self.ask(query))
    }

    async fn ask(
        &self,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, DatabaseError> {
        if self.hurries && self.database.is_away() {
            return Err(DatabaseError::Away("it does not answer".to_owned()));
        }
        let asking = async {
            let _turn = self.turns.acquire().await;
            let mut connection = self.connection().await?;
            let timer = self.database.timer(self.call);
            let rows = query.fetch_all(&mut connection).await;
            drop(timer);
            let rows = rows.map_err(DatabaseError::from);
            if !matches!(rows, Err(DatabaseError::Away(_))) {
                self.lock().push((connection, Instant::now()));
            }
            rows
        };
        within(ANSWER_MAX, asking).await
    }

    /// The first row of an answer, if it has one.
    ///
    /// # Errors
    /// The database's.
    pub async fn first(
        &self,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Option<PgRow>, DatabaseError> {
        Ok(self.all(query).await?.into_iter().next())
    }

    /// Closes those that nobody uses.
    pub async fn close(&self) {
        let idle = std::mem::take(&mut *self.lock());
        for (connection, _) in idle {
            let _ = connection.close().await;
        }
    }

    /// If it is none, the others are dropped too, because they were used before it.
    async fn connection(&self) -> Result<PgConnection, DatabaseError> {
        loop {
            let Some((mut connection, used)) = self.lock().pop() else {
                return match self.writes {
                    true => self.database.connect_to_write().await,
                    false => self.database.connect().await,
                };
            };
            if used.elapsed() < FRESH {
                return Ok(connection);
            }
            let answer = tokio::time::timeout(PING_MAX, connection.ping()).await;
            if matches!(answer, Ok(Ok(()))) {
                return Ok(connection);
            }
            // The others were used before.
            self.lock().clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(PgConnection, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
