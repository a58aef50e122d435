//! Raises the format of the log.
//!
//! **Invariant**: the entry and the format of the log change in one transaction.

use postgres::DatabaseError;

use super::{AppendError, Log, LogPlace, NewEntry};
use crate::raise;

impl Log {
    /// Appends the entry behind which the log has this format, as [`append`](Self::append) does. From then on nodes
    /// that do not know it append nothing, and end. Ask first whether any of them lives, because they would be shut
    /// out.
    ///
    /// # Errors
    /// See [`AppendError`]; [`AppendError::Behind`] if there are entries behind `before`, or the log has the format already.
    pub async fn raise(&mut self, before: LogPlace, format: i32) -> Result<LogPlace, AppendError> {
        let change = raise(format);
        let entry = NewEntry {
            fence: None,
            before,
            change: &change,
            seq: 0,
            low_water: 0,
            format,
        };
        self.append(&entry).await
    }

    /// It names this version, so that older nodes can say which one they need.
    pub(super) async fn raise_once(
        &mut self,
        entry: &NewEntry<'_>,
        nonce: i64,
        place: &LogPlace,
    ) -> Result<(), DatabaseError> {
        let raise = sqlx::query("SELECT raise_format($1, $2, $3, $4, $5, $6, $7, $8)")
            .bind(self.node)
            .bind(entry.before.n.cast_signed())
            .bind(entry.before.digest.as_bytes())
            .bind(place.digest.as_bytes())
            .bind(entry.format)
            .bind(env!("CARGO_PKG_VERSION"))
            .bind(nonce)
            .bind(entry.change);
        raise.execute(self.open_connection()?).await?;
        Ok(())
    }
}
