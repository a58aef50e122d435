//! Payloads that every sink has and that are kept for a while: a new sink may begin with them.
//!
//! **Invariant**: what is kept is bounded by bytes and age; what a sink still needs is not this module's business.

use super::{Journal, StorageError, timeline};

/// Payloads looked at in one query.
const STEP: i64 = 1_000;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Bytes of all payloads together.
    pub bytes_max: u64,
    /// Milliseconds since they arrived; 0: nothing is kept.
    pub age_ms_max: u64,
}

/// Which payloads are kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Those after this one.
    from: u64,
    /// Counted up to this one.
    through: u64,
    /// Their bytes.
    bytes: u64,
}

impl Journal {
    /// Up to this sequence number payloads need not be kept for later.
    pub async fn kept_from(&self, retention: Retention) -> Result<u64, StorageError> {
        if retention.age_ms_max == 0 || retention.bytes_max == 0 {
            return Ok(u64::MAX);
        }
        let mut kept = self.kept.lock().await;
        let (bytes, through): (i64, Option<i64>) = sqlx::query_as(
            "SELECT coalesce(sum(length(items)), 0), max(seq) FROM payloads WHERE seq > ?",
        )
        .bind(kept.through.cast_signed())
        .fetch_one(&*self.reads)
        .await?;
        kept.bytes += bytes.unsigned_abs();
        kept.through = through.map_or(kept.through, i64::unsigned_abs);
        let aged: i64 = sqlx::query_scalar(timeline::OLDER_THAN)
            .bind(timeline::before(retention.age_ms_max))
            .fetch_one(&*self.reads)
            .await?;
        loop {
            let rows: Vec<(i64, i64)> = sqlx::query_as(
                "SELECT seq, length(items) FROM payloads WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
            )
            .bind(kept.from.cast_signed())
            .bind(kept.through.cast_signed())
            .bind(STEP)
            .fetch_all(&*self.reads)
            .await?;
            if rows.is_empty() {
                return Ok(kept.from);
            }
            for (seq, bytes) in rows {
                if kept.bytes <= retention.bytes_max && seq > aged {
                    return Ok(kept.from);
                }
                kept.from = seq.unsigned_abs();
                kept.bytes = kept.bytes.saturating_sub(bytes.unsigned_abs());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rusqlite::Connection;
    use uuid::Uuid;

    use super::*;
    use crate::clock;
    use crate::item::ItemsWriter;
    use crate::journal::log::Client;
    use crate::journal::{Durability, LogEntry, Options, Outcome, Submission};
    use crate::metrics::Metrics;
    use crate::sqlite::Fuse;

    /// A request that came at `received_ms` with one item of about 100 bytes.
    fn submission(received_ms: u64) -> Submission {
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
                    received_ms,
                    "c".into(),
                    "s".into(),
                    Outcome::Accepted,
                )
            },
            items: items.into_items(),
            claim: None,
            second: None,
        }
    }

    #[tokio::test]
    async fn the_oldest_go_first_by_age_and_by_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options {
            durability: Durability::Os,
            pending_bytes_max: 1 << 20,
            seq_floor: 0,
            log_retention_ms: u64::MAX,
            log_retention_bytes: u64::MAX,
        };
        let path = folder.path().join("journal.db");
        let metrics = Arc::new(Metrics::new());
        let journal = Journal::open(&path, options, metrics, &Fuse::default()).await;
        let journal = journal.expect("it opens");
        // Whatever the time of day was when they came.
        for received_ms in [4_000, 3_000, 2_000, 1_000] {
            let submitted = journal.submit(submission(received_ms)).await;
            submitted.expect("it is taken");
        }
        let point = Connection::open(&path).expect("it opens");
        point
            .execute(
                "INSERT INTO timeline (lived_ms, seq) VALUES (?1, 1)",
                [clock::lived_ms().cast_signed() - 60_000],
            )
            .expect("it writes");
        let kept = |bytes_max, age_ms_max| {
            let retention = Retention {
                bytes_max,
                age_ms_max,
            };
            let journal = &journal;
            async move { journal.kept_from(retention).await.expect("it reads") }
        };
        assert_eq!(kept(1 << 20, 3_600_000).await, 0, "all of it");
        assert_eq!(kept(1 << 20, 60_000).await, 1, "the first is too old");
        assert_eq!(kept(250, 3_600_000).await, 2, "two fit");
        journal
            .submit(submission(5_000))
            .await
            .expect("it is taken");
        assert_eq!(kept(250, 3_600_000).await, 3, "the last two");
        assert_eq!(kept(10, 3_600_000).await, 5, "none fits");
        assert_eq!(kept(0, 3_600_000).await, u64::MAX);
        assert_eq!(kept(1 << 20, 0).await, u64::MAX);
        journal.close().await;
    }
}
