//! What nodes publish of the limits of keys: their shares of rates, and the bytes that they stored today.
//!
//! Nothing of it has to survive the server: its commits wait for no disk and no standby.
//!
//! **Invariant**: what a node reads of the others was read after what it published was committed.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{Connection as _, PgConnection, Row as _};
use uuid::Uuid;

use super::{Database, DatabaseCall, DatabaseError};

/// A node reads again what was stored so long ago: a commit can be seen later than the time that it names.
const READ_AGAIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitsToPublish {
    /// Of each of these rates: its share in parts, and what it was asked for.
    pub shares: Vec<(Vec<u8>, u32, u64)>,
    /// Of these rates nothing any more.
    pub withdrawn: Vec<Vec<u8>>,
    /// Of each of these keys, by its digest: a day since 1970, and the bytes that this life of the node stored in it.
    /// Each life has its own row, so that a node that starts again adds to nobody's count.
    pub stored: Vec<([u8; 32], u64, u64)>,
}

/// What a node has published of a rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedRate {
    pub id: Vec<u8>,
    pub node: Uuid,
    pub share: u32,
    /// What it was asked for.
    pub wanted: u64,
}

/// A connection for what nodes publish of the limits of keys. Its commits wait for no disk, because nothing of it has
/// to survive the server.
#[derive(Debug)]
pub struct LimitsConnection {
    connection: PgConnection,
    database: Database,
    /// Everything that was stored before this was read. From then on only what has changed is read, because a day has a
    /// row for each key.
    has_read_stored: bool,
}

impl LimitsConnection {
    /// To the primary.
    ///
    /// # Errors
    /// What each server said.
    pub async fn to(database: &Database) -> Result<Self, DatabaseError> {
        let mut connection = database.connect_to_write().await?;
        sqlx::raw_sql("SET synchronous_commit = off")
            .execute(&mut connection)
            .await?;
        Ok(Self {
            connection,
            database: database.clone(),
            has_read_stored: false,
        })
    }

    /// Publishes what a node has to.
    ///
    /// # Errors
    /// The database's.
    pub async fn publish(
        &mut self,
        node: Uuid,
        publish: &LimitsToPublish,
    ) -> Result<(), DatabaseError> {
        if *publish == LimitsToPublish::default() {
            return Ok(());
        }
        let mut ids = Vec::new();
        let mut shares = Vec::new();
        let mut wanted = Vec::new();
        for (id, share, asked) in &publish.shares {
            ids.push(id.clone());
            shares.push(share.cast_signed());
            wanted.push(i64::try_from(*asked).unwrap_or(i64::MAX));
        }
        let mut keys = Vec::new();
        let mut days = Vec::new();
        let mut bytes = Vec::new();
        for (key, day, stored) in &publish.stored {
            keys.push(key.to_vec());
            days.push(i32::try_from(*day).unwrap_or(i32::MAX));
            bytes.push(i64::try_from(*stored).unwrap_or(i64::MAX));
        }
        let _timer = self.database.timer(DatabaseCall::Limits);
        sqlx::query("SELECT publish_limits($1, $2, $3, $4, $5, $6, $7, $8)")
            .bind(node)
            .bind(ids)
            .bind(shares)
            .bind(wanted)
            .bind(&publish.withdrawn)
            .bind(keys)
            .bind(days)
            .bind(bytes)
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }

    /// The shares that the other nodes have published.
    ///
    /// # Errors
    /// The database's.
    pub async fn shares(&mut self, node: Uuid) -> Result<Vec<PublishedRate>, DatabaseError> {
        let sql = "SELECT id, node, share, wanted FROM rate_shares WHERE node <> $1";
        let _timer = self.database.timer(DatabaseCall::Limits);
        let rows = sqlx::query(sql)
            .bind(node)
            .fetch_all(&mut self.connection)
            .await?;
        let published = |row: &PgRow| {
            Ok(PublishedRate {
                id: row.try_get("id")?,
                node: row.try_get("node")?,
                share: row.try_get::<i32, _>("share")?.unsigned_abs(),
                wanted: row.try_get::<i64, _>("wanted")?.unsigned_abs(),
            })
        };
        rows.iter().map(published).collect()
    }

    /// The digests of the keys of which the other nodes, and earlier lives of this one, stored something on this day since
    /// 1970, and the bytes of all of them. From the second call on, only where that has changed lately.
    ///
    /// # Errors
    /// The database's.
    pub async fn stored_elsewhere(
        &mut self,
        node: Uuid,
        day: u64,
    ) -> Result<Vec<([u8; 32], u64)>, DatabaseError> {
        let sql = "SELECT s.key, sum(s.bytes)::bigint AS bytes FROM key_bytes s WHERE s.day = $1 AND s.node <> $2
            AND ($3::interval IS NULL OR s.key IN (SELECT c.key FROM key_bytes c WHERE c.day = $1 AND c.node <> $2
              AND c.changed > clock_timestamp() - $3::interval))
            GROUP BY s.key";
        let _timer = self.database.timer(DatabaseCall::Limits);
        let rows = sqlx::query(sql)
            .bind(i32::try_from(day).unwrap_or(i32::MAX))
            .bind(node)
            .bind(self.has_read_stored.then_some(READ_AGAIN))
            .fetch_all(&mut self.connection)
            .await?;
        let stored = |row: &PgRow| {
            let key: Vec<u8> = row.try_get("key")?;
            let bytes: i64 = row.try_get("bytes")?;
            Ok(key.try_into().ok().map(|key| (key, bytes.unsigned_abs())))
        };
        let stored: Result<Vec<_>, DatabaseError> = rows.iter().map(stored).collect();
        let stored = stored?;
        self.has_read_stored = true;
        Ok(stored.into_iter().flatten().collect())
    }

    pub async fn close(self) {
        let _ = self.connection.close().await;
    }
}
