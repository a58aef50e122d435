//! What a sink that began with the journal never gets.
//!
//! The admin API asks, and the log says it when such a sink begins.
//!
//! **Invariant**: it is counted when somebody asks: what is written again since is not missing any more.

use super::{Delivery, LaneStatus, selection};
use base::order::Seq;
use pool::PoolError;
use settings::routing_gaps::writes_pool;
use settings::{Sink, Start};

impl Delivery {
    /// How many items of the data pool a sink never gets, because the journal did not have them any more when it began; none:
    /// it promises no such thing.
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

    /// Says what a sink does not get that has just begun.
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
