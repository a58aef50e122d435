//! The current condition of the daemon, for status, pages and metrics, in addition to the counters.
//!
//! It is measured on request, so it costs nothing otherwise.
//!
//! **Invariant**: a value that cannot be read is left out and listed in `Condition::unreadable`; no function here
//! fails.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::error::CRASHED;
use super::unreadable::{Unreadable, seen, sentences};
use super::{OperateError, Operator};
use base::clock::{Unix, rfc3339};
use base::order::Seq;
use delivery::{Hold, LaneState, LaneStatus};
use observe::metrics::SinkGauges;
use pool::acts::ActCounts;
use pool::{FillLeft, Filling, Undelivered};

/// The files in the data directory that grow.
const FILES: [&str; 6] = [
    "journal.db",
    "journal.db-wal",
    "pool.db",
    "pool.db-wal",
    "catalog.db",
    "catalog.db-wal",
];

/// Condition of the daemon.
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
    /// Values that could not be read, and why, as sentences. Those of a database of the cluster that does not answer are left
    /// out if `is_outage` says that something else names that.
    pub fn unreadable(&self, is_outage: bool) -> impl Iterator<Item = &str> {
        sentences(&self.unreadable, is_outage)
    }
}

/// Condition of a sink.
#[derive(Debug)]
pub struct SinkCondition {
    pub name: Arc<str>,
    /// `None`: it is no longer configured, and its data was not deleted.
    pub lane: Option<Arc<LaneStatus>>,
    /// Its cursor.
    pub cursor: Seq,
    /// Its lag, at most: requests after its cursor, requests in retries, and items of its fill. 0 if it has everything.
    pub lag: u64,
    /// Sequence numbers after its cursor.
    pub unread: u64,
    /// Its last or current fill, and the rest of it; `None`: there was none, or it cannot be read.
    pub filling: Option<(Filling, FillLeft)>,
    /// Since when it does not have everything.
    pub behind_since: Option<Unix>,
    /// When its oldest undelivered request arrived.
    pub oldest_at: Option<Unix>,
    /// How long that request has waited, by the uptime clock.
    pub waited: Option<Duration>,
    /// `None`: the pool cannot be read.
    pub undelivered: Option<Undelivered>,
    /// In a cluster, the node that runs it; `None`: none does.
    pub node: Option<String>,
}

/// Values that take longer to measure.
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
    /// Measures the condition.
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

impl SinkCondition {
    /// How long the oldest undelivered request has waited; 0 if there is none, `None` if it is unknown.
    fn oldest_seconds(&self) -> Option<u64> {
        match self.unread {
            0 => Some(0),
            _ => Some(self.waited?.as_secs()),
        }
    }

    /// Items of its fill that it does not have yet.
    pub fn fill_left(&self) -> u64 {
        let left = self
            .filling
            .as_ref()
            .map(|(_, left)| left.rows + left.waiting);
        left.unwrap_or(0)
    }

    /// The node that runs it, if this one has no lane of it: only that one knows how its calls end.
    pub fn elsewhere(&self) -> Option<&str> {
        let is_elsewhere = self.lane.as_ref().is_some_and(|lane| lane.is_stand_in());
        self.node.as_deref().filter(|_| is_elsewhere)
    }

    /// One of [`SINK_STATES`](observe::metrics::SINK_STATES).
    pub fn state(&self) -> &'static str {
        match self.lane.as_ref().map(|lane| lane.state()) {
            None => "unconfigured",
            Some(LaneState::Starting) => "starting",
            Some(LaneState::Running) => "running",
            Some(LaneState::Filling) => "filling",
            Some(LaneState::Failing { .. } | LaneState::TakesNothing { .. }) => "failing",
            Some(LaneState::Crashed) => "crashed",
            Some(LaneState::Elsewhere { .. }) => "elsewhere",
            Some(LaneState::Paused { .. } | LaneState::Held(_)) => "paused",
        }
    }

    /// Why it does not run, and when a paused sink is tried again.
    pub fn reason(&self) -> (Option<String>, Option<Unix>) {
        let Some(lane) = &self.lane else {
            return (Some(self.why_kept()), None);
        };
        match lane.state() {
            LaneState::Starting | LaneState::Running | LaneState::Filling => (None, None),
            LaneState::Crashed => (Some(CRASHED.to_owned()), None),
            LaneState::Failing { reason }
            | LaneState::TakesNothing { reason }
            | LaneState::Elsewhere { reason } => (Some(reason), None),
            LaneState::Paused { reason, until, .. } => (Some(reason), Some(until)),
            LaneState::Held(hold) => (Some(why_held(&hold)), None),
        }
    }

    /// The reason for a sink that is not configured.
    fn why_kept(&self) -> String {
        let known = |number: Option<u64>| number.map_or("?".to_owned(), |one| one.to_string());
        format!(
            "it is no longer in the configuration; its backlog (up to {} requests), {} retries and {} dead letters are kept. Add it back, or delete its data with `headgate sink forget {}`",
            self.lag,
            known(self.retries()),
            known(self.dead_letters()),
            self.name
        )
    }

    /// Batches in retries; `None`: the pool cannot be read.
    pub fn retries(&self) -> Option<u64> {
        self.undelivered.map(|undelivered| undelivered.retries)
    }

    /// Dead letters; `None`: the pool cannot be read.
    pub fn dead_letters(&self) -> Option<u64> {
        self.undelivered.map(|undelivered| undelivered.dead_letters)
    }

    /// The name of the built-in plugin, or the path of the component; empty if the sink is not configured.
    pub fn plugin(&self) -> String {
        let plugin = self.lane.as_ref().map(|lane| lane.sink().plugin.clone());
        plugin.unwrap_or_default()
    }

    /// The streams as text.
    pub fn streams_in_words(&self) -> String {
        let Some(lane) = &self.lane else {
            return String::new();
        };
        let sink = lane.sink();
        let streams = sink.streams.join(", ");
        match sink.except.as_slice() {
            [] => streams,
            except => format!("{streams} except {}", except.join(", ")),
        }
    }

    /// The conditions on its items, as configured.
    pub fn conditions(&self) -> Option<String> {
        let sink = self.lane.as_ref()?.sink();
        sink.r#where.as_ref().map(|one| one.text().to_owned())
    }

    /// The fields that it receives, as configured.
    pub fn fields(&self) -> Option<String> {
        let sink = self.lane.as_ref()?.sink();
        sink.fields.as_ref().map(|one| one.text().to_owned())
    }

    /// The streams that it can write in the data pool, as text; empty if it is not configured.
    pub fn writes_in_words(&self) -> String {
        let writes = self.lane.as_ref().map(|lane| lane.sink().writes());
        writes.map_or_else(String::new, |writes| writes.to_string())
    }

    /// Why newer settings, or a newer file of its plugin, are not in use.
    pub fn refused(&self) -> Option<String> {
        self.lane.as_ref()?.refused()
    }
}

/// The reason for a sink that an operator paused.
fn why_held(hold: &Hold) -> String {
    let since = hold.at.map(|at| format!(" at {}", rfc3339(at)));
    format!(
        "{} paused it{}; accepted requests wait for it",
        hold.by,
        since.unwrap_or_default()
    )
}

fn files(data_dir: &Path) -> Vec<(&'static str, u64)> {
    let size = |name: &'static str| {
        let metadata = data_dir.join(name).metadata().ok()?;
        Some((name, metadata.len()))
    };
    FILES.into_iter().filter_map(size).collect()
}
