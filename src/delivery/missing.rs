//! Items that a sink with `start = "journal"` never receives.
//!
//! The admin API requests the number, and the daemon logs it when such a sink begins.
//!
//! **Invariant**: the number is counted on request: an item that was updated since is no longer missing.

use super::{Delivery, LaneStatus, selection};
use base::order::Seq;
use pool::PoolError;
use settings::routing_gaps::writes_pool;
use settings::{Sink, Start};

impl Delivery {
    /// The number of items in the data pool that a sink never receives, because the journal no longer had their
    /// requests when it began; `None`: the sink does not start with the journal.
    ///
    /// # Errors
    /// The data pool cannot be read.
    pub async fn missing(&self, sink: &Sink) -> Result<Option<u64>, PoolError> {
        if sink.start != Start::Journal || writes_pool(sink) != Some(false) {
            return Ok(None);
        }
        match self.pool.began_after(&sink.name).await? {
            Some(before) => self.missing_before(sink, before).await.map(Some),
            None => Ok(None),
        }
    }

    async fn missing_before(&self, sink: &Sink, before: Seq) -> Result<u64, PoolError> {
        let mut items = 0;
        let mut after = (String::new(), String::new());
        loop {
            let wanted = |stream: &str| sink.matches(stream);
            let page = self.pool.missing_page(before, &after, wanted).await?;
            let slices = selection::matching(sink, page.slices, &self.problems);
            items += slices
                .iter()
                .map(|slice| u64::from(slice.len()))
                .sum::<u64>();
            match page.after {
                Some(next) => after = next,
                None => return Ok(items),
            }
        }
    }

    /// Logs the missing items of a sink that has just begun. Only if it has just begun, otherwise each start would
    /// repeat it.
    pub(super) async fn log_missing(&self, lane: &LaneStatus) -> Result<(), PoolError> {
        let sink = lane.sink();
        let began = self.pool.began_after(&sink.name).await?;
        if began != Some(lane.cursor()) || sink.start != Start::Journal {
            return Ok(());
        }
        if let Some(items @ 1..) = self.missing(&sink).await? {
            tracing::warn!(
                sink = &*sink.name,
                items,
                "the sink starts with the oldest stored request; older items of the data pool do not reach it"
            );
        }
        Ok(())
    }
}
