//! The last hour, counted from the request log after a start: what the pages show goes on where the process before
//! ended. In a cluster, the log is that of all nodes, and what this one shows is its own part: the journal says which
//! it is.
//!
//! **Invariant**: an entry that is counted here was logged before the listeners were opened, so none is counted twice.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use base::clock::Unix;
use base::order::Seq;
use journal::StorageError;
use journal::log::Filter;
use observe::metrics::Minute;
use operate::Operator;

const HOUR: Duration = Duration::from_hours(1);
/// What was not counted by then is left out; the newest entries come first.
const TIME_MAX: Duration = Duration::from_secs(30);

/// Counts the entries up to the position `through`, in the background. The log of an hour can be long, so the listeners
/// do not wait for it.
pub(super) async fn count(operator: Operator, through: Seq, stop: CancellationToken) {
    let counted = tokio::select! {
        counted = count_back(&operator, through) => counted,
        () = stop.cancelled() => return,
    };
    match counted {
        Ok(true) => {}
        Ok(false) => tracing::warn!(
            "the last hour has too many requests to count them all: the pages show its newest part"
        ),
        Err(error) => tracing::warn!(%error, "the last hour before this start cannot be counted"),
    }
}

/// Whether all of them were counted.
async fn count_back(operator: &Operator, through: Seq) -> Result<bool, StorageError> {
    let started = Instant::now();
    let since = Unix::now() - HOUR;
    let mut filter = Filter {
        since: Some(since),
        before: Some(through + 1),
        ..Filter::default()
    };
    while let Some(range) = operator.journal.log_range(&filter).await? {
        let (minutes, next) = operator.journal.log_minutes(range, since).await?;
        for one in minutes {
            let requests = Minute {
                requests: one.requests,
                errors: one.errors,
                items: one.items,
                ..Minute::default()
            };
            if one.requests > 0 {
                (operator.metrics.recent).restore(&one.connector, one.minute, requests);
            }
            (operator.catalog).note_use(&one.connector, &one.key, one.newest_at);
        }
        if next.is_none() {
            return Ok(true);
        }
        if started.elapsed() >= TIME_MAX {
            return Ok(false);
        }
        filter.before = next;
    }
    Ok(true)
}
