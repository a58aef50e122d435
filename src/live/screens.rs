//! Records of screens, by their read keys: when each was last seen, its address, and what it shows.
//!
//! Connections update a record when they begin and end, feeds when a client requests one. The daemon stores the
//! records, and restores them after a start.
//!
//! Nodes of a cluster share the stored records: each takes the newer ones of the others.
//!
//! **Invariant**: no function here waits for the disk, and the times of a record only increase.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use base::clock::{Lived, Unix};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Description that a page sends when it connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// Its name for itself.
    pub name: String,
    /// Its page or template.
    pub page: Option<String>,
    /// Its size in pixels, such as `1920x1080`.
    pub size: Option<String>,
    pub version: Option<String>,
}

/// Client of a screen or a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// Its address.
    pub client: String,
    /// Its user agent.
    pub agent: Option<String>,
}

/// Time of an event by both clocks; 1970: it never happened. The wall clock is for people, and uptime for ages, because
/// nobody can set uptime.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct At {
    unix: Unix,
    lived: Lived,
}

impl At {
    fn now() -> Self {
        Self {
            unix: Unix::now(),
            lived: Lived::now(),
        }
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.unix.ms(), self.lived.ms()).serialize(to)
    }
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (unix, lived) = Deserialize::deserialize(from)?;
        Ok(Self {
            unix: Unix::from_ms(unix),
            lived: Lived::from_ms(lived),
        })
    }
}

/// Record of a read key that screens use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScreenRecord {
    /// The page's last name for itself; `None`: it sent none.
    pub name: Option<String>,
    /// The page or feed that was shown last.
    pub shows: Option<String>,
    pub size: Option<String>,
    pub version: Option<String>,
    pub client: Option<String>,
    pub agent: Option<String>,
    /// Time between two requests for a feed; `None`: there were not two requests.
    pub interval: Option<Duration>,
    pub is_feed: bool,
    /// Of a cluster: the node that it is connected to, or that it polls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    seen: At,
    /// Reason of the last rejection.
    pub refused: Option<String>,
    refused_when: At,
    /// When an operator had it reload.
    reloaded: At,
}

impl ScreenRecord {
    /// When it was last seen, by the wall clock.
    pub fn seen_at(&self) -> Option<Unix> {
        Some(self.seen.unix).filter(|at| *at > Unix::MIN)
    }

    /// Uptime since it was last seen.
    pub fn unseen_for(&self, now: Lived) -> Option<Duration> {
        self.seen_at().map(|_| now - self.seen.lived)
    }

    /// When it was rejected, if it was not seen since.
    pub fn refused_at(&self) -> Option<Unix> {
        (self.refused_when.lived > self.seen.lived).then_some(self.refused_when.unix)
    }

    /// Whether the record is kept although the key is not marked `expect`.
    pub fn is_screen(&self) -> bool {
        self.name.is_some() || self.is_feed
    }

    fn changed(&self) -> Lived {
        self.seen.lived.max(self.refused_when.lived)
    }

    fn see(&mut self, asker: &Asker) {
        self.client = Some(asker.client.clone());
        self.agent.clone_from(&asker.agent);
        self.see_again();
    }

    fn see_again(&mut self) {
        self.seen = At::now();
    }
}

#[derive(Debug, Default)]
struct Kept {
    record: ScreenRecord,
    is_written: bool,
    /// A screen connected or disconnected; other changes are stored once per minute. Otherwise a crash soon after could
    /// forget where a screen was.
    is_urgent: bool,
}

/// The records of all screens.
#[derive(Debug, Default)]
pub struct Screens {
    records: Mutex<BTreeMap<Box<str>, Kept>>,
    /// Of a cluster: this node.
    node: OnceLock<String>,
}

impl Screens {
    /// Names this node of a cluster: records say from then on where a screen is connected.
    pub fn set_node(&self, name: &str) {
        self.node.get_or_init(|| name.to_owned());
    }

    /// Takes what other nodes have stored since. Returns the screens that an operator has had reload. Of two records
    /// the one that changed later stays, by uptime, because nobody can set it.
    pub fn merge(&self, records: Vec<(String, ScreenRecord)>) -> Vec<String> {
        let mut all = self.all();
        let mut reloaded = Vec::new();
        for (key, mut record) in records {
            let kept = all.entry(key.as_str().into()).or_default();
            let before = kept.record.reloaded;
            match record.reloaded.lived > before.lived {
                true => reloaded.push(key),
                false => record.reloaded = before,
            }
            kept.record.reloaded = record.reloaded;
            if record.changed() > kept.record.changed() {
                *kept = Kept {
                    record,
                    is_written: true,
                    is_urgent: false,
                };
            }
        }
        reloaded
    }

    /// Records that an operator has a screen reload.
    pub fn reload(&self, key: &str) {
        self.note(key, true, |record| record.reloaded = At::now());
    }

    /// Restores the stored records. A record that a connection has made meanwhile stays, because it is newer.
    pub fn restore(&self, records: Vec<(String, ScreenRecord)>) {
        let mut all = self.all();
        for (key, record) in records {
            let kept = Kept {
                record,
                is_written: true,
                is_urgent: false,
            };
            all.entry(key.into()).or_insert(kept);
        }
    }

    /// The record of a read key.
    pub fn of(&self, key: &str) -> Option<ScreenRecord> {
        self.all().get(key).map(|kept| kept.record.clone())
    }

    pub(crate) fn connected(&self, key: &str, asker: &Asker, screen: Option<&Screen>) {
        self.note(key, true, |record| {
            record.see(asker);
            record.node = self.node.get().cloned();
            if let Some(screen) = screen {
                record.name = Some(screen.name.clone());
                record.shows.clone_from(&screen.page);
                record.size.clone_from(&screen.size);
                record.version.clone_from(&screen.version);
                record.is_feed = false;
            }
        });
    }

    pub(crate) fn left(&self, key: &str) {
        self.note(key, true, |record| {
            record.see_again();
            record.node = None;
        });
    }

    /// Updates the records of connected screens, once per minute.
    pub fn still_here<'a>(&self, keys: impl Iterator<Item = &'a str>) {
        for key in keys {
            self.note(key, false, |record| {
                record.see_again();
                record.node = self.node.get().cloned();
            });
        }
    }

    /// Records a request for a feed with this read key. A gap of more than three intervals is left out, because the
    /// screen was away.
    pub fn polled(&self, key: &str, asker: &Asker, feed: &str) {
        let is_new = self.of(key).is_none_or(|record| !record.is_feed);
        self.note(key, is_new, |record| {
            let gap = record.unseen_for(Lived::now()).filter(|_| record.is_feed);
            record.interval = match (record.interval, gap) {
                (None, gap) => gap,
                // It was away since the last request.
                (Some(before), Some(gap)) if gap > before * 3 => Some(before),
                (Some(before), Some(gap)) => Some((before * 3 + gap) / 4),
                (before, None) => before,
            };
            record.see(asker);
            record.node = self.node.get().cloned();
            record.is_feed = true;
            record.shows = Some(feed.to_owned());
        });
    }

    /// Records that a request with this read key was rejected.
    pub fn refused(&self, key: &str, asker: &Asker, why: &str) {
        self.note(key, false, |record| {
            record.client = Some(asker.client.clone());
            record.refused = Some(why.to_owned());
            record.refused_when = At::now();
        });
    }

    /// Returns the records that are not stored yet; with `all` also those that can wait. They then count as stored.
    pub fn take_unwritten(
        &self,
        all: bool,
        is_kept: impl Fn(&str, &ScreenRecord) -> bool,
    ) -> Vec<(String, ScreenRecord)> {
        let mut taken = Vec::new();
        for (key, kept) in self.all().iter_mut() {
            if kept.is_written || !(all || kept.is_urgent) || !is_kept(key, &kept.record) {
                continue;
            }
            kept.is_written = true;
            kept.is_urgent = false;
            taken.push((key.to_string(), kept.record.clone()));
        }
        taken
    }

    /// Marks records as not stored: the write failed.
    pub fn not_written(&self, records: &[(String, ScreenRecord)]) {
        let mut all = self.all();
        for (key, _) in records {
            if let Some(kept) = all.get_mut(&**key) {
                kept.is_written = false;
            }
        }
    }

    fn note(&self, key: &str, is_urgent: bool, change: impl FnOnce(&mut ScreenRecord)) {
        let mut all = self.all();
        let kept = all.entry(key.into()).or_default();
        change(&mut kept.record);
        kept.is_written = false;
        kept.is_urgent |= is_urgent;
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Kept>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
