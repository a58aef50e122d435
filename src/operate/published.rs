//! Entries of the stream of problems: one when a problem is open, and one when it is resolved.
//!
//! `publishing.rs` supplies the current problems every few seconds, and stores the entries that are due. In a cluster,
//! each node has entries of its own; of a node that is gone, the node that runs the sinks publishes that its problems
//! are resolved.
//!
//! **Invariant**: a problem has at most one entry in [`APART`], and all problems at most [`MAX`] in a minute. Other
//! entries are delayed; until then the item [`MANY`] has their number. No entry of a node has the key of another
//! node's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::problem::Problem;
use base::clock::{Lived, Unix, rfc3339};
use catalog::PublishedProblem;

/// A problem is published after it was open, or resolved, for this time. One that lasts for seconds causes no entry.
const STANDS: Duration = Duration::from_secs(10);
/// Minimum time between two entries of one problem.
const APART: Duration = Duration::from_secs(30);
const MINUTE: Duration = Duration::from_mins(1);
/// Maximum entries in a minute, two of which can be of [`MANY`].
const MAX: usize = 60;
/// Kind of the item for delayed entries.
const MANY: &str = "many";
/// What the message of a resolved problem begins with.
const RESOLVED: &str = "resolved: ";

/// A problem as an item of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemItem {
    pub kind: String,
    /// Name of the sink, the stream or the other subject, or `daemon`.
    pub subject: String,
    pub message: String,
    /// `error` or `warning`.
    pub severity: String,
    /// `open` or `resolved`.
    pub state: String,
    /// When it was first seen, RFC 3339.
    pub since: String,
    /// When it was resolved, RFC 3339.
    pub resolved_at: Option<String>,
    /// Path of the page that shows it, on the admin listener.
    pub page: String,
    /// In a cluster, the node that has it and says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// What the keys of a node of a cluster end with; empty for a daemon alone. No kind and no subject has an `@`.
pub(super) fn ending(node: Option<&str>) -> String {
    node.map(|node| format!("@{node}")).unwrap_or_default()
}

/// The node of a cluster that an entry with this key is of; `None`: of a daemon alone.
pub(super) fn node_of(key: &str) -> Option<&str> {
    key.rsplit_once('@').map(|(_, node)| node)
}

/// Problems of this node as items of the stream, by their keys. Problems with the same key are one item.
pub(super) fn items(
    problems: &[Problem],
    node: Option<&str>,
    since: Unix,
) -> BTreeMap<String, ProblemItem> {
    let mut items: BTreeMap<String, ProblemItem> = BTreeMap::new();
    let ending = ending(node);
    for problem in problems {
        let subject = problem.subject.named().1.unwrap_or("daemon");
        let key = format!("{}:{subject}{ending}", problem.kind.as_str());
        if let Some(item) = items.get_mut(&key) {
            item.message = format!("{}; {}", item.message, problem.sentence);
            continue;
        }
        let item = ProblemItem {
            kind: problem.kind.as_str().to_owned(),
            subject: subject.to_owned(),
            message: problem.sentence.clone(),
            severity: problem.kind.severity().to_owned(),
            state: "open".to_owned(),
            since: rfc3339(since),
            resolved_at: None,
            page: problem.page(),
            node: node.map(str::to_owned),
        };
        items.insert(key, item);
    }
    items
}

/// State of a problem.
#[derive(Debug)]
struct Known {
    item: ProblemItem,
    /// Whether it existed at the last check, and since when that is so. Ages are measured by the uptime clock, and the
    /// wall clock is shown.
    stands: bool,
    changed: (Lived, Unix),
    /// Whether it was published as open, and not as resolved.
    is_open: bool,
    published_at: Option<Lived>,
}

impl Known {
    fn is_due(&self, now: Lived, stands: Duration) -> bool {
        self.stands != self.is_open
            && now - self.changed.0 >= stands
            && self.published_at.is_none_or(|at| now - at >= APART)
    }

    /// An entry to publish.
    fn row(&self, key: &str, now: Lived) -> PublishedProblem {
        let mut item = self.item.clone();
        if !self.stands {
            item.state = "resolved".to_owned();
            item.message = format!("{RESOLVED}{}", item.message);
            item.resolved_at = Some(rfc3339(self.changed.1));
        }
        PublishedProblem {
            key: key.to_owned(),
            fields: serde_json::to_string(&item).unwrap_or_default(),
            is_open: self.stands,
            published_at: now,
            publishing: None,
        }
    }
}

/// States of all problems.
#[derive(Debug)]
pub(super) struct Published {
    /// The node of a cluster whose problems they are; `None`: those of a daemon alone.
    node: Option<String>,
    /// Key of the item for delayed entries.
    many: String,
    /// By key. Those of other nodes are resolved, because their node is gone.
    known: BTreeMap<String, Known>,
    /// Times of the entries in the last minute.
    entries: VecDeque<Lived>,
}

impl Published {
    /// Of this node, or of a daemon alone.
    pub(super) fn new(node: Option<&str>) -> Self {
        Self {
            node: node.map(str::to_owned),
            many: format!("{MANY}:{}", ending(node)),
            known: BTreeMap::new(),
            entries: VecDeque::new(),
        }
    }

    /// Whether an entry with this key is of this node. A daemon alone goes on with whatever is in its files.
    pub(super) fn is_own(&self, key: &str) -> bool {
        self.node.is_none() || self.node.as_deref() == node_of(key)
    }

    /// Restores the entries of the previous run of this node.
    pub(super) fn restore(&mut self, rows: &[PublishedProblem], now: Lived) {
        for row in rows {
            let Ok(item) = serde_json::from_str::<ProblemItem>(&row.fields) else {
                continue;
            };
            if !self.is_own(&row.key) {
                continue;
            }
            let known = Known {
                item,
                stands: row.is_open,
                changed: (now, Unix::now()),
                is_open: row.is_open,
                published_at: Some(row.published_at),
            };
            self.known.insert(row.key.clone(), known);
        }
    }

    /// Compares with what all nodes of a cluster have published. If this one runs the sinks, `live` are the nodes that
    /// live: open entries of others are resolved. An open entry of this node that another one has resolved meanwhile
    /// becomes due again.
    pub(super) fn share(
        &mut self,
        published: &[PublishedProblem],
        live: Option<&BTreeSet<String>>,
        now: (Lived, Unix),
    ) {
        let node = self.node.clone();
        let is_own = |key: &str| node.as_deref() == node_of(key);
        let is_gone = |key: &str| {
            let is_live =
                |live: &BTreeSet<String>| node_of(key).is_some_and(|of| live.contains(of));
            !is_own(key) && live.is_some_and(|live| !is_live(live))
        };
        let rows: BTreeMap<&str, &PublishedProblem> =
            published.iter().map(|row| (&*row.key, row)).collect();
        for (key, known) in self.known.iter_mut().filter(|(key, _)| is_own(key)) {
            // What the other node has written down, it may still be about to publish: that is to come first.
            let is_resolved = rows
                .get(&**key)
                .is_none_or(|row| !row.is_open && now.0 - row.published_at >= APART);
            if known.stands && known.is_open && is_resolved {
                known.is_open = false;
            }
        }
        let known = &mut self.known;
        known.retain(|key, _| is_own(key) || (is_gone(key) && rows.contains_key(&**key)));
        for row in published.iter().filter(|row| is_gone(&row.key)) {
            let item = serde_json::from_str(&row.fields).map(|item| of_gone(item, row));
            if let Ok(item) = item
                && !known.contains_key(&row.key)
            {
                let gone = Known {
                    item,
                    stands: false,
                    changed: now,
                    is_open: true,
                    published_at: None,
                };
                known.insert(row.key.clone(), gone);
            }
        }
    }

    /// Sets since when open problems exist; a problem that was not seen before keeps its time.
    pub(super) fn dated(&self, items: &mut BTreeMap<String, ProblemItem>) {
        for (key, item) in items {
            if let Some(known) = self.known.get(key).filter(|known| known.stands) {
                item.since.clone_from(&known.item.since);
            }
        }
    }

    /// Updates the states with the current problems. A resolved problem that was published lately is kept, so that the
    /// next entry of it still waits for [`APART`].
    pub(super) fn compare(&mut self, found: BTreeMap<String, ProblemItem>, now: (Lived, Unix)) {
        for (key, known) in &mut self.known {
            if known.stands && *key != self.many && !found.contains_key(key) {
                known.stands = false;
                known.changed = now;
            }
        }
        for (key, item) in found {
            self.stands(&key, item, now);
        }
        self.known.retain(|_, known| {
            let is_new = known.published_at.is_some_and(|at| now.0 - at < APART);
            known.stands || known.is_open || is_new
        });
    }

    fn stands(&mut self, key: &str, item: ProblemItem, now: (Lived, Unix)) {
        let Some(known) = self.known.get_mut(key) else {
            let known = Known {
                item,
                stands: true,
                changed: now,
                is_open: false,
                published_at: None,
            };
            self.known.insert(key.to_owned(), known);
            return;
        };
        let since = match known.stands || known.is_open {
            true => known.item.since.clone(),
            false => item.since.clone(),
        };
        if !known.stands {
            known.stands = true;
            known.changed = now;
        }
        known.item = ProblemItem { since, ..item };
    }

    /// The entries that are due now, oldest first.
    pub(super) fn due(&mut self, now: (Lived, Unix)) -> Vec<PublishedProblem> {
        self.entries.retain(|at| now.0 - *at < MINUTE);
        let own = self.known.iter();
        let mut due: Vec<_> = own
            .filter(|(key, known)| {
                // A node that restarts is back sooner.
                let stands = if self.is_own(key) { STANDS } else { APART };
                **key != self.many && known.is_due(now.0, stands)
            })
            .collect();
        due.sort_by_key(|(_, known)| known.changed.0);
        let room = (MAX - 2).saturating_sub(self.entries.len()).min(due.len());
        let left = due.len() - room;
        due.truncate(room);
        let mut due: Vec<_> = (due.into_iter())
            .map(|(key, known)| known.row(key, now.0))
            .collect();
        self.leave(left, now);
        let many = self.known.get(&self.many);
        let many = many.filter(|known| known.is_due(now.0, Duration::ZERO));
        due.extend(many.map(|known| known.row(&self.many, now.0)));
        due
    }

    /// The number of delayed entries.
    fn leave(&mut self, left: usize, now: (Lived, Unix)) {
        if left > 0 {
            let item = ProblemItem {
                kind: MANY.to_owned(),
                subject: String::new(),
                message: format!(
                    "{left} more problems began or ended than this stream shows in a minute; the overview lists all current ones"
                ),
                severity: "error".to_owned(),
                state: "open".to_owned(),
                since: rfc3339(now.1),
                resolved_at: None,
                page: "/".to_owned(),
                node: self.node.clone(),
            };
            let many = self.many.clone();
            self.stands(&many, item, now);
        } else if let Some(known) = (self.known.get_mut(&self.many)).filter(|known| known.stands) {
            known.stands = false;
            known.changed = now;
        }
    }

    /// Records that the entry is stored.
    pub(super) fn note(&mut self, stored: &[PublishedProblem]) {
        for one in stored {
            self.entries.push_back(one.published_at);
            if let Some(known) = self.known.get_mut(&one.key) {
                known.is_open = one.is_open;
                known.published_at = Some(one.published_at);
            }
        }
    }
}

/// The item of a node that is gone: nobody says any more whether its problem lasts.
fn of_gone(mut item: ProblemItem, row: &PublishedProblem) -> ProblemItem {
    if !row.is_open {
        // It was resolved, by that node or for it, and may not have been published.
        let message = item.message.strip_prefix(RESOLVED);
        item.message = message.unwrap_or(&item.message).to_owned();
    } else if let Some(node) = node_of(&row.key) {
        item.message = format!("node {node} is gone, which said: {}", item.message);
    }
    item
}

#[cfg(test)]
mod tests;
