//! Snapshots: all items of a stream, a page at a time.
//!
//! **Invariant**: whoever has every page, and then every change since the snapshot began, has the stream as it is.

use std::sync::Arc;

use super::{PAGE, Subscription};
use crate::frame::{Frame, FrameKind};
use base::order::ChangeSeq;
use pool::{PoolError, SnapshotPage};

/// Progress of a snapshot.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    /// Number of the last change when it began.
    pub(super) from: ChangeSeq,
    /// The last key that was sent.
    pub(super) after: Option<String>,
}

impl Subscription {
    /// Reads a page of the items of one stream.
    pub(super) async fn read_items(
        &self,
        at: usize,
        after: Option<&str>,
    ) -> Result<SnapshotPage, PoolError> {
        let _turn = self.live.turn_to_read().await;
        let following = &self.streams[at];
        let keys = following.view.as_ref().and_then(|view| view.keys());
        let pool = &self.live.pool;
        pool.snapshot(&following.stream, keys, after, PAGE).await
    }

    /// Adds the next page of a snapshot. Until the last page, its position is 0, because a client that resumes in
    /// between must begin again.
    pub(super) async fn snapshot(&mut self, at: usize) -> Result<(), PoolError> {
        let Some(Snapshot { from, after }) = self.streams[at].snapshot.clone() else {
            return Ok(());
        };
        let mut page = self.read_items(at, after.as_deref()).await?;
        let last = page.changes.last().map(|change| change.key.to_string());
        // What has changed since follows as a change.
        page.changes.retain(|change| change.seq <= from);
        let following = &mut self.streams[at];
        let items = following.seen_of(page.changes);
        let stream = Arc::clone(&following.stream);
        following.snapshot = page.more.then_some(Snapshot { from, after: last });
        if !page.more {
            following.position = from;
        }
        let kind = FrameKind::Snapshot {
            complete: !page.more,
        };
        let id = match page.more {
            true => self.nowhere(),
            false => self.position(),
        };
        if !page.more || !items.is_empty() {
            let frame = Frame::items(kind, &stream, id, items.iter());
            self.outbox.push_back(frame);
        }
        Ok(())
    }

    /// Everything that the client has is invalid, and all items follow. Unsent messages are dropped, because they
    /// belong to what is invalid.
    pub(super) fn begin_anew(&mut self, reason: &str) {
        let head = self.live.pool.changes().head();
        for following in &mut self.streams {
            following.begin_anew(head);
        }
        self.flushing = None;
        self.pending = true;
        self.outbox.clear();
        let frame = self.reset(reason);
        self.outbox.push_back(frame);
    }
}
