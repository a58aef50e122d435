//! What a sink gave up: sending it again, or discarding it.
//!
//! **Invariant**: an answer comes after the change is in the pool and in the audit log, and tells how much was
//! changed. What fails while a call works is not touched by it.

use std::sync::Arc;

use serde_json::json;

use super::{By, OperateError, Operator, in_background};
use catalog::{AuditChange, ResourceKind};
use delivery::{Delivery, LaneStatus};
use pool::{Found, PoolError, Selection};

type Change = fn(&Delivery, &LaneStatus, &Selection, i64) -> Result<u64, PoolError>;

/// What became of dead letters that were to be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LettersSent {
    /// So many wait for the sink again.
    pub sent: u64,
    /// So many have nothing to send: their payload could not be read.
    pub skipped: u64,
    /// So many are left as they are: something accepted later has changed or removed the item.
    pub left: u64,
}

impl Operator {
    /// Sends dead letters of a sink again; with `overwrite` also those of items that something accepted later changed or
    /// removed.
    ///
    /// # Errors
    /// See [`OperateError`].
    pub async fn send_letters_again(
        &self,
        sink: &str,
        selection: Selection,
        overwrite: bool,
        by: By,
    ) -> Result<LettersSent, OperateError> {
        let lane = self.lane(sink)?;
        let found = self.find_letters(&lane, &selection).await?;
        let send: Change = match overwrite {
            true => |delivery, lane, which, newest| delivery.send_again(lane, which, newest, true),
            false => {
                |delivery, lane, which, newest| delivery.send_again(lane, which, newest, false)
            }
        };
        let send = ("send_again", send);
        let sent = self.change_letters(lane, selection.clone(), found.newest, send, by);
        let sent = sent.await?;
        let rest = self
            .pool
            .find_letters_to(sink, &selection, found.newest)
            .await?;
        Ok(LettersSent {
            sent,
            skipped: found.unreadable,
            left: rest.letters.saturating_sub(rest.unreadable),
        })
    }

    /// Discards dead letters of a sink; how many.
    ///
    /// # Errors
    /// See [`OperateError`].
    pub async fn discard_letters(
        &self,
        sink: &str,
        selection: Selection,
        by: By,
    ) -> Result<u64, OperateError> {
        let lane = self.lane(sink)?;
        let found = self.find_letters(&lane, &selection).await?;
        let discard = ("discard", Delivery::discard as Change);
        let discarded = self.change_letters(lane, selection, found.newest, discard, by);
        Ok(discarded.await?)
    }

    /// What a selection comes to. What is named must be there.
    async fn find_letters(
        &self,
        lane: &LaneStatus,
        selection: &Selection,
    ) -> Result<Found, OperateError> {
        let found = self.pool.find_letters(lane.name(), selection).await?;
        match selection {
            Selection::Ids(ids) if found.letters < ids.len().max(1) as u64 => {
                Err(OperateError::NoLetter)
            }
            Selection::Request(_) if found.letters == 0 => Err(OperateError::NoLetterOfRequest),
            _ => Ok(found),
        }
    }

    /// Changes chunk after chunk until there is no more; lanes and other calls come in between. What was done stands in
    /// the audit log under the change's name, also if it did not come to its end.
    async fn change_letters(
        &self,
        lane: Arc<LaneStatus>,
        selection: Selection,
        newest: i64,
        (action, change): (&'static str, Change),
        by: By,
    ) -> Result<u64, PoolError> {
        let selection = Arc::new(selection);
        let mut changed = 0;
        let ended = loop {
            let delivery = Arc::clone(&self.delivery);
            let (lane, selection) = (Arc::clone(&lane), Arc::clone(&selection));
            match in_background(move || change(&delivery, &lane, &selection, newest)).await {
                Ok(0) => break Ok(()),
                Ok(chunk) => changed += chunk,
                Err(error) => break Err(error),
            }
        };
        let which = match &*selection {
            Selection::All => json!("all"),
            Selection::Ids(ids) => json!({ "ids": ids }),
            Selection::Request(id) => json!({ "request_id": id }),
        };
        let done = json!({ "dead_letters": changed, "which": which });
        let change = AuditChange::done(action, ResourceKind::Sink, &**lane.name(), done);
        self.record(by, change).await;
        ended.map(|()| changed)
    }
}
