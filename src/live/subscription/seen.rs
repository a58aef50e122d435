//! Changes of streams that a client sees through a filter, and the items that it held before it resumed.
//!
//! **Invariant**: an item that was sent and no longer matches is sent as a removal, once.

use std::sync::Arc;

use super::ages::Age;
use super::{Following, Subscription};
use crate::frame::{Frame, FrameKind};
use crate::view::{Inside, View, as_sent};
use base::order::ChangeSeq;
use pool::changes::Change;
use pool::{Page, PoolError};

impl Following {
    pub(super) fn new(stream: Arc<str>, view: Option<Arc<View>>, age: Option<Age>) -> Self {
        let can_leave = view.as_ref().filter(|view| !view.is_of_keys());
        let inside = can_leave.map(|view| Inside::new(view.filter.hides()));
        Self {
            stream,
            position: ChangeSeq::MIN,
            snapshot_from: None,
            inside,
            recalled: None,
            view,
            age,
        }
    }

    /// From a snapshot that begins at the pool's position.
    pub(super) fn afresh(self, head: ChangeSeq) -> Self {
        Self {
            snapshot_from: Some(head),
            ..self
        }
    }

    /// From the position of the client.
    pub(super) fn resumed(self, since: ChangeSeq) -> Self {
        Self {
            position: since,
            recalled: self.inside.as_ref().map(|_| ChangeSeq::MIN),
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

    /// Returns what the client receives for the changes of a page.
    pub(super) fn seen_of(&mut self, page: Page) -> Page {
        if self.view.is_none() {
            return page;
        }
        let changes = page.changes.into_iter().map(Arc::new);
        let seen = changes.filter_map(|change| self.seen(&change));
        Page {
            changes: seen.map(|one| Change::clone(&one)).collect(),
            ..page
        }
    }
}

impl Subscription {
    /// Looks up another page of the items that a resumed client may hold: those that match and have not changed since,
    /// and all that have changed since.
    pub(super) async fn recall(&mut self, at: usize) -> Result<(), PoolError> {
        let following = &self.streams[at];
        let (from, since) = (following.recalled.unwrap_or_default(), following.position);
        let page = self.read_from(following, from, since).await?;
        let following = &mut self.streams[at];
        let (Some(view), Some(inside)) = (&following.view, &mut following.inside) else {
            following.recalled = None;
            return Ok(());
        };
        for change in &page.changes {
            if change.seq > since || (!change.removed && view.shown(change).is_some()) {
                inside.add(&change.key);
            }
        }
        following.recalled = page.more.then_some(page.through);
        Ok(())
    }

    /// Adds the changes of a stream with a filter.
    pub(super) fn push_seen(&mut self, at: usize, changes: &[Arc<Change>]) {
        let Some(last) = changes.last() else { return };
        let stream = Arc::clone(&self.streams[at].stream);
        let told: Vec<Arc<Change>> = changes
            .iter()
            .filter_map(|change| self.streams[at].seen(change))
            .collect();
        for run in told.chunk_by(|a, b| a.removed == b.removed) {
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
            self.told.push((stream, last.seq));
        }
    }
}
