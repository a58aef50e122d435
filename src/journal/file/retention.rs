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
    /// What the file ended with when it was opened, until that was counted.
    uncounted: Option<Seq>,
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
            let found: i64 = sqlx::query_scalar(sql)
                .bind(last_seq.to_column())
                .fetch_one(&*self.reads)
                .await?;
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
        let aged: i64 = sqlx::query_scalar(timeline::OLDER_THAN)
            .bind(timeline::before(retention.age_max))
            .fetch_one(&*self.reads)
            .await?;
        let aged = Seq::from_column(aged);
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
            let rows: Vec<(i64, i64)> = sqlx::query_as(
                "SELECT seq, length(items) FROM payloads WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
            )
            .bind(kept.from.to_column())
            .bind(oldest.last_seq.to_column())
            .bind(STEP)
            .fetch_all(&*self.reads)
            .await?;
            if rows.is_empty() {
                // The rest of it was deleted before.
                kept.from = oldest.last_seq;
                kept.bytes -= oldest.bytes;
                kept.stretches.pop_front();
            }
            for (seq, bytes) in rows {
                let (seq, bytes) = (Seq::from_column(seq), bytes.unsigned_abs());
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
mod tests {

    use rusqlite::Connection;
    use uuid::Uuid;

    use super::*;
    use crate::log::Client;
    use crate::{LogEntry, Outcome, Submission};
    use base::clock::{Lived, Unix};
    use item::ItemsWriter;
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_mins(1);
    const HOUR: Duration = Duration::from_hours(1);

    /// A request that came at `received_at` with one item of about 100 bytes.
    fn submission(received_at: Unix) -> Submission {
        let mut items = ItemsWriter::new(1 << 20, 0);
        let fields = format!("{{\"text\":\"{}\"}}", "x".repeat(80));
        items.push("key", &fields).expect("it fits");
        Submission {
            log: LogEntry {
                items: 1,
                bytes: 100,
                client: Client::Unix,
                ..LogEntry::of(
                    Uuid::now_v7(),
                    received_at,
                    "c".into(),
                    "s".into(),
                    Outcome::Accepted,
                )
            },
            arrived: Lived::now(),
            items: items.into_items(),
            claim: None,
            second: None,
            recheck: None,
        }
    }

    #[tokio::test]
    async fn the_oldest_go_first_by_age_and_by_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal.db");
        let open = || crate::file::tests::open(&path, |_| ());
        let journal = open().await;
        // Whatever the time of day was when they came.
        for received_at in [4_000, 3_000, 2_000, 1_000] {
            let submitted = journal.submit(submission(Unix::from_ms(received_at))).await;
            submitted.expect("it is taken");
        }
        let point = Connection::open(&path).expect("it opens");
        point
            .execute(
                "INSERT INTO timeline (lived_ms, seq) VALUES (?1, 1)",
                [(Lived::now() - MINUTE).to_column()],
            )
            .expect("it writes");
        let kept = |bytes_max, age_max| {
            let retention = Retention { bytes_max, age_max };
            let journal = &journal;
            async move { journal.kept_from(retention).await.expect("it reads").get() }
        };
        assert_eq!(kept(1 << 20, HOUR).await, 0, "all of it");
        assert_eq!(kept(1 << 20, MINUTE).await, 1, "the first is too old");
        assert_eq!(kept(250, HOUR).await, 2, "two fit");
        journal
            .submit(submission(Unix::from_ms(5_000)))
            .await
            .expect("it is taken");
        assert_eq!(kept(250, HOUR).await, 3, "the last two");
        assert_eq!(kept(10, HOUR).await, 5, "none fits");
        assert_eq!(kept(0, HOUR).await, u64::MAX);
        assert_eq!(kept(1 << 20, Duration::ZERO).await, u64::MAX);
        journal.close().await;

        // What was there before is counted too, and what comes then.
        let journal = open().await;
        let retention = Retention {
            bytes_max: 250,
            age_max: HOUR,
        };
        let kept = journal.kept_from(retention).await.expect("it reads");
        assert_eq!(kept.get(), 3, "the last two");
        let submitted = journal.submit(submission(Unix::from_ms(6_000))).await;
        submitted.expect("it is taken");
        let kept = journal.kept_from(retention).await.expect("it reads");
        assert_eq!(kept.get(), 4, "the last two");
        journal.close().await;
    }
}
