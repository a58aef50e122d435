//! The rows of nodes: what each says of itself, and who else has its name.
//!
//! **Invariant**: what a node reads of the others was committed before its own row was.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{Connection as _, PgConnection, Row as _};
use uuid::Uuid;

use super::inspect::{OPEN_FOR, asynchronous, long_transactions};
use super::{ClusterLock, Database, DatabaseCall, DatabaseError, Durability, within};

/// Longest wait for an answer to what is no beat: of that, the caller knows how long it waits.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSaid {
    /// Of one life of the process.
    pub node: Uuid,
    /// Its name in the cluster.
    pub name: String,
    /// Of Headgate.
    pub version: String,
    /// Where it listens.
    pub address: String,
    /// It may run the sinks, if it is its turn.
    pub may_run_sinks: bool,
    /// The newest format of the log that it knows.
    pub format: i32,
    /// Of its declared configuration.
    pub config: [u8; 16],
    /// Of the plugins of its sinks.
    pub plugins: [u8; 16],
    /// Of the admin tokens that it accepts; `None`: it does not say.
    pub tokens: Option<[u8; 16]>,
    /// Newest entry of the log that its copies have.
    pub entry: u64,
    /// Newest entry that changed `catalog.db`.
    pub catalog: u64,
    /// How far its copies are behind the log.
    pub delay: Duration,
    pub renderers: u64,
}

/// What a node has said, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    pub said: NodeSaid,
    /// Rises while it lives.
    pub beat: i64,
    /// When it said so, since 1970 by the clock of the database.
    pub seen: Duration,
    /// How long ago that was, by the same clock. The clock of the reader may differ from it.
    pub age: Duration,
}

/// What a beat is answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beat {
    /// Of the journal's tables.
    pub generation: u32,
    /// What the positions of renderers have since the log has lost changes; 0: it has lost none.
    pub epoch: u64,
    pub owner: Option<Uuid>,
    pub version: String,
    /// Standbys that confirm commits.
    pub standbys: Vec<String>,
    /// All of them; this one is among them.
    pub nodes: Vec<NodeSeen>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedNode {
    pub node: Uuid,
    pub address: String,
    pub beat: i64,
    /// The connection on which it last said something is there.
    pub is_connected: bool,
}

/// A connection on which a node says that it lives.
#[derive(Debug)]
pub struct NodesConnection {
    connection: PgConnection,
    database: Database,
    process: i32,
}

impl NodesConnection {
    /// To the primary, which was compared with the one that the cluster was on.
    ///
    /// # Errors
    /// What each server said; there is no schema.
    pub async fn to(database: &Database) -> Result<Self, DatabaseError> {
        let mut connection = database.connect().await?;
        let beginning = async {
            database.arrive(&mut connection).await?;
            let process = sqlx::query_scalar("SELECT pg_backend_pid()");
            Ok(process.fetch_one(&mut connection).await?)
        };
        let process = within(ANSWER_MAX, beginning).await?;
        Ok(Self {
            connection,
            database: database.clone(),
            process,
        })
    }

    /// The server's process that works for it.
    pub fn process(&self) -> i32 {
        self.process
    }

    /// Says what a node is, and asks for all.
    ///
    /// # Errors
    /// The database's.
    pub async fn beat(&mut self, said: &NodeSaid) -> Result<Beat, DatabaseError> {
        let _timer = self.database.timer(DatabaseCall::Beat);
        beat(&mut self.connection, said).await
    }

    /// That no commit waits for a standby, although this node promises it, as a sentence. Who administers the server can
    /// change that at any time.
    ///
    /// # Errors
    /// The database's.
    pub async fn asynchronous(&mut self) -> Result<Option<String>, DatabaseError> {
        match self.database.durability {
            Durability::Local => Ok(None),
            Durability::Standby => asynchronous(&mut self.connection).await,
        }
    }

    /// Transactions of others that have been open for a minute, as sentences.
    ///
    /// # Errors
    /// The database's.
    pub async fn long_transactions(&mut self) -> Result<Vec<String>, DatabaseError> {
        long_transactions(&mut self.connection, OPEN_FOR).await
    }

    /// The nodes that have a name, but for `node`.
    ///
    /// # Errors
    /// The database's.
    pub async fn named(&mut self, name: &str, node: Uuid) -> Result<Vec<NamedNode>, DatabaseError> {
        within(ANSWER_MAX, named(&mut self.connection, name, node)).await
    }

    /// Takes a name, and says what the node is; none: other nodes than the dead ones have it. It looks once more
    /// under the lock, because two nodes may have found the name free.
    ///
    /// # Errors
    /// The database's.
    pub async fn take_name(
        &mut self,
        said: &NodeSaid,
        dead: &[Uuid],
    ) -> Result<Option<Beat>, DatabaseError> {
        let mut transaction = self.connection.begin().await?;
        (self.database.take(ClusterLock::Names, &mut transaction)).await?;
        forget(&mut transaction, dead).await?;
        let others = named(&mut transaction, &said.name, said.node).await?;
        if !others.is_empty() {
            transaction.rollback().await?;
            return Ok(None);
        }
        let beat = beat(&mut transaction, said).await?;
        transaction.commit().await?;
        Ok(Some(beat))
    }

    /// Deletes the rows of lives that are over; how many there were.
    ///
    /// # Errors
    /// The database's.
    pub async fn forget(&mut self, nodes: &[Uuid]) -> Result<u64, DatabaseError> {
        forget(&mut self.connection, nodes).await
    }

    pub async fn close(self) {
        let _ = self.connection.close().await;
    }
}

/// What a process of the server waits for, if it works at all; an empty text: for nothing. It is asked over another
/// connection, because the process does not answer on its own.
///
/// # Errors
/// The database's.
pub async fn works(database: &Database, process: i32) -> Result<Option<String>, DatabaseError> {
    let mut connection = database.connect().await?;
    let sql =
        "SELECT coalesce(wait_event, '') FROM pg_stat_activity WHERE pid = $1 AND state = 'active'";
    let event = sqlx::query_scalar(sql)
        .bind(process)
        .fetch_optional(&mut connection)
        .await?;
    let _ = connection.close().await;
    Ok(event)
}

async fn beat(connection: &mut PgConnection, said: &NodeSaid) -> Result<Beat, DatabaseError> {
    let delay = i64::try_from(said.delay.as_millis()).unwrap_or(i64::MAX);
    let rows =
        sqlx::query("SELECT * FROM beat($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)")
            .bind(said.node)
            .bind(&said.name)
            .bind(&said.version)
            .bind(&said.address)
            .bind(said.may_run_sinks)
            .bind(said.format)
            .bind(said.config)
            .bind(said.plugins)
            .bind(said.tokens)
            .bind(said.entry.cast_signed())
            .bind(said.catalog.cast_signed())
            .bind(delay)
            .bind(said.renderers.cast_signed())
            .fetch_all(connection)
            .await?;
    let mut beat = Beat::default();
    if let Some(row) = rows.first() {
        let version: String = row.try_get("server")?;
        beat = Beat {
            generation: row.try_get::<i32, _>("generation")?.unsigned_abs(),
            epoch: row.try_get::<i64, _>("epoch")?.unsigned_abs(),
            owner: row.try_get("owner")?,
            // Behind it, Debian says what it is called there.
            version: version.split(' ').next().unwrap_or_default().to_owned(),
            standbys: row.try_get("standbys")?,
            nodes: Vec::new(),
        };
    }
    beat.nodes = rows.iter().map(seen).collect::<Result<_, _>>()?;
    Ok(beat)
}

fn seen(row: &PgRow) -> Result<NodeSeen, DatabaseError> {
    let number = |name| Ok::<_, DatabaseError>(row.try_get::<i64, _>(name)?.unsigned_abs());
    let time = |name| Ok::<_, DatabaseError>(Duration::from_millis(number(name)?));
    let said = NodeSaid {
        node: row.try_get("node")?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        address: row.try_get("address")?,
        may_run_sinks: row.try_get("may_run_sinks")?,
        format: row.try_get("format")?,
        config: row.try_get("config")?,
        plugins: row.try_get("plugins")?,
        tokens: row.try_get("tokens")?,
        entry: number("entry")?,
        catalog: number("catalog")?,
        delay: time("delay_ms")?,
        renderers: number("renderers")?,
    };
    Ok(NodeSeen {
        said,
        beat: row.try_get("beat")?,
        seen: time("seen_ms")?,
        age: time("age_ms")?,
    })
}

async fn named(
    connection: &mut PgConnection,
    name: &str,
    node: Uuid,
) -> Result<Vec<NamedNode>, DatabaseError> {
    let sql = "SELECT node, address, beat, is_connected(pid, started) AS is_connected FROM nodes WHERE name = $1 AND node <> $2";
    let rows = sqlx::query(sql)
        .bind(name)
        .bind(node)
        .fetch_all(connection)
        .await?;
    let named = |row: &PgRow| {
        Ok(NamedNode {
            node: row.try_get("node")?,
            address: row.try_get("address")?,
            beat: row.try_get("beat")?,
            is_connected: row.try_get("is_connected")?,
        })
    };
    rows.iter().map(named).collect()
}

async fn forget(connection: &mut PgConnection, nodes: &[Uuid]) -> Result<u64, DatabaseError> {
    let deleted = sqlx::query("DELETE FROM nodes WHERE node = ANY($1)")
        .bind(nodes)
        .execute(connection)
        .await?;
    Ok(deleted.rows_affected())
}
