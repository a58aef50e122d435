//! The current condition of the daemon, for status, pages and metrics, in addition to the counters.
//!
//! It is measured on request, so it costs nothing otherwise.
//!
//! **Invariant**: a value that cannot be read is left out and listed in `Condition::unreadable`; no function here
//! fails.

mod sink;

use std::path::Path;
use std::sync::Arc;

use super::unreadable::{Unreadable, seen, sentences};
use super::{OperateError, Operator};
use base::order::Seq;
use delivery::LaneStatus;
use observe::metrics::SinkGauges;
use pool::acts::ActCounts;
pub use sink::SinkCondition;

/// The files in the data directory that grow.
const FILES: [&str; 6] = [
    "journal.db",
    "journal.db-wal",
    "pool.db",
    "pool.db-wal",
    "catalog.db",
    "catalog.db-wal",
];

#[derive(Debug)]
pub struct Condition {
    /// The configured sinks, then sinks that are no longer configured and whose data was not deleted.
    pub sinks: Vec<SinkCondition>,
    /// Name and bytes of each existing file.
    pub files: Vec<(&'static str, u64)>,
    /// Payloads that could not be read and are quarantined.
    pub quarantined: Option<u64>,
    /// Holds and overrides of operators, by stream.
    pub acts: Vec<ActCounts>,
    unreadable: Vec<Unreadable>,
}

impl Condition {
    /// Values that could not be read, and why, as sentences. Those of a database of the cluster that does not answer
    /// are left out if `is_outage` says that something else names that.
    pub fn unreadable(&self, is_outage: bool) -> impl Iterator<Item = &str> {
        sentences(&self.unreadable, is_outage)
    }
}

/// Values that take longer to measure. Problems are found without them, because they are looked for every few seconds.
#[derive(Debug, Default)]
pub struct Amounts {
    /// Approximate bytes of the request log.
    pub log_bytes: Option<u64>,
    /// Approximate bytes of the payloads in the journal.
    pub payload_bytes: Option<u64>,
    /// Approximate undelivered bytes of each sink, in the order of the sinks.
    pub backlog_bytes: Vec<Option<u64>>,
}

impl Operator {
    pub async fn condition(&self) -> Condition {
        let mut unreadable = Vec::new();
        let mut sinks = Vec::new();
        seen(self.see_elsewhere().await, "the data pool", &mut unreadable);
        for lane in self.delivery.shown() {
            let name = Arc::clone(lane.name());
            // In this order: what the cursor has passed is then seen among retries and dead letters.
            let cursor = lane.cursor();
            sinks.push(self.sink(name, Some(lane), cursor, &mut unreadable).await);
        }
        let known = self.pool.known_sinks().await;
        for known in seen(known, "the data pool", &mut unreadable).unwrap_or_default() {
            // Asked again: it may have been added since.
            if self.delivery.shown_of(&known.name).is_none() {
                let name = known.name.into();
                sinks.push(self.sink(name, None, known.cursor, &mut unreadable).await);
            }
        }
        let quarantined = self.journal.quarantined().await;
        let quarantined = seen(quarantined, "the journal", &mut unreadable);
        let acts = self.in_pool(pool::Pool::act_counts).await;
        let acts = seen(acts, "the data pool", &mut unreadable).unwrap_or_default();
        Condition {
            sinks,
            acts,
            files: files(Path::new(&self.about.data_dir)),
            quarantined,
            unreadable,
        }
    }

    /// The condition of one sink, configured or not.
    ///
    /// # Errors
    /// [`OperateError::NoSink`], or the pool cannot be read.
    pub async fn condition_of(&self, name: &str) -> Result<SinkCondition, OperateError> {
        self.see_elsewhere().await?;
        let lane = self.delivery.shown_of(name);
        let cursor = match &lane {
            Some(lane) => lane.cursor(),
            None => {
                let known = self.pool.known_sinks().await?;
                let known = known.into_iter().find(|known| known.name == name);
                known.ok_or(OperateError::NoSink)?.cursor
            }
        };
        Ok(self.sink(name.into(), lane, cursor, &mut Vec::new()).await)
    }

    /// The number of items in the data pool that a sink never receives, because it started with the journal.
    ///
    /// # Errors
    /// The pool cannot be read.
    pub async fn missing(&self, sink: &SinkCondition) -> Result<Option<u64>, OperateError> {
        let Some(lane) = &sink.lane else {
            return Ok(None);
        };
        let missing = self.delivery.missing(&lane.sink()).await?;
        Ok(missing.filter(|items| *items > 0))
    }

    /// Limits of the start and the streams of a sink, as sentences.
    pub fn sink_notes(&self, sink: &settings::Sink) -> Vec<String> {
        let streams = self.catalog.streams();
        let streams = streams.iter().map(|one| &one.settings);
        let reaches: Vec<_> = self
            .delivery
            .shown()
            .iter()
            .map(|lane| lane.reach().0)
            .collect();
        let others = reaches.iter().map(|one| &**one);
        settings::beginning::notes(sink, streams, others)
    }

    /// Approximate bytes of payloads that a sink has not processed.
    pub async fn backlog_bytes(&self, sink: &SinkCondition) -> Option<u64> {
        match sink.unread {
            0 => Some(0),
            _ => self.journal.payload_bytes_after(sink.cursor).await.ok(),
        }
    }

    async fn sink(
        &self,
        name: Arc<str>,
        lane: Option<Arc<LaneStatus>>,
        cursor: Seq,
        unreadable: &mut Vec<Unreadable>,
    ) -> SinkCondition {
        let (cursor, changed) = match lane.as_ref().filter(|lane| lane.sink().is_latest()) {
            Some(lane) => self.followed(lane, unreadable).await,
            None => (cursor, 0),
        };
        let unread = self.journal.lag(cursor);
        let undelivered = self.pool.undelivered(&name).await;
        let undelivered = seen(undelivered, "the data pool", unreadable);
        let sink = lane.as_ref().map(|lane| lane.reach().0);
        let filling = self.delivery.filling(&name, sink.as_deref()).await;
        let filling = seen(filling, "the data pool", unreadable).flatten();
        let oldest = match unread {
            0 => None,
            _ => {
                let oldest = self.journal.oldest_after(cursor).await;
                seen(oldest, "the journal", unreadable).flatten()
            }
        };
        let retries = undelivered.map_or(0, |undelivered| undelivered.retries);
        let retried = lane.as_ref().map_or(0, |lane| lane.retried());
        let left = filling
            .as_ref()
            .map_or(0, |(_, left)| left.rows + left.waiting);
        let first_retried = match retries {
            0 => None,
            _ => {
                let first = self.delivery.first_retried(&name).await;
                seen(first, "the data pool or the journal", unreadable).flatten()
            }
        };
        let under_way = filling.as_ref().filter(|(filling, _)| !filling.is_over);
        let begun = under_way.map(|(filling, _)| filling.began_at);
        let at = oldest.map(|(at, _)| at);
        SinkCondition {
            name,
            node: lane.as_ref().and_then(|_| self.sinks_owner()),
            lane,
            cursor,
            // The lane may not have looked yet at what the file has.
            lag: unread
                + changed
                + retried.max(retries)
                + left
                + u64::from(begun.is_some() && left == 0),
            unread,
            filling,
            behind_since: [at, first_retried, begun].into_iter().flatten().min(),
            oldest_at: oldest.map(|(at, _)| at),
            waited: oldest.and_then(|(_, waited)| waited),
            undelivered,
        }
    }

    /// The lag of a sink with the newest state: no requests, but changed items that it does not have.
    async fn followed(&self, lane: &LaneStatus, unreadable: &mut Vec<Unreadable>) -> (Seq, u64) {
        let changed = self.delivery.changes_for(lane).await;
        let changed = seen(changed, "the data pool", unreadable);
        (*self.journal.newest().borrow(), changed.unwrap_or(0))
    }

    /// Measures the slower values. Unreadable values are already listed.
    pub async fn amounts(&self, condition: &Condition) -> Amounts {
        let journal = &self.journal;
        let mut backlog_bytes = Vec::with_capacity(condition.sinks.len());
        for sink in &condition.sinks {
            backlog_bytes.push(self.backlog_bytes(sink).await);
        }
        Amounts {
            log_bytes: journal.log_bytes().await.ok(),
            payload_bytes: journal.payload_bytes_after(Seq::MIN).await.ok(),
            backlog_bytes,
        }
    }

    /// All metrics as text, with gauges set to the current values.
    pub async fn metrics_now(&self) -> String {
        let condition = self.condition().await;
        let amounts = self.amounts(&condition).await;
        let gauges = &self.metrics.condition;
        gauges.begin();
        for (sink, backlog_bytes) in condition.sinks.iter().zip(&amounts.backlog_bytes) {
            let gauge = SinkGauges {
                state: sink.state(),
                lag: sink.lag,
                fill_left: Some(sink.fill_left()),
                oldest_seconds: sink.oldest_seconds(),
                backlog_bytes: *backlog_bytes,
                retries: sink.retries(),
                dead_letters: sink.dead_letters(),
                rejected: sink.lane.as_ref().map_or(0, |lane| lane.rejected().0),
            };
            gauges.set_sink(&sink.name, gauge);
        }
        for (name, bytes) in &condition.files {
            gauges.set_file(name, *bytes);
        }
        for acts in &condition.acts {
            gauges.set_acts(
                &acts.stream,
                acts.held.is_some(),
                acts.held_keys,
                acts.fields,
            );
        }
        for screen in self.screens() {
            gauges.set_screen(&screen.key.name, screen.is_there());
        }
        for (kind, count) in self.found(&condition).counts() {
            gauges.set_problems(kind, count);
        }
        self.measure_cluster();
        let quarantined = condition.quarantined;
        gauges.set(amounts.log_bytes, amounts.payload_bytes, quarantined);
        self.metrics.render()
    }
}

fn files(data_dir: &Path) -> Vec<(&'static str, u64)> {
    let size = |name: &'static str| {
        let metadata = data_dir.join(name).metadata().ok()?;
        Some((name, metadata.len()))
    };
    FILES.into_iter().filter_map(size).collect()
}
