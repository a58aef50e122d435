//! Screens: the read keys that show something, and their states.
//!
//! API, pages, metrics and problems read it; the daemon stores changes every second.
//!
//! **Invariant**: a read key is listed if a screen or a feed ever used it, or if it has settings of a screen. Only an
//! expected screen that is away is a problem.

use std::sync::Arc;
use std::time::Duration;

use super::problem::{Found, ProblemKind, ProblemSubject};
use super::{By, OperateError, Operator, in_background};
use base::clock::{Lived, Unix, rfc3339};
use catalog::{AuditChange, CatalogError, ReadKey, ResourceKind};
use live::{Renderer, ScreenRecord};
use serde_json::json;

/// A feed with an unknown interval counts as present for this time.
const FIRST_POLL: Duration = Duration::from_mins(1);
/// As a multiple of its interval. A screen is not away after one poll that is late.
const INTERVALS: u32 = 3;
/// The minimum, for short intervals.
const INTERVALS_MIN: Duration = Duration::from_secs(10);
/// Another node of a cluster stores once a minute that a screen is still there, so one that is late is not taken for
/// away.
const ELSEWHERE: Duration = Duration::from_mins(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScreenState {
    Here,
    /// It polls a feed.
    Polling,
    /// It was seen, and is away.
    Away,
    /// It was rejected, and was not seen since.
    Refused,
    /// It was never seen.
    Never,
}

impl ScreenState {
    /// The name in the API and on pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Polling => "polling",
            Self::Away => "away",
            Self::Refused => "refused",
            Self::Never => "never",
        }
    }
}

/// A read key of a screen, and its state.
#[derive(Debug)]
pub struct ScreenStatus {
    pub key: Arc<ReadKey>,
    pub record: ScreenRecord,
    /// Its connections, newest last.
    pub connected: Vec<Arc<Renderer>>,
    pub state: ScreenState,
    /// Since when it is connected, away or rejected.
    pub since: Option<Unix>,
    /// Of a cluster: the other node that it is connected to, or that it polls.
    pub elsewhere: Option<String>,
}

impl ScreenStatus {
    /// `others` are the other live nodes of a cluster.
    fn of(
        key: Arc<ReadKey>,
        record: ScreenRecord,
        connected: Vec<Arc<Renderer>>,
        others: &[String],
    ) -> Self {
        let unseen = record.unseen_for(Lived::now());
        let elsewhere = record.node.clone().filter(|node| others.contains(node));
        let elsewhere = elsewhere.filter(|_| connected.is_empty());
        let polls = record
            .interval
            .map_or(FIRST_POLL, |one| (one * INTERVALS).max(INTERVALS_MIN));
        let polls = match elsewhere {
            Some(_) => polls + ELSEWHERE,
            None => polls,
        };
        let is_seen_there = elsewhere.is_some() && unseen.is_some_and(|unseen| unseen <= ELSEWHERE);
        let (state, since) = match connected.first() {
            Some(first) => (ScreenState::Here, Some(first.connected_at)),
            None if record.refused_at().is_some() => (ScreenState::Refused, record.refused_at()),
            None if record.is_feed && unseen.is_some_and(|unseen| unseen <= polls) => {
                (ScreenState::Polling, record.seen_at())
            }
            None if is_seen_there && !record.is_feed => (ScreenState::Here, record.seen_at()),
            None if unseen.is_some() => (ScreenState::Away, record.seen_at()),
            None => (ScreenState::Never, None),
        };
        Self {
            key,
            record,
            connected,
            state,
            since,
            elsewhere: elsewhere
                .filter(|_| matches!(state, ScreenState::Here | ScreenState::Polling)),
        }
    }

    pub fn is_there(&self) -> bool {
        matches!(self.state, ScreenState::Here | ScreenState::Polling)
    }

    /// Whether another node has a page of it reload.
    pub fn is_reloaded_elsewhere(&self) -> bool {
        self.elsewhere.is_some() && self.state == ScreenState::Here && self.record.name.is_some()
    }

    /// The sentence about an expected screen.
    fn problem(&self) -> String {
        let name = &self.key.name;
        let at = self.since.map(rfc3339).unwrap_or_default();
        match (self.state, &self.record.refused) {
            (ScreenState::Refused, Some(why)) => {
                format!("screen {name} is away: its last connection was rejected at {at}, {why}")
            }
            (ScreenState::Never, _) => format!("screen {name} has never connected"),
            _ => format!("screen {name} has been away since {at}"),
        }
    }
}

impl Operator {
    /// The screens, by the names of their read keys.
    pub fn screens(&self) -> Vec<ScreenStatus> {
        let renderers = self.live.renderers();
        let others = self.other_nodes();
        let keys = self.catalog.read_keys().into_iter();
        let screens = keys.filter_map(|key| {
            let record = self.live.screens.of(&key.name);
            let is_named = key.expect || key.page.is_some();
            let is_screen = record.as_ref().is_some_and(ScreenRecord::is_screen);
            if !(is_named || is_screen) {
                return None;
            }
            let own = renderers
                .iter()
                .filter(|one| *one.key == *key.name && one.is_of_key());
            let own = own.cloned().collect();
            let record = record.unwrap_or_default();
            Some(ScreenStatus::of(key, record, own, &others))
        });
        screens.collect()
    }

    /// The other live nodes of a cluster.
    fn other_nodes(&self) -> Vec<String> {
        let Some(cluster) = &self.cluster else {
            return Vec::new();
        };
        let nodes = cluster.read().nodes.into_iter();
        let others = nodes.filter(|node| node.is_live && !node.is_this);
        others.map(|node| node.name).collect()
    }

    /// Makes the screens of a read key reload their pages; returns their number. Of a screen that is connected to
    /// another node one is counted.
    ///
    /// # Errors
    /// The screen does not exist.
    pub async fn reload_screen(&self, name: &str, by: By) -> Result<usize, OperateError> {
        let screens = self.screens();
        let Some(screen) = screens.iter().find(|one| *one.key.name == *name) else {
            let kind = ResourceKind::ReadKey;
            return Err(OperateError::Catalog(CatalogError::NotFound(kind)));
        };
        let mut reached = self.live.reload(name);
        if self.cluster.is_some() {
            self.live.screens.reload(name);
            self.keep_screens(false).await;
            reached += usize::from(screen.is_reloaded_elsewhere());
        }
        let done = json!({ "notified": reached });
        let change = AuditChange::done("reload", ResourceKind::ReadKey, name, done);
        self.record(by, change).await;
        Ok(reached)
    }

    /// Restores the stored records of screens.
    pub async fn restore_screens(&self) {
        if self.cluster.is_some() {
            self.live.screens.set_node(&self.about.node);
        }
        self.live.screens.restore(self.stored_screens().await);
    }

    /// Takes the records that other nodes of a cluster have stored, and reloads the screens here that an operator has
    /// had reload there. `seen` is the change of the catalog up to which this was done before. An unchanged catalog is
    /// not read again, because this is called every second.
    pub async fn merge_screens(&self, seen: &mut u64) {
        let Some(cluster) = &self.cluster else {
            return;
        };
        let nodes = cluster.read().nodes;
        let catalog = nodes
            .iter()
            .find(|node| node.is_this)
            .map(|node| node.catalog);
        let Some(catalog) = catalog.filter(|catalog| *catalog != *seen) else {
            return;
        };
        *seen = catalog;
        for key in self.live.screens.merge(self.stored_screens().await) {
            self.live.reload(&key);
        }
    }

    async fn stored_screens(&self) -> Vec<(String, ScreenRecord)> {
        let catalog = Arc::clone(&self.catalog);
        match in_background(move || catalog.screens()).await {
            Ok(rows) => {
                let rows = rows
                    .into_iter()
                    .filter_map(|(key, seen)| Some((key, serde_json::from_str(&seen).ok()?)));
                rows.collect()
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the states of screens");
                Vec::new()
            }
        }
    }

    /// Stores which screens connected and disconnected; once per minute, with `all`, also when present screens were
    /// seen. Each would be a commit of the catalog otherwise.
    pub async fn keep_screens(&self, all: bool) {
        // Of two connections of a screen one may have left.
        if all || self.cluster.is_some() {
            let renderers = self.live.renderers();
            let own = renderers.iter().filter(|one| one.is_of_key());
            self.live.screens.still_here(own.map(|one| &*one.key));
        }
        // They are stored when it is back, and the log says that it is away.
        if self.database_is_away() {
            return;
        }
        let is_kept = |key: &str, record: &ScreenRecord| {
            let key = self.catalog.read_key(key);
            key.is_some_and(|key| record.is_screen() || key.expect || key.page.is_some())
        };
        let records = self.live.screens.take_unwritten(all, is_kept);
        if records.is_empty() {
            return;
        }
        let rows = records
            .iter()
            .filter_map(|(key, record)| Some((key.clone(), serde_json::to_string(record).ok()?)));
        let (catalog, rows) = (Arc::clone(&self.catalog), rows.collect::<Vec<_>>());
        if let Err(error) = in_background(move || catalog.keep_screens(&rows)).await {
            tracing::warn!(%error, "cannot store the states of screens, retrying");
            self.live.screens.not_written(&records);
        }
    }

    /// Expected screens that are away. The time counts from the start at the earliest, because no screen could connect
    /// before.
    pub(super) fn missing_screens(&self, problems: &mut Found) {
        let (now, started) = (Lived::now(), self.about.started.elapsed());
        for screen in self.screens() {
            let limit = Duration::from_secs(screen.key.away_after_seconds.into());
            let exists = screen.key.created_at.map_or(started, |at| Unix::now() - at);
            let unseen = screen.record.unseen_for(now).unwrap_or(exists).min(started);
            if screen.key.expect && !screen.is_there() && unseen >= limit {
                let subject = ProblemSubject::ReadKey(screen.key.name.to_string());
                let mut problems = problems.about(subject);
                problems.push(screen.problem(), ProblemKind::ScreenAway);
            }
        }
    }
}
