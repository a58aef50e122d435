//! Whole copies of both files, for nodes that have none or one that is of no use.
//!
//! **Invariant**: a base is of one entry that the log has, and is loaded whole or not at all. It stays while somebody loads
//! it, with the log behind it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use thiserror::Error;
use uuid::Uuid;

use super::{Log, column, leaves_doubt, unexpected};
use crate::{ChainDigest, LogPlace, ReplicaFile};
use postgres::{DatabaseCall, DatabaseError, refusal, within};

/// Bytes of a part. A file is stored in parts, because a statement and its memory are bounded and a file is not.
const PART_BYTES: u64 = 1 << 20;
/// Parts whose digests are asked for at once: the time of a statement is bounded, and that of a base is not.
const PARTS_COMPARED: usize = 256;

/// Why a base was not stored or loaded.
#[derive(Debug, Error)]
pub enum BaseError {
    /// The copy has another entry than the log: it is nobody's base.
    #[error("this copy has another entry than the log")]
    Differs,
    /// The database's. Nothing was stored.
    #[error("{0}")]
    Database(DatabaseError),
    /// A file cannot be read or written.
    #[error("{0}")]
    File(#[from] io::Error),
}

impl From<DatabaseError> for BaseError {
    fn from(error: DatabaseError) -> Self {
        match error.is(refusal::OTHER_ENTRY) {
            true => Self::Differs,
            false => Self::Database(error),
        }
    }
}

impl Log {
    /// Stores copies of both files, in the order of [`ReplicaFile::ALL`], that were made where both are at `place`.
    /// Others can load them from then on. Reads the files in parts, and blocks meanwhile.
    ///
    /// # Errors
    /// See [`BaseError`].
    pub async fn store_base(
        &mut self,
        place: LogPlace,
        format: i32,
        files: [&Path; 2],
    ) -> Result<(), BaseError> {
        self.connected().await?;
        let answer_max = self.answer_max;
        let connection = self.open_connection()?;
        let stored = store_base(connection, answer_max, (place, format), files).await;
        if matches!(&stored, Err(BaseError::Database(error)) if leaves_doubt(error)) {
            self.forget_connection();
        }
        stored.map(drop)
    }

    /// Writes the newest base into files that are made anew, in the order of [`ReplicaFile::ALL`]; where they are
    /// then. None: there is no base of this format or an older one. The base and the log behind it stay until this
    /// connection ends or loads another one: follow with it from there. Without that hold, entries that the copy
    /// still needs could be dropped while it is loaded.
    ///
    /// # Errors
    /// See [`BaseError`]; the files are not whole.
    pub async fn load_base(
        &mut self,
        format: i32,
        files: [&Path; 2],
    ) -> Result<Option<LogPlace>, BaseError> {
        let load = sqlx::query("SELECT id, n, digest, parts FROM load_base($1)").bind(format);
        let rows = self.ask(DatabaseCall::Base, load).await?;
        let Some(base) = rows.first() else {
            return Ok(None);
        };
        let id: Uuid = column(base, 0)?;
        let n: i64 = column(base, 1)?;
        let digest = ChainDigest::from_bytes(column(base, 2)?);
        let parts: Vec<i32> = column(base, 3)?;
        for ((file, path), parts) in ReplicaFile::ALL.into_iter().zip(files).zip(parts) {
            let mut made = File::create(path)?;
            for part in 0..parts {
                let read = sqlx::query(
                    "SELECT bytes FROM base_parts WHERE id = $1 AND file = $2 AND part = $3",
                )
                .bind(id)
                .bind(i16::from(file.number()))
                .bind(part);
                let rows = self.ask(DatabaseCall::Base, read).await?;
                let row = rows
                    .first()
                    .ok_or_else(|| unexpected("a part of the base is missing"))?;
                made.write_all(column(row, 0)?)?;
            }
        }
        let digest = digest.ok_or_else(|| unexpected("the digest of the base is none"))?;
        Ok(Some(LogPlace {
            n: n.unsigned_abs(),
            digest,
        }))
    }

    /// Bytes of the entries behind one.
    ///
    /// # Errors
    /// The database's.
    pub async fn bytes_after(&mut self, n: u64) -> Result<u64, DatabaseError> {
        let sql = "SELECT coalesce(sum(octet_length(change)), 0)::bigint FROM log WHERE n > $1";
        let query = sqlx::query(sql).bind(n.cast_signed());
        let rows = self.ask(DatabaseCall::Base, query).await?;
        let row = rows
            .first()
            .ok_or_else(|| unexpected("the log has no size"))?;
        Ok(column::<i64>(row, 0)?.unsigned_abs())
    }

    /// The newest format of a whole copy; none: there is no copy.
    ///
    /// # Errors
    /// The database's.
    pub async fn base_format(&mut self) -> Result<Option<i32>, DatabaseError> {
        let sql = "SELECT max(format) FROM bases WHERE parts IS NOT NULL";
        let rows = self.ask(DatabaseCall::Base, sqlx::query(sql)).await?;
        let row = rows
            .first()
            .ok_or_else(|| unexpected("the bases have no format"))?;
        column(row, 0)
    }

    /// Drops bases that are older than the newest and that nobody loads. A node that loads one would otherwise have
    /// half of it.
    ///
    /// # Errors
    /// The database's.
    pub async fn drop_bases(&mut self) -> Result<(), DatabaseError> {
        let query = sqlx::query("SELECT drop_bases()");
        self.ask(DatabaseCall::Base, query).await.map(drop)
    }
}

#[derive(Debug)]
pub(crate) struct StoredBase {
    id: Uuid,
    /// File, number and SHA-256 of each part, as it was read from the file.
    parts: Vec<(i16, i32, [u8; 32])>,
}

/// Stores a base over this connection; no statement takes longer than `wait`.
pub(crate) async fn store_base(
    connection: &mut PgConnection,
    wait: Duration,
    (place, format): (LogPlace, i32),
    files: [&Path; 2],
) -> Result<StoredBase, BaseError> {
    let id = Uuid::now_v7();
    let begin = sqlx::query("SELECT begin_base($1, $2, $3, $4)")
        .bind(id)
        .bind(place.n.cast_signed())
        .bind(place.digest.as_bytes())
        .bind(format);
    rows(connection, wait, begin).await?;
    let (mut counts, mut parts) = (Vec::new(), Vec::new());
    for (file, path) in ReplicaFile::ALL.into_iter().zip(files) {
        let mut stored = 0_i32;
        let mut open = File::open(path)?;
        loop {
            let mut bytes = Vec::new();
            (&mut open).take(PART_BYTES).read_to_end(&mut bytes)?;
            if bytes.is_empty() {
                break;
            }
            let number = i16::from(file.number());
            parts.push((number, stored, Sha256::digest(&bytes).into()));
            let store = sqlx::query(
                "INSERT INTO base_parts (id, file, part, bytes) VALUES ($1, $2, $3, $4)",
            )
            .bind(id)
            .bind(number)
            .bind(stored)
            .bind(bytes);
            rows(connection, wait, store).await?;
            stored += 1;
        }
        counts.push(stored);
    }
    let end = sqlx::query("SELECT end_base($1, $2, $3)")
        .bind(id)
        .bind(counts)
        .bind(env!("CARGO_PKG_VERSION"));
    rows(connection, wait, end).await?;
    Ok(StoredBase { id, parts })
}

impl StoredBase {
    /// Whether the database has the bytes of the files. The server computes the digests, so that no part has to come
    /// back.
    pub(crate) async fn is_equal(
        &self,
        connection: &mut PgConnection,
        wait: Duration,
    ) -> Result<bool, DatabaseError> {
        let sql = "SELECT sha256(bytes) FROM base_parts WHERE id = $1 AND (file, part) >= ($2, $3)
             ORDER BY file, part LIMIT $4";
        for parts in self.parts.chunks(PARTS_COMPARED) {
            let (file, part, _) = parts[0];
            let query = sqlx::query(sql).bind(self.id).bind(file).bind(part);
            let query = query.bind(i64::try_from(parts.len()).unwrap_or(i64::MAX));
            let found = rows(connection, wait, query).await?;
            let digests = found.iter().map(|row| column::<&[u8]>(row, 0));
            let digests = digests.collect::<Result<Vec<_>, _>>()?;
            if !digests.iter().eq(parts.iter().map(|(.., digest)| digest)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

async fn rows(
    connection: &mut PgConnection,
    wait: Duration,
    query: Query<'_, Postgres, PgArguments>,
) -> Result<Vec<PgRow>, DatabaseError> {
    let asking = async { Ok(query.fetch_all(connection).await?) };
    within(wait, asking).await
}
