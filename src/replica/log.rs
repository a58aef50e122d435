//! The log in PostgreSQL: entries are appended to it and read from it, one place after the other.
//!
//! A node has one for what it appends and one for what it follows, each with a connection of its own; the tables and
//! functions are made by `postgres`.
//!
//! **Invariant**: whether an entry was appended is known or asked again, never guessed. What is read was committed before
//! a write of this connection, so with `durability = "standby"` it is on the standby, too.

mod append;
mod append_error;
pub(crate) mod bases;
mod claims;
mod follow;
mod raise;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres::{ClusterLock, Database, DatabaseCall, DatabaseError, Hints, within};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres};
use tokio::sync::watch;
use uuid::Uuid;

use super::LogPlace;
pub use append::NewEntry;
use append::leaves_doubt;
pub use append_error::AppendError;
pub use bases::BaseError;
pub use follow::{FollowedEntries, FollowedEntry, LogHead};

/// The first wait for an answer. Each further one waits twice as long: what waits for the standby keeps its connection in
/// the server, and must not be ended there.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const ANSWER_MAX_LATER: Duration = Duration::from_secs(640);
/// Pauses while the database is away and nobody knows whether an entry was appended.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A connection that was not used for so long is asked first whether it still is one. A server that is gone without a
/// word leaves its connections open.
const FRESH: Duration = Duration::from_secs(1);

/// The log of a cluster, as one life of a node uses it.
#[derive(Debug)]
pub struct Log {
    database: Database,
    /// Another one at each start of the process: an attempt of an earlier life is none of this one.
    node: Uuid,
    connection: Option<PgConnection>,
    used_at: Instant,
    answer_max: Duration,
    /// So many times as long an answer with entries may take: twice as long after each that did not come.
    follow_waits: u32,
    /// A transaction is open, and the head of the log is locked in it.
    is_reserved: bool,
    doubts: Doubts,
}

/// For how long a node asks what became of an entry: for ever, until it stops. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Doubts(Arc<watch::Sender<Option<Instant>>>);

impl Default for Doubts {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl Doubts {
    /// The node stops: from then on an append whose answer is lost is [`AppendError::Unknown`]. Nothing is lost by that: the
    /// next start follows the log, whatever is in it.
    pub fn end_at(&self, at: Instant) {
        self.0.send_replace(Some(at));
    }

    /// Waits for it.
    async fn ended(&self) {
        let mut ends = self.0.subscribe();
        let at = ends.wait_for(Option::is_some).await;
        match at.map(|at| *at) {
            Ok(Some(at)) => tokio::time::sleep_until(at.into()).await,
            _ => std::future::pending().await,
        }
    }
}

impl Log {
    /// Connects to nothing yet.
    pub fn new(database: Database, node: Uuid) -> Self {
        Self {
            database,
            node,
            connection: None,
            used_at: Instant::now(),
            answer_max: ANSWER_MAX,
            follow_waits: 1,
            is_reserved: false,
            doubts: Doubts::default(),
        }
    }

    /// The same, which asks for no longer than this says.
    pub fn with_doubts(self, doubts: Doubts) -> Self {
        Self { doubts, ..self }
    }

    /// The hints of other nodes.
    pub fn hints(&self) -> &Hints {
        self.database.hints()
    }

    /// Notes that the log has lost changes, of which this node has a copy: the positions of renderers begin anew.
    ///
    /// # Errors
    /// The database's.
    pub async fn note_loss(&mut self) -> Result<(), DatabaseError> {
        let query = sqlx::query("SELECT note_loss()");
        self.ask(DatabaseCall::Claim, query).await?;
        Ok(())
    }

    /// Locks the head of the log: nobody appends before this does, or [`release`](Self::release)s it. For what must not lose
    /// against a node that appends all the time. Follow next, run the work, append: within a second each, or the database
    /// ends it. Returns the number of the newest entry. The server ends it after a second, so that a node that hangs
    /// does not stop all others.
    ///
    /// # Errors
    /// The database's; nothing is locked.
    pub async fn reserve(&mut self) -> Result<u64, DatabaseError> {
        self.connected().await?;
        if std::mem::replace(&mut self.is_reserved, true) {
            self.release().await;
            self.connected().await?;
            self.is_reserved = true;
        }
        let reserved = within(self.answer_max, self.lock_head()).await;
        match &reserved {
            // On a connection that does not answer, nothing can be given up, either.
            Err(error) if leaves_doubt(error) => self.forget_connection(),
            Err(_) => self.release().await,
            Ok(_) => {}
        }
        reserved
    }

    /// The number of the newest entry, behind which nobody appends while the transaction is open.
    async fn lock_head(&mut self) -> Result<u64, DatabaseError> {
        // The shared lock first, in the order of `append`: with a turn of generations waiting it would be a circle.
        let steps = [
            "BEGIN".to_owned(),
            "SET LOCAL lock_timeout = '2s'; SET LOCAL idle_in_transaction_session_timeout = '1s'"
                .to_owned(),
            format!(
                "SELECT pg_advisory_xact_lock_shared({})",
                self.database.lock(ClusterLock::Generation)
            ),
        ];
        for step in steps {
            let connection = self.open_connection()?;
            let step = sqlx::raw_sql(AssertSqlSafe(step));
            step.execute(connection).await?;
        }
        let lock = sqlx::query("SELECT head FROM log_head FOR UPDATE");
        let row = lock.fetch_one(self.open_connection()?).await?;
        Ok(column::<i64>(&row, 0)?.unsigned_abs())
    }

    /// Gives up what [`reserve`](Self::reserve) locked.
    pub async fn release(&mut self) {
        if std::mem::take(&mut self.is_reserved)
            && let Some(connection) = &mut self.connection
        {
            let rolling_back = sqlx::query("ROLLBACK").execute(connection);
            let ended = tokio::time::timeout(self.answer_max, rolling_back).await;
            if !matches!(ended, Ok(Ok(_))) {
                self.forget_connection();
            }
        }
    }

    /// All rows of an answer.
    async fn ask(
        &mut self,
        call: DatabaseCall,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, DatabaseError> {
        self.ask_within(self.answer_max, call, query).await
    }

    async fn ask_within(
        &mut self,
        answer_max: Duration,
        call: DatabaseCall,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>, DatabaseError> {
        self.connected().await?;
        let _timer = self.database.timer(call);
        let connection = self.open_connection()?;
        let asking = async { Ok(query.fetch_all(connection).await?) };
        let rows = within(answer_max, asking).await;
        if rows.as_ref().is_err_and(leaves_doubt) {
            self.forget_connection();
        }
        rows
    }

    /// There is a connection, on which a write of its own was committed. The write comes first, because commits reach
    /// the standby in their order: what is read later is there.
    async fn connected(&mut self) -> Result<(), DatabaseError> {
        let is_fresh = self.used_at.elapsed() < FRESH;
        self.used_at = Instant::now();
        if let Some(connection) = &mut self.connection
            && (is_fresh || is_answered(connection, self.answer_max).await)
        {
            return Ok(());
        }
        self.forget_connection();
        let connecting = async {
            let mut connection = self.database.connect_to_write().await?;
            // Commits wait for the standby in their order: what this connection sees from now on is there.
            sqlx::query("SELECT pg_logical_emit_message(true, 'headgate', '')")
                .execute(&mut connection)
                .await?;
            Ok(connection)
        };
        self.connection = Some(within(self.answer_max, connecting).await?);
        Ok(())
    }

    fn open_connection(&mut self) -> Result<&mut PgConnection, DatabaseError> {
        let connection = self.connection.as_mut();
        connection.ok_or_else(|| DatabaseError::Away("there is no connection".to_owned()))
    }

    /// The server rolls back what was open on it, so nothing is reserved any more.
    fn forget_connection(&mut self) {
        self.connection = None;
        self.is_reserved = false;
    }

    /// Ends the connection.
    pub async fn close(mut self) {
        self.release().await;
        if let Some(connection) = self.connection.take() {
            let _ = connection.close().await;
        }
    }
}

async fn is_answered(connection: &mut PgConnection, answer_max: Duration) -> bool {
    let asked = tokio::time::timeout(answer_max, connection.ping()).await;
    asked.is_ok_and(|answer| answer.is_ok())
}

fn unexpected(message: &str) -> DatabaseError {
    DatabaseError::Refused {
        code: "".into(),
        message: message.into(),
    }
}

fn column<'r, T>(row: &'r PgRow, at: usize) -> Result<T, DatabaseError>
where
    T: sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
{
    use sqlx::Row as _;
    Ok(row.try_get(at)?)
}
