//! Dead letters of a sink: resending and discarding them.
//!
//! **Invariant**: a response comes after the change is in the pool and in the audit log, and has the number of changes.
//! Dead letters that are added during a call are not affected.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::asks::Task;
use super::resend::{CATCH_UP_MAX, CATCH_UP_STEP};
use super::{By, OperateError, Operator, in_background};
use catalog::{AuditChange, ResourceKind};
use delivery::LaneStatus;
use ingest::AgainError;
use pool::{DeadLetter, Found, Selection};

/// Dead letters per read. A selection may name any number of them, so they are not read at once.
const SUBMITTED: u32 = 100;

/// Result of a change of dead letters.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// They wait for their sink again.
    SendAgain {
        overwrite: bool,
    },
    /// They became new requests. A retry of a sink that writes the data pool would change nothing, because the items
    /// there are newer.
    Submit,
    Discard,
}

impl Change {
    /// The name in the audit log.
    fn action(self) -> &'static str {
        match self {
            Self::SendAgain { .. } | Self::Submit => "resend",
            Self::Discard => "discard",
        }
    }
}

/// Result of resending dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LettersSent {
    /// The number that waits for the sink again.
    pub sent: u64,
    /// The number without a readable payload.
    pub skipped: u64,
    /// The number that was skipped because a later request has changed or removed the item.
    pub left: u64,
}

impl Operator {
    /// Resends dead letters of a sink; with `overwrite` also those whose items a later request has changed or removed.
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
        if self.is_elsewhere(sink) {
            let task = Task::SendLetters(selection, overwrite);
            let sent = self.ask(sink, task, &by).await;
            return sent.map(|(sent, skipped, left)| LettersSent {
                sent,
                skipped,
                left,
            });
        }
        let lane = self.lane(sink)?;
        let found = self.find_letters(&lane, &selection).await?;
        let how = match overwrite {
            // What the pool has is overwritten by what comes last.
            true if lane.reach().1 == Some(true) => Change::Submit,
            overwrite => Change::SendAgain { overwrite },
        };
        let sent = self.change_letters(lane, selection.clone(), found.newest, how, by);
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

    /// Discards dead letters of a sink; returns their number.
    ///
    /// # Errors
    /// See [`OperateError`].
    pub async fn discard_letters(
        &self,
        sink: &str,
        selection: Selection,
        by: By,
    ) -> Result<u64, OperateError> {
        if self.is_elsewhere(sink) {
            let task = Task::DiscardLetters(selection);
            return self.ask(sink, task, &by).await;
        }
        let lane = self.lane(sink)?;
        let found = self.find_letters(&lane, &selection).await?;
        let discarded = self.change_letters(lane, selection, found.newest, Change::Discard, by);
        discarded.await
    }

    /// Finds the dead letters of a selection. Named ids must exist.
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

    /// Changes one chunk after another until none is left; lanes and other calls run in between. The changes are in
    /// the audit log under the name of the act, even if it did not finish, because the chunks before the error are
    /// changed.
    async fn change_letters(
        &self,
        lane: Arc<LaneStatus>,
        selection: Selection,
        newest: i64,
        change: Change,
        by: By,
    ) -> Result<u64, OperateError> {
        let selection = Arc::new(selection);
        let mut changed = 0;
        let mut last = None;
        let ended = loop {
            let chunk = match change {
                Change::SendAgain { overwrite } => {
                    self.send_chunk(&lane, &selection, newest, overwrite).await
                }
                Change::Submit => {
                    self.submit_chunk(&lane, &selection, newest, &mut last, &by)
                        .await
                }
                Change::Discard => {
                    let delivery = Arc::clone(&self.delivery);
                    let (lane, selection) = (Arc::clone(&lane), Arc::clone(&selection));
                    let discard = move || delivery.discard(&lane, &selection, newest);
                    in_background(discard).await.map_err(OperateError::from)
                }
            };
            match chunk {
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
        let done = AuditChange::done(change.action(), ResourceKind::Sink, &**lane.name(), done);
        self.record(by, done).await;
        ended.map(|()| changed)
    }

    /// Makes some of them wait for their sink again. While the data pool is far behind, this waits briefly.
    async fn send_chunk(
        &self,
        lane: &Arc<LaneStatus>,
        selection: &Arc<Selection>,
        newest: i64,
        overwrite: bool,
    ) -> Result<u64, OperateError> {
        let until = Instant::now() + CATCH_UP_MAX;
        loop {
            let sent = self.delivery.send_again(lane, selection, newest, overwrite);
            match sent.await? {
                Some(sent) => return Ok(sent),
                None if Instant::now() >= until => return Err(AgainError::Behind.into()),
                None => tokio::time::sleep(CATCH_UP_STEP).await,
            }
        }
    }

    /// Makes requests of some of them, after `last`; a dead letter of a deleted stream stays. Those that were submitted
    /// are deleted even if a later one failed.
    async fn submit_chunk(
        &self,
        lane: &LaneStatus,
        selection: &Selection,
        newest: i64,
        last: &mut Option<DeadLetter>,
        by: &By,
    ) -> Result<u64, OperateError> {
        loop {
            let letters = (self.pool).letters_in_order(
                lane.name(),
                selection,
                newest,
                last.as_ref(),
                SUBMITTED,
            );
            let letters = letters.await?;
            if letters.is_empty() {
                return Ok(0);
            }
            let mut submitted = Vec::with_capacity(letters.len());
            let mut ended: Result<(), OperateError> = Ok(());
            for letter in letters {
                match self
                    .ingest
                    .send_letter(lane.name(), &letter, by.client)
                    .await
                {
                    Ok(_) => submitted.push(letter.id),
                    Err(AgainError::NoStream(_)) => {}
                    Err(error) => {
                        ended = Err(error.into());
                        break;
                    }
                }
                *last = Some(letter);
            }
            let count = submitted.len() as u64;
            if count > 0 {
                tracing::info!(
                    sink = &**lane.name(),
                    count,
                    "dead letters sent as new requests"
                );
            }
            self.in_pool(move |pool| pool.forget_letters(&submitted))
                .await?;
            ended?;
            if count > 0 {
                return Ok(count);
            }
        }
    }
}
