//! Payloads that every sink has and that are kept for a while: a new sink may begin with them.
//!
//! The writer counts what it writes ([`Written`]); only what is partly to go is read again.
//!
//! **Invariant**: what is kept is bounded by bytes and age; what a sink still needs is not this module's business.

use std::collections::VecDeque;

use super::{File, timeline};
use crate::StorageError;
use crate::retention::{OpenSegment, Retention};
use base::order::Seq;

/// Payloads looked at in one query.
const STEP: i64 = 1_000;

/// Which payloads are kept.
#[derive(Debug)]
pub(super) struct Kept {
    /// Those after this one.
    from: Seq,
    /// What the file ended with when it was opened, until that was counted. Counting reads all of it, so it is done
    /// when somebody asks and not at the start.
    uncounted: Option<Seq>,
    /// Sums of many payloads and not each size, so that memory does not grow with the file.
    stretches: VecDeque<OpenSegment>,
    /// Of all stretches.
    bytes: u64,
}

impl Kept {
    /// Of a file that ends with this payload.
    pub(super) fn of_file(last_seq: Seq) -> Self {
        Self {
            from: Seq::MIN,
            uncounted: Some(last_seq),
            stretches: VecDeque::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, stretches: Vec<OpenSegment>) {
        self.bytes += stretches.iter().map(|stretch| stretch.bytes).sum::<u64>();
        self.stretches.extend(stretches);
    }
}

impl File {
    pub(crate) async fn kept_from(&self, retention: Retention) -> Result<Seq, StorageError> {
        let mut kept = self.kept.lock().await;
        if let Some(last_seq) = kept.uncounted {
            let sql = "SELECT coalesce(sum(length(items)), 0) FROM payloads WHERE seq <= ?";
            let found = (self.reads).row(sql, [last_seq.to_column()], |row| row.get(0));
            let found: i64 = found.await?;
            kept.add(vec![OpenSegment {
                last_seq,
                bytes: found.unsigned_abs(),
            }]);
            kept.uncounted = None;
        }
        let written = std::mem::take(&mut self.shared.lock_recent().written);
        kept.add(written.0);
        if retention.age_max.is_zero() || retention.bytes_max == 0 {
            return Ok(Seq::MAX);
        }
        let age_max = retention.age_max;
        let aged = (self.reads).read(move |connection| timeline::older_than(connection, age_max));
        let aged = aged.await?;
        while let Some(oldest) = kept.stretches.front().copied() {
            let rest = kept.bytes - oldest.bytes;
            if oldest.last_seq > aged && rest < retention.bytes_max {
                break;
            }
            kept.from = oldest.last_seq;
            kept.bytes = rest;
            kept.stretches.pop_front();
        }
        self.shorten(&mut kept, aged, retention.bytes_max).await?;
        Ok(kept.from)
    }

    /// Lets go of the beginning of the oldest stretch, which is partly to be kept.
    async fn shorten(
        &self,
        kept: &mut Kept,
        aged: Seq,
        bytes_max: u64,
    ) -> Result<(), StorageError> {
        while let Some(oldest) = kept.stretches.front().copied()
            && (kept.bytes > bytes_max || kept.from < aged)
        {
            let sql = "SELECT seq, length(items) FROM payloads WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?";
            let values = [kept.from.to_column(), oldest.last_seq.to_column(), STEP];
            let rows = (self.reads).rows(sql, values, |row| {
                let bytes: i64 = row.get(1)?;
                Ok((Seq::from_column(row.get(0)?), bytes.unsigned_abs()))
            });
            let rows = rows.await?;
            if rows.is_empty() {
                // The rest of it was deleted before.
                kept.from = oldest.last_seq;
                kept.bytes -= oldest.bytes;
                kept.stretches.pop_front();
            }
            for (seq, bytes) in rows {
                if kept.bytes <= bytes_max && seq > aged {
                    return Ok(());
                }
                kept.from = seq;
                let Some(oldest) = kept.stretches.front_mut() else {
                    return Ok(());
                };
                let bytes = bytes.min(oldest.bytes);
                oldest.bytes -= bytes;
                kept.bytes -= bytes;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
