//! What happens beside requests: time lived goes on, generations begin and go, refused bodies are given up.
//!
//! Every node does it; what one alone may do is done by whoever gets the lock. A node that is gone in the middle of it keeps
//! neither itself nor the others from it: each answer is waited for with a limit, and the server ends a session that is idle.
//!
//! **Invariant**: a generation goes as a whole, and only when nothing in it is needed: payloads when every sink has them,
//! claims when the youngest has run out, log entries when all are too old and their payloads are gone.

use std::time::Duration;

use sqlx::postgres::{PgArguments, Postgres};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::sync::watch;

use super::{Node, in_time};
use ::postgres::{ClusterLock, DatabaseError, within};
use base::clock::{self, Lived, Unix};

const BEAT: Duration = Duration::from_secs(1);
const UPKEEP_EVERY: Duration = Duration::from_secs(10);
/// Of time lived, in one generation. Tables are dropped whole, because deleting rows one by one costs the server as
/// much as storing them.
const GENERATION: Duration = Duration::from_hours(6);
/// An idempotency key holds for a day; a beat and what clocks of nodes differ by come on top.
const CLAIMS_HELD: Duration = Duration::from_secs(24 * 3_600 + 120);
/// Entries of the log of copies stay so long, whoever needs them: an attempt whose answer was lost asks for its own.
const ENTRIES_HELD: Duration = Duration::from_hours(2);
/// Of each generation that ended: the table, and whether it is to go, by when and where the next one began.
const OVER: &str = "WITH ended AS (
         SELECT n.g, later.first_seq AS end_seq, later.lived_ms AS end_ms,
             coalesce(sum(pg_total_relation_size(to_regclass('requests_' || later.g)))
                 OVER (ORDER BY n.g DESC), 0) AS newer_bytes
         FROM generations n JOIN generations later ON later.g = n.g + 1)
     SELECT table_name FROM (
         SELECT g, 'payloads' AS parent, end_seq - 1 <= $1 AS goes FROM ended
         UNION ALL SELECT g, 'claims', end_ms <= $2 FROM ended
         UNION ALL SELECT g, 'requests', (end_ms <= $3 OR newer_bytes > $4) AND to_regclass('payloads_' || g) IS NULL FROM ended
         UNION ALL SELECT g, 'log', true FROM log_is_over($5) AS g
     ) AS tables CROSS JOIN LATERAL (SELECT parent || '_' || g AS table_name) AS named
     WHERE goes AND to_regclass(table_name) IS NOT NULL ORDER BY g";
/// Rows of dead lives stay as long as one of their groups may be asked for.
const LIVES_KEPT: Duration = Duration::from_hours(30);
/// Payloads that are set aside, at most, and bytes of them.
const ASIDE_MAX: i64 = 10_000;
const ASIDE_BYTES_MAX: i64 = 64 << 20;

/// A session that has the lock and sends nothing for so long is one whose node is frozen or gone: the server ends it.
const IDLE_MAX: &str = "SET idle_session_timeout = '1min'";

/// How long upkeep waits for an answer. Nobody waits for upkeep; a host that is gone without a word never answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Of statements that read or delete rows, or make tables.
    pub(super) rows: Duration,
    /// Of those that wait until nobody reads a table any more.
    pub(super) tables: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            rows: Duration::from_mins(1),
            tables: Duration::from_mins(10),
        }
    }
}

/// What upkeep goes by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep {
    pub(super) patience: Patience,
    pub(super) log_retention: Duration,
    pub(super) log_retention_bytes: u64,
}

impl Node {
    /// Has time lived go on until it is stopped. It has its own connection, so that upkeep that waits does not stop
    /// time.
    pub(super) async fn beat(&self, mut stop: watch::Receiver<bool>) {
        let mut slot = None;
        loop {
            let beating = async { live_on(self.connection(&mut slot).await?).await };
            if let Err(error) = in_time(beating).await {
                tracing::debug!(%error, "cannot tell the database how much time was lived");
                slot = None;
            }
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Keeps the database up until it is stopped.
    pub(super) async fn keep_up(&self, mut stop: watch::Receiver<bool>) {
        let mut slot = None;
        loop {
            let upkeep = async {
                let connection = match &mut slot {
                    Some(connection) => connection,
                    none => none.insert(self.connect_for_upkeep().await?),
                };
                self.upkeep(connection).await
            };
            let done = tokio::select! {
                done = upkeep => done,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            if let Err(error) = done {
                tracing::debug!(%error, "cannot keep the database up");
                slot = None;
            }
            tokio::select! {
                () = tokio::time::sleep(UPKEEP_EVERY) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    async fn connection<'a>(
        &self,
        slot: &'a mut Option<PgConnection>,
    ) -> Result<&'a mut PgConnection, DatabaseError> {
        Ok(match slot {
            Some(connection) => connection,
            none => none.insert(self.database.connect().await?),
        })
    }

    /// A connection whose lock does not outlive its node for long.
    pub(super) async fn connect_for_upkeep(&self) -> Result<PgConnection, DatabaseError> {
        let mut connection = self.database.connect().await?;
        in_time(async { Ok(sqlx::query(IDLE_MAX).execute(&mut connection).await?) }).await?;
        Ok(connection)
    }

    /// Does what there is to do, unless another node does. After an error the connection is of no use: with it the lock goes.
    pub(super) async fn upkeep(&self, connection: &mut PgConnection) -> Result<(), DatabaseError> {
        let lock = self.database.lock(ClusterLock::Upkeep);
        let locking = AssertSqlSafe(format!("SELECT pg_try_advisory_lock({lock})"));
        let locking = sqlx::query_scalar(locking);
        let locking = async { Ok(locking.fetch_one(&mut *connection).await?) };
        let is_mine: bool = in_time(locking).await?;
        if !is_mine {
            return Ok(());
        }
        self.upkeep_alone(connection).await?;
        let unlock = AssertSqlSafe(format!("SELECT pg_advisory_unlock({lock})"));
        let unlock = sqlx::query(unlock);
        in_time(async { Ok(unlock.execute(&mut *connection).await?) }).await?;
        Ok(())
    }

    /// Tables are made ahead of their turn, because making one takes a lock.
    async fn upkeep_alone(&self, connection: &mut PgConnection) -> Result<(), DatabaseError> {
        let sql = "SELECT c.g, n.lived_ms FROM cluster c JOIN generations n USING (g)";
        let asking = async { Ok(sqlx::query_as(sql).fetch_one(&mut *connection).await?) };
        let (g, began): (i32, i64) = in_time(asking).await?;
        // Ahead of its turn: making a table takes a moment, and nobody should wait for it.
        let shelf = sqlx::query("CALL shelf($1)").bind(g + 2);
        self.run(connection, shelf).await?;
        let now = Lived::now();
        if now >= Lived::from_column(began) + GENERATION {
            let turn = sqlx::query("SELECT turn($1)").bind(g);
            self.run(connection, turn).await?;
        }
        self.drop_generations(connection, now).await?;
        self.give_up_bodies(connection, now).await?;
        let sql = "DELETE FROM quarantine WHERE seq <= $1 AND seq <= (
                 SELECT max(seq) FROM (SELECT seq, row_number() OVER newest AS number, sum(octet_length(items)) OVER newest AS bytes
                     FROM quarantine WINDOW newest AS (ORDER BY seq DESC)) AS aside WHERE number > $2 OR bytes > $3)";
        let aside = sqlx::query(sql)
            .bind(self.shared.released().to_column())
            .bind(ASIDE_MAX)
            .bind(ASIDE_BYTES_MAX);
        self.run(connection, aside).await?;
        let lives = sqlx::query("DELETE FROM writers WHERE lived_ms < $1")
            .bind((now - LIVES_KEPT).to_column());
        self.run(connection, lives).await?;
        Ok(())
    }

    /// Runs a statement that waits for nobody who reads; how many rows it changed.
    async fn run(
        &self,
        connection: &mut PgConnection,
        statement: Query<'_, Postgres, PgArguments>,
    ) -> Result<u64, DatabaseError> {
        let running = async { Ok(statement.execute(connection).await?.rows_affected()) };
        within(self.keep.patience.rows, running).await
    }

    /// The same of one that waits until nobody reads the table.
    async fn alter(&self, connection: &mut PgConnection, sql: String) -> Result<(), DatabaseError> {
        let statement = sqlx::query(AssertSqlSafe(sql)).persistent(false);
        let altering = async { Ok(statement.execute(connection).await?) };
        within(self.keep.patience.tables, altering).await?;
        Ok(())
    }

    /// Drops the tables of generations of which nothing is needed any more.
    pub(super) async fn drop_generations(
        &self,
        connection: &mut PgConnection,
        now: Lived,
    ) -> Result<(), DatabaseError> {
        let over = sqlx::query_scalar(OVER)
            .bind(self.shared.released().to_column())
            .bind((now - CLAIMS_HELD).to_column())
            .bind((now - self.keep.log_retention).to_column())
            .bind(i64::try_from(self.keep.log_retention_bytes).unwrap_or(i64::MAX))
            .bind(i64::try_from(ENTRIES_HELD.as_millis()).unwrap_or(i64::MAX));
        let asking = async { Ok(over.fetch_all(&mut *connection).await?) };
        let tables: Vec<String> = within(self.keep.patience.rows, asking).await?;
        for table in tables {
            let parent = table.split('_').next().unwrap_or_default();
            let state = sqlx::query_scalar(
                "SELECT inhdetachpending FROM pg_inherits WHERE inhrelid = to_regclass($1)",
            );
            let asking = state.bind(&table).fetch_optional(&mut *connection);
            let pending: Option<bool> = in_time(async { Ok(asking.await?) }).await?;
            if let Some(pending) = pending {
                // So that nobody who reads waits; what was cut off in the middle is finished.
                let how = if pending { "FINALIZE" } else { "CONCURRENTLY" };
                let detach = format!("ALTER TABLE {parent} DETACH PARTITION {table} {how}");
                self.alter(connection, detach).await?;
            }
            self.alter(connection, format!("DROP TABLE {table}"))
                .await?;
        }
        // The newest that went stays: its end is where the oldest begins.
        let ended = sqlx::query(
            "DELETE FROM generations n WHERE to_regclass('requests_' || n.g) IS NULL AND to_regclass('claims_' || n.g) IS NULL
                 AND to_regclass('payloads_' || n.g) IS NULL AND to_regclass('log_' || n.g) IS NULL",
        );
        self.run(connection, ended).await?;
        Ok(())
    }

    /// Gives up bodies of refused requests that are too old, and the oldest of the connector that has most while they are
    /// too many.
    pub(super) async fn give_up_bodies(
        &self,
        connection: &mut PgConnection,
        now: Lived,
    ) -> Result<(), DatabaseError> {
        let Some(retention) = self.shared.bodies() else {
            return Ok(());
        };
        let old = sqlx::query("DELETE FROM bodies WHERE lived_ms <= $1")
            .bind((now - retention.age_max).to_column());
        self.run(connection, old).await?;
        let bytes_max = i64::try_from(retention.bytes_max).unwrap_or(i64::MAX);
        loop {
            let sql = "WITH held AS (SELECT connector, sum(bytes)::bigint AS bytes FROM bodies GROUP BY connector),
                     most AS (SELECT connector, bytes, (SELECT sum(bytes) FROM held)::bigint - $1 AS over FROM held ORDER BY bytes DESC LIMIT 1),
                     oldest AS (SELECT b.seq, sum(b.bytes) OVER (ORDER BY b.seq) - b.bytes AS before, m.over
                         FROM bodies b JOIN most m USING (connector) ORDER BY b.seq LIMIT 16)
                 DELETE FROM bodies WHERE seq IN (SELECT seq FROM oldest WHERE over > 0 AND before < over)";
            let most = sqlx::query(sql).bind(bytes_max);
            if self.run(connection, most).await? == 0 {
                return Ok(());
            }
        }
    }
}

/// Has time lived go on: the cluster's is that of the node that has lived longest, and no node is behind it. Otherwise
/// a node that was away would hold what others let go.
pub(super) async fn live_on(connection: &mut PgConnection) -> Result<(), DatabaseError> {
    let trusted = clock::trusted_now();
    let sql = "UPDATE cluster SET lived_ms = greatest(lived_ms, $1),
             trusted_lived_ms = CASE WHEN $2 IS NULL THEN trusted_lived_ms ELSE greatest(lived_ms, $1) END,
             trusted_unix_ms = coalesce($2, trusted_unix_ms) RETURNING lived_ms";
    let lived: i64 = sqlx::query_scalar(sql)
        .bind(Lived::now().to_column())
        .bind(trusted.map(Unix::to_column))
        .fetch_one(connection)
        .await?;
    clock::live_on_from(Lived::from_column(lived));
    Ok(())
}

/// Has the clock of this process go on from the cluster's, with the time in which no node lived, as far as it can be trusted.
pub(super) async fn begin_life(connection: &mut PgConnection) -> Result<(), DatabaseError> {
    let mut transaction = connection.begin().await?;
    let sql = "SELECT lived_ms, trusted_lived_ms, trusted_unix_ms FROM cluster FOR UPDATE";
    let (lived, trusted_lived, trusted_unix): (i64, Option<i64>, Option<i64>) =
        sqlx::query_as(sql).fetch_one(&mut *transaction).await?;
    if lived > 0 {
        clock::live_on_from(Lived::from_column(lived));
    }
    if let (Some(lived), Some(unix)) = (trusted_lived, trusted_unix)
        && let Some(now) = clock::trusted_now()
    {
        clock::catch_up(Lived::from_column(lived), Unix::from_column(unix), now);
    }
    live_on(&mut transaction).await?;
    // The first life of the cluster begins.
    sqlx::query("UPDATE generations SET lived_ms = $1 WHERE g = 1 AND lived_ms = 0")
        .bind(Lived::now().to_column())
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(())
}
