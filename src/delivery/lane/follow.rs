//! Follows the changes of the data pool: the newest value of each item, with a maximum rate of calls.
//!
//! The lane's steps call it, in place of retries and new entries. It has neither: after a failure it reads the items
//! again.
//!
//! **Invariant**: a key is stored as sent before the sink receives it. The place moves only past items that the sink
//! has accepted or rejected. So after any failure or crash the sink receives the newest values again, and a removal of
//! each item that is gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Lane, Step, StepError};
use crate::verdict;
use base::clock::Lived;
use base::order::ChangeSeq;
use item::batch::{Action, Batch, BatchOrigin};
use plugin::{Failure, NotTaken, Plugin, Taken};
use pool::{FillStep, LatestItem, LatestRead, LatestStep, PageLimit, Position};
use settings::Sink;

/// Maximum items of a call.
const ITEMS_MAX: usize = 10_000;
/// A place that moved past irrelevant changes only is stored at this interval. It costs a commit, and reading such
/// changes again does no harm.
const SKIP_STORED_EVERY: Duration = Duration::from_secs(1);
/// The longest pause that a sink can request. Otherwise a receiver could stop the sink for as long as it says.
const ASKED_PAUSE_MAX: Duration = Duration::from_hours(1);

/// Progress of a sink that follows the changes.
#[derive(Debug)]
pub(super) struct Following {
    /// The sink has every change up to here.
    place: ChangeSeq,
    stored_at: Instant,
    /// Failed attempts in a row.
    failures: u32,
    /// Maximum items of the next call: fewer after traps. One of them may be what the plugin cannot handle, and halving
    /// finds it.
    items_max: usize,
    /// Time of the next read.
    pub(super) next: Lived,
}

/// Items of the next call.
struct Next {
    items: Vec<LatestItem>,
    /// The place after all of them are accepted.
    place: ChangeSeq,
    /// The step of the fill after all of them are accepted.
    fill: Option<FillStep>,
    more: bool,
    /// No removal since the place was forgotten.
    is_whole: bool,
}

/// Items of a call, and the keys to store as sent.
#[derive(Default)]
struct Handed {
    items: Vec<(LatestItem, Action)>,
    sent: Vec<(Arc<str>, String)>,
    /// Removals that the plugin does not receive. They are no longer stored as sent, because nothing will be said of
    /// them again.
    unheard: Vec<(Arc<str>, String)>,
}

impl Default for Following {
    fn default() -> Self {
        Self {
            place: ChangeSeq::MIN,
            stored_at: Instant::now(),
            failures: 0,
            items_max: ITEMS_MAX,
            next: Lived::now(),
        }
    }
}

impl Lane {
    /// Loads the place; starts a refill if the changes since then are no longer known. Without a refill, the receiver
    /// would keep items whose removals nobody knows any more.
    pub(super) fn open_latest(&mut self) -> Result<(), StepError> {
        let pool = &self.delivery.pool;
        self.filling = pool.filling_of(&self.name)?;
        let place = pool.latest_of(&self.name)?;
        let receives = self.sink.receives();
        let reaches = |position: Position| pool.reaches_back_to(position);
        let why = match (&place, &self.filling) {
            (None, _) | (_, None) => Some(""),
            (Some(_), Some(filling)) if filling.selection != receives => {
                Some("its settings select other items")
            }
            (Some(place), _) if place.position.epoch != pool.epoch() => Some(
                "the data pool was restored or repaired: the receiver may have items that the data pool never had",
            ),
            (Some(place), _) if !reaches(place.position) => {
                Some("it was away so long that the removals in between are no longer stored")
            }
            _ => None,
        };
        match why {
            Some(why) => self.begin_latest(why)?,
            None => self.note_place()?,
        }
        self.opened = true;
        tracing::info!(
            sink = &*self.name,
            place = self.following.place.get(),
            "the sink is loaded"
        );
        Ok(())
    }

    /// Starts a fill with all items. `why` is the reason of a refill.
    pub(super) fn begin_latest(&mut self, why: &str) -> Result<(), StepError> {
        let pool = &self.delivery.pool;
        pool.begin_latest(&self.name, &self.sink.receives(), why)?;
        self.filling = pool.filling_of(&self.name)?;
        tracing::info!(
            sink = &*self.name,
            why,
            fill = self.last_fill().map_or(0, |fill| fill.number),
            "the sink receives all items of the data pool, then changes"
        );
        self.note_place()
    }

    fn note_place(&mut self) -> Result<(), StepError> {
        if let Some(place) = self.delivery.pool.latest_of(&self.name)? {
            self.following.place = place.position.seq;
            self.status.set_place(place.position.seq);
            self.status.set_refilled(place.refilled);
        }
        self.status.set_filling(self.is_filling());
        if self.pauses == 0 {
            self.status.set_state(crate::LaneState::Running);
        }
        Ok(())
    }

    /// Delivers the next changes. The head is marked before the read, so that a change during it wakes the lane again.
    pub(super) async fn follow_next(&mut self) -> Result<Step, StepError> {
        if self.pauses == 0 && Lived::now() < self.following.next {
            return Ok(Step::Later(self.following.next));
        }
        // What changes from here on wakes the lane again.
        self.head.mark_unchanged();
        let pace = Duration::from_secs(1) / self.sink.max_rate.max(1);
        self.following.next = Lived::now() + pace;
        let next = self.next_items().await?;
        if self.status.is_held() {
            return Ok(Step::Worked);
        }
        if !next.is_whole {
            self.begin_latest(
                "it was behind so long that the changes in between are no longer stored",
            )?;
            return Ok(Step::Worked);
        }
        let handed = handed(&self.sink, self.plugin.as_ref(), next.items);
        let more = next.more;
        let step = LatestStep {
            place: Some(next.place),
            gone: handed.unheard,
            ..LatestStep::default()
        };
        let Some(batch) = batch_of(&handed.items, self.following.failures) else {
            return self.pass_over(step, next.fill, more).await;
        };
        if !handed.sent.is_empty() {
            let mut settlement = self.settlement();
            settlement.latest = Some(LatestStep {
                sent: handed.sent,
                ..LatestStep::default()
            });
            self.settle(settlement).await?;
        }
        match self.write(batch.clone()).await? {
            Ok(taken) => {
                self.followed(&batch, &handed.items, step, next.fill, taken)
                    .await
            }
            Err(failed) => {
                self.not_followed(&batch, &handed.items, step, next.fill, failed)
                    .await
            }
        }
    }

    /// Reads the items of the next call.
    async fn next_items(&self) -> Result<Next, StepError> {
        let rows = self.sink.batch.items_max.min(self.following.items_max);
        let read = LatestRead {
            sink: &self.name,
            shown: self.sink.shown,
            limit: PageLimit {
                rows: u32::try_from(rows).unwrap_or(u32::MAX),
                bytes: self.sink.batch.bytes_max,
            },
        };
        let (pool, place) = (&self.delivery.pool, self.following.place);
        let wanted = |stream: &str| self.sink.matches(stream);
        let Some(filling) = self.filling.as_ref().filter(|one| !one.is_over) else {
            let page = pool.latest_after(read, wanted, place).await?;
            return Ok(Next {
                items: page.items,
                place: page.through,
                fill: None,
                more: page.more,
                is_whole: page.is_whole,
            });
        };
        let (items, after) = pool.latest_page(read, wanted, filling, place).await?;
        Ok(Next {
            place,
            fill: Some(FillStep {
                is_over: after.is_none(),
                after: after.unwrap_or_else(|| filling.after.clone()),
                read: items.len() as u64,
                page: Vec::new(),
            }),
            items,
            more: true,
            is_whole: true,
        })
    }

    /// Moves past changes that are irrelevant to the sink.
    async fn pass_over(
        &mut self,
        step: LatestStep,
        fill: Option<FillStep>,
        more: bool,
    ) -> Result<Step, StepError> {
        let place = step.place.unwrap_or(self.following.place);
        let is_due = self.following.stored_at.elapsed() >= SKIP_STORED_EVERY;
        if fill.is_some() || !step.gone.is_empty() || is_due && place > self.following.place {
            let mut settlement = self.settlement();
            (settlement.latest, settlement.fill) = (Some(step), fill);
            self.settle(settlement).await?;
            self.following.stored_at = Instant::now();
        }
        self.following.place = place;
        self.status.set_place(place);
        // No call was made.
        if more {
            self.following.next = Lived::now();
            return Ok(Step::Worked);
        }
        self.resume();
        Ok(Step::Idle(None))
    }

    /// Settles a batch that the sink accepted, except for the rejected items.
    async fn followed(
        &mut self,
        batch: &Batch,
        items: &[(LatestItem, Action)],
        mut step: LatestStep,
        fill: Option<FillStep>,
        taken: Taken,
    ) -> Result<Step, StepError> {
        let Taken { staged, rejected } = taken;
        self.note_taken(batch, &rejected);
        self.note_rejected(&rejected);
        let refused = |index: usize| rejected.iter().any(|(at, _)| *at as usize == index);
        step.gone.extend(removed(items, |index| !refused(index)));
        self.settle_followed(step, fill, staged.state).await?;
        (self.following.failures, self.following.items_max) = (0, ITEMS_MAX);
        self.succeeded(batch);
        Ok(Step::Worked)
    }

    /// Settles a batch that the sink did not accept, or only in part. The newest values of the rest are sent again. A
    /// part that was accepted is settled at once, so that it is not sent again.
    async fn not_followed(
        &mut self,
        batch: &Batch,
        items: &[(LatestItem, Action)],
        mut step: LatestStep,
        fill: Option<FillStep>,
        failed: NotTaken,
    ) -> Result<Step, StepError> {
        let NotTaken {
            failure,
            progress,
            staged,
        } = failed;
        let reason = failure.to_string();
        if let Failure::Reject { .. } = failure {
            // What was settled before is not refused.
            let rejected = (progress.taken..batch.len()).map(|index| (index, reason.clone()));
            let taken = Taken {
                staged,
                rejected: rejected.collect(),
            };
            return self.followed(batch, items, step, fill, taken).await;
        }
        let count = progress.taken as usize;
        if count > 0 {
            let refused: Vec<(u32, String)> = (progress.refused.into_iter())
                .flat_map(|(range, why)| range.map(move |index| (index, why.clone())))
                .collect();
            self.note_rejected(&refused);
            let is_refused = |index: usize| refused.iter().any(|(at, _)| *at as usize == index);
            step.gone
                .extend(removed(items, |index| index < count && !is_refused(index)));
            // Of a filling the page comes again.
            step.place = match fill {
                None => items.get(count - 1).map(|(item, _)| item.seq),
                Some(_) => None,
            };
            self.settle_followed(step, None, staged.state).await?;
            self.following.failures = 0;
        }
        if let Failure::Trap { .. } = failure {
            self.following.items_max = (batch.len() as usize / 2).max(1);
        }
        self.following.failures = self.following.failures.saturating_add(1);
        let failures = self.following.failures;
        self.note_failed(count > 0, false, failures, &reason);
        let pause = match failure {
            Failure::Retry {
                after: Some(asked), ..
            } => asked.min(ASKED_PAUSE_MAX),
            _ => verdict::pause(&self.sink.retry, failures),
        };
        self.following.next = self.following.next.max(Lived::now() + pause);
        Ok(Step::Failing(self.following.next))
    }

    async fn settle_followed(
        &mut self,
        step: LatestStep,
        fill: Option<FillStep>,
        state: Vec<(String, Option<Vec<u8>>)>,
    ) -> Result<(), StepError> {
        let place = step.place;
        let mut settlement = self.settlement();
        settlement.staged.state = state;
        (settlement.latest, settlement.fill) = (Some(step), fill);
        self.settle(settlement).await?;
        if let Some(place) = place {
            self.following.place = place;
            self.status.set_place(place);
        }
        Ok(())
    }

    fn note_rejected(&self, rejected: &[(u32, String)]) {
        let Some((_, reason)) = rejected.last() else {
            return;
        };
        let count = rejected.len() as u64;
        self.status.add_rejected(count, reason);
        tracing::warn!(sink = &*self.name, items = count, reason = %reason.escape_debug(), "items rejected; they are sent again when they change");
    }
}

/// The items of a call: matching items, and removals of all others that the sink may have. A removal is for items that
/// were sent only, otherwise the receiver would learn of keys that it never had.
fn handed(sink: &Sink, plugin: Option<&Plugin>, items: Vec<LatestItem>) -> Handed {
    let takes_removals = plugin.is_some_and(Plugin::takes_removals);
    let conditions = sink.r#where.as_ref().map(|one| one.conditions());
    let mut handed = Handed::default();
    for item in items {
        let matches = item.fields.is_some()
            && conditions.is_none_or(|conditions| conditions.holds(&item.record()));
        let key = || (Arc::clone(&item.stream), item.key.clone());
        match (matches, item.is_sent) {
            (true, is_sent) => {
                if !is_sent {
                    handed.sent.push(key());
                }
                handed.items.push((item, Action::Upsert));
            }
            (false, true) if takes_removals => handed.items.push((item, Action::Remove)),
            (false, true) => handed.unheard.push(key()),
            (false, false) => {}
        }
    }
    handed
}

/// The batch of a call; `None`: it has no items.
fn batch_of(items: &[(LatestItem, Action)], failures: u32) -> Option<Batch> {
    let slices = items
        .iter()
        .filter_map(|(item, action)| item.slice(*action));
    let slices: Vec<_> = slices.collect();
    (!slices.is_empty()).then(|| Batch::of(BatchOrigin::Latest, slices, failures + 1))
}

/// The keys of the removals that were accepted.
fn removed(
    items: &[(LatestItem, Action)],
    counts: impl Fn(usize) -> bool,
) -> impl Iterator<Item = (Arc<str>, String)> {
    let removals = items.iter().enumerate();
    let removals =
        removals.filter(move |(index, (_, action))| *action == Action::Remove && counts(*index));
    removals.map(|(_, (item, _))| (Arc::clone(&item.stream), item.key.clone()))
}
