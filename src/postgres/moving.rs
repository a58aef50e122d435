//! Moving what a data directory has into an empty cluster, and what a cluster has out of it: the transactions in which that
//! happens.
//!
//! The journal and the log of copies store and read over the connection that is handed out here.
//!
//! **Invariant**: what is moved in is there whole or not at all, and no node accepts anything meanwhile. While something is
//! moved out, nothing of it is dropped.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::{ClusterLock, Database, DatabaseError, within};

/// A statement that takes longer is over, and with it the transaction.
pub const STATEMENT_MAX: Duration = Duration::from_secs(300);
/// The same of the commit, which waits for the standby to have everything.
const COMMIT_MAX: Duration = Duration::from_secs(1_800);
/// A lock that is not free by then is held by a node that works.
const LOCK_MAX: &str = "10s";
/// What is read from files between two statements takes less.
const IDLE_MAX: &str = "10min";

/// Rows of a part, and their digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedRows {
    pub part: String,
    pub rows: u64,
    pub digest: Vec<u8>,
}

/// Whether something can be moved into a cluster.
#[derive(Debug)]
pub enum Target {
    /// Nobody has begun it.
    Empty(MoveIn),
    /// Something was moved into it before. A repeated move compares them, so that it can say whether it was done.
    Filled(Vec<MovedRows>),
    /// It has data.
    Begun,
    /// Nodes with these names are about to begin it.
    Running(Vec<String>),
}

/// A transaction that fills a cluster. It is rolled back when it is dropped, or when the process is killed.
#[derive(Debug)]
pub struct MoveIn {
    connection: PgConnection,
}

impl MoveIn {
    /// Begins, if the schema, which is there, is that of a cluster that nobody has begun. Nodes that start meanwhile wait.
    ///
    /// # Errors
    /// The database's.
    pub async fn begin(database: &Database) -> Result<Target, DatabaseError> {
        let mut connection = database.connect().await?;
        within(STATEMENT_MAX, database.arrive(&mut connection)).await?;
        if let Some(target) = within(STATEMENT_MAX, taken(&mut connection)).await? {
            return Ok(target);
        }
        within(STATEMENT_MAX, lock(database, &mut connection)).await?;
        // Another may have been faster.
        Ok(match within(STATEMENT_MAX, taken(&mut connection)).await? {
            Some(target) => target,
            None => Target::Empty(Self { connection }),
        })
    }

    /// What is stored over it is part of the transaction.
    pub fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Notes what the data directory had, and up to where the pool and the sinks have come; then commits. If this
    /// fails, nobody knows whether it is committed: [`MoveIn::begin`] says so later. The notes are compared when the
    /// move is repeated.
    ///
    /// # Errors
    /// The database's.
    pub async fn commit(
        mut self,
        moved: &[MovedRows],
        (seq, low_water): (u64, u64),
    ) -> Result<(), DatabaseError> {
        let noting = async {
            for MovedRows { part, rows, digest } in moved {
                sqlx::query("INSERT INTO moved_in (part, rows, digest) VALUES ($1, $2, $3)")
                    .bind(part)
                    .bind(rows.cast_signed())
                    .bind(digest)
                    .execute(&mut self.connection)
                    .await?;
            }
            sqlx::query("UPDATE log_head SET seq = $1, low_water = $2")
                .bind(seq.cast_signed())
                .bind(low_water.cast_signed())
                .execute(&mut self.connection)
                .await?;
            Ok(())
        };
        within(STATEMENT_MAX, noting).await?;
        let committing = async { Ok(sqlx::query("COMMIT").execute(&mut self.connection).await?) };
        within(COMMIT_MAX, committing).await?;
        let _ = self.connection.close().await;
        Ok(())
    }
}

/// Why nothing can be moved into the cluster, if that is so.
async fn taken(connection: &mut PgConnection) -> Result<Option<Target>, DatabaseError> {
    let rows: Vec<(String, i64, Vec<u8>)> =
        sqlx::query_as("SELECT part, rows, digest FROM moved_in ORDER BY part")
            .fetch_all(&mut *connection)
            .await?;
    if !rows.is_empty() {
        let moved = rows.into_iter().map(|(part, rows, digest)| MovedRows {
            part,
            rows: rows.unsigned_abs(),
            digest,
        });
        return Ok(Some(Target::Filled(moved.collect())));
    }
    let begun: bool = sqlx::query_scalar(
        "SELECT (SELECT head > 0 OR digest <> no_digest() FROM log_head) OR EXISTS (SELECT FROM requests)
             OR EXISTS (SELECT FROM claims)",
    )
    .fetch_one(&mut *connection)
    .await?;
    if begun {
        return Ok(Some(Target::Begun));
    }
    let nodes = running(connection).await?;
    Ok((!nodes.is_empty()).then_some(Target::Running(nodes)))
}

/// The names of the nodes that are connected.
async fn running(connection: &mut PgConnection) -> Result<Vec<String>, DatabaseError> {
    let sql = "SELECT DISTINCT name FROM nodes WHERE is_connected(pid, started) ORDER BY name";
    Ok(sqlx::query_scalar(sql).fetch_all(connection).await?)
}

/// Begins the transaction, and keeps everything else away: requests, entries and turns, upkeep, nodes that start. In
/// the order in which nodes take these locks, because another order could have both wait for each other.
async fn lock(database: &Database, connection: &mut PgConnection) -> Result<(), DatabaseError> {
    const LOCKS: [ClusterLock; 3] = [
        ClusterLock::Names,
        ClusterLock::Upkeep,
        ClusterLock::Generation,
    ];
    const STEPS: [&str; 2] = [
        "SELECT FROM log_head FOR UPDATE",
        // Tables without statistics would be read whole for each batch.
        "SET LOCAL enable_seqscan = off",
    ];
    let begin = format!(
        "BEGIN; SET LOCAL lock_timeout = '{LOCK_MAX}'; SET LOCAL idle_in_transaction_session_timeout = '{IDLE_MAX}'"
    );
    sqlx::raw_sql(AssertSqlSafe(begin))
        .execute(&mut *connection)
        .await?;
    for lock in LOCKS {
        database.take(lock, connection).await?;
    }
    for step in STEPS {
        sqlx::raw_sql(step).execute(&mut *connection).await?;
    }
    Ok(())
}

/// A connection over which a cluster is read that may be running. As long as it is there, no generation is dropped
/// and none begins, because both would change what is copied.
#[derive(Debug)]
pub struct MoveOut {
    connection: PgConnection,
    /// Nodes that run on it.
    pub running: Vec<String>,
}

impl MoveOut {
    /// Keeps everything that is there. None: there is no cluster in the schema, or nobody has begun it.
    ///
    /// # Errors
    /// The database's; upkeep did not end in time.
    pub async fn begin(database: &Database) -> Result<Option<Self>, DatabaseError> {
        let mut connection = database.connect().await?;
        let beginning = async {
            let is_made: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
                .bind(format!("{}.cluster", database.schema()))
                .fetch_one(&mut connection)
                .await?;
            if !is_made {
                return Ok(None);
            }
            // An older version may have made them.
            super::make(database, &mut connection).await?;
            database.arrive(&mut connection).await?;
            let begun: bool =
                sqlx::query_scalar("SELECT head > 0 OR digest <> no_digest() FROM log_head")
                    .fetch_one(&mut connection)
                    .await?;
            if !begun {
                return Ok(None);
            }
            let set = format!("SET lock_timeout = '{LOCK_MAX}'");
            sqlx::raw_sql(AssertSqlSafe(set))
                .execute(&mut connection)
                .await?;
            let lock = database.lock(ClusterLock::Upkeep);
            let lock = format!("SELECT pg_advisory_lock({lock})");
            sqlx::raw_sql(AssertSqlSafe(lock))
                .execute(&mut connection)
                .await?;
            Ok(Some(running(&mut connection).await?))
        };
        let running = within(STATEMENT_MAX, beginning).await?;
        Ok(running.map(|running| Self {
            connection,
            running,
        }))
    }

    /// What is read from now on is of one moment. The first statement takes the snapshot, so one is sent at once.
    ///
    /// # Errors
    /// The database's.
    pub async fn snapshot(&mut self) -> Result<&mut PgConnection, DatabaseError> {
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL enable_seqscan = off;
             SET LOCAL idle_in_transaction_session_timeout = '{IDLE_MAX}'"
        );
        let beginning = async {
            sqlx::raw_sql(AssertSqlSafe(begin))
                .execute(&mut self.connection)
                .await?;
            // The first statement takes the snapshot.
            sqlx::query("SELECT FROM cluster")
                .execute(&mut self.connection)
                .await?;
            Ok(())
        };
        within(STATEMENT_MAX, beginning).await?;
        Ok(&mut self.connection)
    }

    pub async fn end(self) {
        let _ = self.connection.close().await;
    }
}
