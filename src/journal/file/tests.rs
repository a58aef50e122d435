//! How far a cursor is behind; and the journal that other tests open.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::lag;
use crate::{Durability, Journal, Options};
use base::order::Seq;
use observe::metrics::Metrics;
use sqlite::FailStop;

/// A journal that flushes nothing and keeps everything, but for what is `changed`.
pub(crate) async fn open(path: &Path, changed: impl FnOnce(&mut Options)) -> Arc<Journal> {
    let mut options = Options {
        durability: Durability::Os,
        pending_bytes_max: 1 << 30,
        seq_floor: Seq::MIN,
        log_retention: Duration::MAX,
        log_retention_bytes: u64::MAX,
    };
    changed(&mut options);
    let (metrics, fail_stop) = (Arc::new(Metrics::new()), FailStop::default());
    let journal = Journal::open(path, options, metrics, &fail_stop).await;
    journal.expect("it opens")
}

#[test]
fn skipped_numbers_are_no_lag() {
    let skipped = [(10, 1_010), (2_000, 3_000)];
    let skipped = skipped.map(|(start, end)| Seq::new(start)..Seq::new(end));
    for (cursor, newest, expected) in [
        (5, 9, 4),
        (5, 1_011, 6),
        (10, 10, 0),
        (10, 1_012, 2),
        (1_010, 1_012, 2),
        (1_012, 10, 0),
        (0, 3_001, 1_001),
    ] {
        assert_eq!(
            lag(Seq::new(cursor), Seq::new(newest), &skipped),
            expected,
            "{cursor} {newest}"
        );
    }
}
