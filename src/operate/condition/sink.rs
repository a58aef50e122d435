//! The condition of one sink.
//!
//! **Invariant**: it was measured before; nothing here reads a file.

use std::sync::Arc;
use std::time::Duration;

use crate::error::CRASHED;
use base::clock::{Unix, rfc3339};
use base::order::Seq;
use delivery::{Hold, LaneState, LaneStatus};
use pool::{FillLeft, Filling, Undelivered};

#[derive(Debug)]
pub struct SinkCondition {
    pub name: Arc<str>,
    /// `None`: it is no longer configured, and its data was not deleted.
    pub lane: Option<Arc<LaneStatus>>,
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
    /// How long that request has waited, by the uptime clock. The wall clock may have been set meanwhile.
    pub waited: Option<Duration>,
    /// `None`: the pool cannot be read.
    pub undelivered: Option<Undelivered>,
    /// In a cluster, the node that runs it; `None`: none does.
    pub node: Option<String>,
}

impl SinkCondition {
    /// How long the oldest undelivered request has waited; 0 if there is none, `None` if it is unknown.
    pub(super) fn oldest_seconds(&self) -> Option<u64> {
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
