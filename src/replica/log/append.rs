//! Appends an entry, and asks what became of it where the answer was lost.
//!
//! **Invariant**: an entry is appended once, however often it is tried.

use uuid::Uuid;

use super::append_error::AppendError;
use super::{ANSWER_MAX_LATER, Log, PAUSE, PAUSE_MAX};
use crate::{LogPlace, ReplicaFile, part_of, raised_to};
use postgres::{DatabaseCall, DatabaseError, within};

/// What is to be appended.
#[derive(Debug, Clone, Copy)]
pub struct NewEntry<'a> {
    /// The number of the claim under which the node runs the sinks, for what they settle. Whoever does something else
    /// passes none.
    pub fence: Option<i64>,
    /// The entry that it follows on.
    pub before: LogPlace,
    /// [`change`](crate::change).
    pub change: &'a [u8],
    /// Number of the newest change of the pool.
    pub seq: u64,
    /// Up to here every sink has the accepted requests.
    pub low_water: u64,
    /// The format that the log must have, or an older one; [`Log::raise`] raises it.
    pub format: i32,
}

impl Log {
    /// Appends an entry; the place behind it. If the answer is lost, this asks until it is known, however long that takes: the
    /// transaction of the file stays open meanwhile. Do not drop the future. The nonce is random, because a node may
    /// have several logs.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub async fn append(&mut self, entry: &NewEntry<'_>) -> Result<LogPlace, AppendError> {
        // Random: a node may have several logs.
        let nonce = Uuid::now_v7().as_u128() as u64;
        self.append_as(entry, nonce.cast_signed()).await
    }

    /// The same under a nonce, by which an attempt is known again.
    pub(super) async fn append_as(
        &mut self,
        entry: &NewEntry<'_>,
        nonce: i64,
    ) -> Result<LogPlace, AppendError> {
        let doubts = self.doubts.clone();
        let ended = tokio::select! {
            appended = self.append_until_known(entry, nonce) => return appended,
            () = doubts.ended() => AppendError::Unknown,
        };
        self.forget_connection();
        Err(ended)
    }

    /// Each wait is longer than the one before, because a commit that waits for its standby must not be ended.
    async fn append_until_known(
        &mut self,
        entry: &NewEntry<'_>,
        nonce: i64,
    ) -> Result<LogPlace, AppendError> {
        let place = entry.before.after(entry.change);
        let raises = raised_to(entry.change)?.is_some();
        let is_catalog = raises || part_of(entry.change, ReplicaFile::Catalog)?.is_some();
        let (mut is_in_doubt, mut pause, mut wait) = (false, PAUSE, self.answer_max);
        loop {
            if let Err(error) = self.connected().await
                && !is_in_doubt
            {
                return Err(error.into());
            }
            if self.connection.is_some() {
                let values = (nonce, &place, is_catalog);
                let appended = match raises {
                    true => within(wait, self.raise_once(entry, nonce, &place)).await,
                    false => within(wait, self.append_once(entry, values)).await,
                };
                match appended {
                    Ok(()) => {
                        self.database.hints().give();
                        return Ok(place);
                    }
                    Err(error) if leaves_doubt(&error) => {
                        is_in_doubt = true;
                        self.forget_connection();
                    }
                    Err(error) => {
                        self.release().await;
                        match AppendError::of(error, is_in_doubt, entry.format) {
                            // That this attempt did nothing says nothing of the one before.
                            AppendError::Database(_) if is_in_doubt => {}
                            error => return Err(error),
                        }
                    }
                }
                wait = (2 * wait).min(ANSWER_MAX_LATER);
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    async fn append_once(
        &mut self,
        entry: &NewEntry<'_>,
        (nonce, place, is_catalog): (i64, &LogPlace, bool),
    ) -> Result<(), DatabaseError> {
        let append = sqlx::query("SELECT append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
            .bind(self.node)
            .bind(entry.fence)
            .bind(entry.before.n.cast_signed())
            .bind(entry.before.digest.as_bytes())
            .bind(place.digest.as_bytes())
            .bind(entry.seq.cast_signed())
            .bind(entry.low_water.cast_signed())
            .bind(entry.format)
            .bind(nonce)
            .bind(is_catalog)
            .bind(entry.change);
        let _timer = self.database.timer(DatabaseCall::Append);
        let connection = self.open_connection()?;
        append.execute(&mut *connection).await?;
        if self.is_reserved {
            let connection = self.open_connection()?;
            sqlx::query("COMMIT").execute(connection).await?;
            self.is_reserved = false;
        }
        Ok(())
    }
}

/// Whether the statement may have been done all the same. The server may have committed before its answer was lost.
pub(super) fn leaves_doubt(error: &DatabaseError) -> bool {
    match error {
        DatabaseError::Away(_) => true,
        DatabaseError::Refused { code, .. } => code.is_empty(),
        _ => false,
    }
}
