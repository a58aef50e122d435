//! Changes of streams that a client sees through a filter, and the items that it held before it resumed.
//!
//! **Invariant**: an item that was sent and no longer matches is sent as a removal, once.

use std::sync::Arc;

use super::ages::Age;
use super::snapshot::Snapshot;
use super::{Following, NOT_STORED, Recalled, Subscription};
use crate::frame::{Frame, FrameKind};
use crate::view::{Inside, View, as_sent};
use base::order::ChangeSeq;
use pool::PoolError;
use pool::changes::Change;

impl Following {
    pub(super) fn new(stream: Arc<str>, view: Option<Arc<View>>, age: Option<Age>) -> Self {
        let can_leave = view.as_ref().filter(|view| !view.is_of_keys());
        let inside = can_leave.map(|view| Inside::new(view.filter.hides()));
        Self {
            stream,
            position: ChangeSeq::MIN,
            snapshot: None,
            inside,
            recalled: None,
            view,
            age,
        }
    }

    /// From a snapshot that begins at the pool's position.
    pub(super) fn afresh(self, head: ChangeSeq) -> Self {
        let snapshot = Snapshot {
            from: head,
            after: None,
        };
        Self {
            snapshot: Some(snapshot),
            ..self
        }
    }

    /// The same of a client that has a position, and whose items are invalid.
    pub(super) fn begin_anew(&mut self, head: ChangeSeq) {
        let (view, age) = (self.view.take(), self.age.take());
        *self = Self::new(Arc::clone(&self.stream), view, age).afresh(head);
    }

    /// From the position of the client.
    pub(super) fn resumed(self, since: ChangeSeq) -> Self {
        Self {
            position: since,
            recalled: self.inside.as_ref().map(|_| Recalled::Items(None)),
            ..self
        }
    }

    /// Returns what the client receives for a change.
    fn seen(&mut self, change: &Arc<Change>) -> Option<Arc<Change>> {
        match &self.view {
            None => Some(Arc::clone(change)),
            Some(view) => as_sent(view, self.inside.as_mut(), change),
        }
    }

    /// Returns what the client receives for the items of a page.
    pub(super) fn seen_of(&mut self, items: Vec<Change>) -> Vec<Change> {
        if self.view.is_none() {
            return items;
        }
        let items = items.into_iter().map(Arc::new);
        let seen = items.filter_map(|item| self.seen(&item));
        seen.map(|one| Change::clone(&one)).collect()
    }
}

impl Following {
    /// The client may hold those of these that `may` be.
    fn recalled(&mut self, changes: &[Change], may: impl Fn(&View, &Change) -> bool) {
        if let (Some(view), Some(inside)) = (&self.view, &mut self.inside) {
            let held = changes.iter().filter(|change| may(view, change));
            held.for_each(|change| inside.add(&change.key));
        }
    }
}

impl Subscription {
    /// Looks up another page of the items that a resumed client may hold: those that match and have not changed since,
    /// and all that have changed since. Without it, a client that resumes would keep items that ceased to match while
    /// it was away.
    pub(super) async fn recall(&mut self, at: usize) -> Result<(), PoolError> {
        let since = self.streams[at].position;
        match self.streams[at].recalled.clone() {
            None => {}
            Some(Recalled::Items(after)) => {
                let page = self.read_items(at, after.as_deref()).await?;
                let last = page.changes.last().map(|change| change.key.to_string());
                let matches = |view: &View, item: &Change| view.shown(item).is_some();
                self.streams[at].recalled(&page.changes, matches);
                self.streams[at].recalled = Some(match page.more {
                    true => Recalled::Items(last),
                    false => Recalled::Changes(since),
                });
            }
            Some(Recalled::Changes(from)) => {
                let page = self.read_from(at, from).await?;
                if !page.is_whole {
                    self.begin_anew(NOT_STORED);
                    return Ok(());
                }
                self.streams[at].recalled(&page.changes, |_, _| true);
                self.streams[at].recalled = page.more.then_some(Recalled::Changes(page.through));
            }
        }
        Ok(())
    }

    /// Adds the changes of a stream with a filter.
    pub(super) fn push_seen(&mut self, at: usize, changes: &[Arc<Change>]) {
        let Some(last) = changes.last() else { return };
        let stream = Arc::clone(&self.streams[at].stream);
        let sent: Vec<Arc<Change>> = changes
            .iter()
            .filter_map(|change| self.streams[at].seen(change))
            .collect();
        for run in sent.chunk_by(|a, b| a.removed == b.removed) {
            let Some(newest) = run.last() else { continue };
            self.streams[at].position = newest.seq;
            let id = self.position();
            let items = run.iter().map(|change| &**change);
            self.outbox.push_back(match newest.removed {
                true => Frame::remove(&stream, id, items),
                false => Frame::items(FrameKind::Update, &stream, id, items),
            });
        }
        self.streams[at].position = last.seq;
        if self.live.tracer.is_on() {
            self.traced.push((stream, last.seq));
        }
    }
}
