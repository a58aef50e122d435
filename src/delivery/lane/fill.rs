//! Fills the sink with the items of the data pool, one page at a time.
//!
//! The lane's steps call it; new entries wait until the last page was read.
//!
//! **Invariant**: for a sink that calls others, a page is stored as a retry before the call, in the transaction that
//! moves the position of the fill. No page is read while a retry waits.

use super::follow::Following;
use super::{Lane, Step, StepError};
use crate::beginning::RefillError;
use crate::verdict::Attempts;
use crate::{selection, verdict};
use base::clock::Lived;
use item::batch::{Batch, BatchOrigin, Fill};
use plugin::Taken;
use pool::{FillStep, Filling, PageLimit};
use settings::{Ordering, Start};

/// Reason of a page that was not tried yet.
const PAGE: &str = "a page of a filling";
/// Maximum rows of a page.
const ROWS_MAX: usize = 10_000;

impl Lane {
    /// Whether the sink does not have all pages yet.
    pub(super) fn is_filling(&self) -> bool {
        self.filling.as_ref().is_some_and(|one| !one.is_over)
    }

    /// The last fill of the sink: its id is a part of the idempotency keys. Otherwise a receiver that knows a key would
    /// take what is sent again for a repeat.
    pub(super) fn last_fill(&self) -> Option<Fill> {
        let fill = self.filling.as_ref().map(|one| one.fill);
        fill.filter(|fill| fill.number > 0)
    }

    /// Loads the state of the fill. If the selection of a sink changed since, the sink is refilled, if it must have
    /// all items: it lacks those that the old selection left out.
    pub(super) async fn open_filling(&mut self) -> Result<(), StepError> {
        let pool = &self.delivery.pool;
        self.filling = pool.filling_of(&self.name)?;
        let receives = self.sink.receives();
        if let Some(filling) = &mut self.filling
            && filling.selection != receives
        {
            if self.sink.start == Start::State || !filling.is_over {
                return self.fill_anew().await;
            }
            pool.set_fill_selection(&self.name, &receives)?;
            filling.selection = receives;
        }
        self.status.set_filling(self.is_filling());
        Ok(())
    }

    /// Answers requests for a refill, at the end of a batch, because a refill forgets what waits.
    pub(super) async fn answer_refill(&mut self) {
        for asked in self.status.take_refills() {
            let begun = match self.status.is_filling() {
                true => Err(RefillError::Filling),
                false => {
                    let begun = self.fill_anew().await;
                    begun.map_err(|error| RefillError::Failed(error.to_string()))
                }
            };
            // Who asked may have gone.
            let _ = asked.send(begun);
        }
    }

    /// Starts a refill from the data pool.
    async fn fill_anew(&mut self) -> Result<(), StepError> {
        if self.sink.is_latest() {
            self.following = Following::default();
            return self.begin_latest("an operator requested it");
        }
        let cursor = self.delivery.fill_anew(&self.sink).await?;
        self.stored_cursor = cursor;
        self.status.set_cursor(cursor);
        self.filling = self.delivery.pool.filling_of(&self.name)?;
        self.status.set_filling(self.is_filling());
        // What waited is gone.
        self.opened = false;
        tracing::info!(
            sink = &*self.name,
            through = cursor.get(),
            fill = self.last_fill().map_or(0, |fill| fill.number),
            "the sink is filled with the items of the data pool, then with later requests"
        );
        Ok(())
    }

    /// Delivers the next page, or retries the rest of one. Retries go first, so that one page at a time waits.
    pub(super) async fn fill_next(&mut self) -> Result<Step, StepError> {
        let next = match self.sink.ordering {
            Ordering::Strict => self.retries.first(),
            Ordering::Key => self.retries.next(),
        };
        if let Some((id, at)) = next {
            return match self.pauses > 0 || at <= Lived::now() {
                true => self.try_again(id).await,
                false => Ok(Step::Idle(Some(at))),
            };
        }
        match self.filling.clone() {
            Some(filling) => self.fill_page(filling).await,
            None => Ok(Step::Worked),
        }
    }

    /// A first fill needs no removals of what does not match, because the sink never had it.
    async fn fill_page(&mut self, filling: Filling) -> Result<Step, StepError> {
        let limit = PageLimit {
            rows: u32::try_from(self.sink.batch.items_max.min(ROWS_MAX)).unwrap_or(u32::MAX),
            bytes: self.sink.batch.bytes_max,
        };
        let wanted = |stream: &str| self.sink.matches(stream);
        let page = self
            .delivery
            .pool
            .fill_page(&filling, wanted, limit)
            .await?;
        if self.status.is_held() {
            return Ok(Step::Worked);
        }
        let is_over = page.after.is_none();
        // What a sink was never handed needs no removal.
        let begins = self.sink.start == Start::State
            && self.delivery.pool.begins_with(&self.name, &filling)?;
        let select = match begins {
            true => selection::matching,
            false => selection::selected,
        };
        let slices = select(&self.sink, page.slices, &self.delivery.problems);
        let batch = Batch::of(BatchOrigin::Fill, slices, 1);
        let mut settlement = self.settlement();
        settlement.fill = Some(FillStep {
            after: page.after.unwrap_or(filling.after),
            read: u64::from(batch.len()),
            page: Vec::new(),
            is_over,
        });
        if batch.is_empty() {
            self.settle(settlement).await?;
            return Ok(Step::Worked);
        }
        if !self.reaches_others()
            && let Ok(taken) = self.write(batch.clone()).await?
        {
            let Taken { staged, rejected } = taken;
            settlement.staged = staged;
            self.note_taken(&batch, &rejected);
            verdict::dead_letter(&batch, Attempts::FIRST, rejected, &mut settlement);
            self.settle(settlement).await?;
            self.succeeded(&batch);
            return Ok(Step::Worked);
        }
        if let Some(step) = &mut settlement.fill {
            step.page = batch.slices().to_vec();
        }
        let page = verdict::retry(&batch, Attempts::NONE, Lived::now(), PAGE);
        settlement.retries.push(page);
        self.settle(settlement).await?;
        Ok(Step::Worked)
    }

    /// Records a stored step of the fill.
    pub(super) fn filled(&mut self, step: &FillStep) {
        let Some(filling) = &mut self.filling else {
            return;
        };
        filling.after.clone_from(&step.after);
        filling.read += step.read;
        filling.is_over = step.is_over;
        if step.is_over {
            self.status.set_filling(false);
            tracing::info!(
                sink = &*self.name,
                items = filling.read,
                "the sink is filled"
            );
        }
    }
}
