//! The rows of tickets.
//!
//! **Invariant**: a row is deleted by the statement that reads it.

use std::time::Duration;

use base::clock::Unix;
use sqlx::Row as _;

use super::{AccessTables, count, digest};
use crate::DatabaseError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketRow {
    /// Of its read key, or of the admin token that it was made with.
    pub name: String,
    /// Digest of the read key; none: it was made with an admin token.
    pub key: Option<[u8; 32]>,
    /// When the admin token ends.
    pub key_ends: Option<Unix>,
    /// The streams that it opens.
    pub streams: Vec<String>,
    /// The only origin that can use it.
    pub origin: Option<String>,
}

impl AccessTables {
    /// Stores a ticket by its digest; the oldest ones of its name go, so that the name has `of_name_max`. Returns when it
    /// ends.
    ///
    /// # Errors
    /// The database's.
    pub async fn give_ticket(
        &self,
        sha256: [u8; 32],
        ticket: &TicketRow,
        lasts: Duration,
        of_name_max: usize,
    ) -> Result<Unix, DatabaseError> {
        let statement = sqlx::query("SELECT give_ticket($1, $2, $3, $4, $5, $6, $7, $8)")
            .bind(sha256)
            .bind(&ticket.name)
            .bind(ticket.key)
            .bind(ticket.key_ends.map(Unix::to_column))
            .bind(&ticket.streams)
            .bind(&ticket.origin)
            .bind(lasts.as_secs_f64())
            .bind(count(of_name_max));
        let row = self.first(statement).await?;
        let ends: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
        Ok(Unix::from_column(ends.unwrap_or_default()))
    }

    /// Deletes a ticket and returns it; none: there is none, or it has ended. One statement does both, so that two
    /// nodes cannot open a connection each. Its commit waits for no standby, because a screen could not connect while
    /// the standby is away.
    ///
    /// # Errors
    /// The database's.
    pub async fn take_ticket(&self, sha256: [u8; 32]) -> Result<Option<TicketRow>, DatabaseError> {
        let sql = "WITH here AS MATERIALIZED (SELECT commit_here('off')) DELETE FROM tickets USING here WHERE sha256 = $1
            RETURNING name, key, unix_ms(key_ends) AS key_ends, streams, origin, ends > clock_timestamp() AS in_time";
        let row = self.first(sqlx::query(sql).bind(sha256)).await?;
        let Some(row) = row.filter(|row| row.try_get("in_time").unwrap_or(false)) else {
            return Ok(None);
        };
        let key: Option<Vec<u8>> = row.try_get("key")?;
        let key_ends: Option<i64> = row.try_get("key_ends")?;
        Ok(Some(TicketRow {
            name: row.try_get("name")?,
            key: key.map(|_| digest(&row, "key")).transpose()?,
            key_ends: key_ends.map(Unix::from_column),
            streams: row.try_get("streams")?,
            origin: row.try_get("origin")?,
        }))
    }
}
