//! The beginning of a lane: with the next request, with the requests that the journal has, or with the items of the
//! data pool.
//!
//! **Invariant**: from the transaction that begins a fill on, the journal keeps the requests that were accepted after
//! the state of the fill.

use std::sync::Arc;

use super::{AddError, Delivery, LaneStatus};
use base::order::Seq;
use pool::{Beginning, FillLeft, Filling, PoolError};
use settings::{Sink, Start};

/// Why a sink cannot be refilled now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefillError {
    /// A fill is in progress.
    #[error("it is being filled")]
    Filling,
    /// The data pool cannot be read or written, or the lane has ended.
    #[error("{0}")]
    Failed(String),
}

/// A fill that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refilled {
    /// 1 for the first fill of the sink.
    pub number: u32,
    /// Rows to read.
    pub items: u64,
}

impl Delivery {
    /// The cursor at which a new lane begins; a known sink continues at its cursor. `oldest` is the entry before the
    /// first one in the journal. A sink of the newest state has no place in the journal, so it holds back no payload.
    pub(super) fn begin(
        &self,
        sink: &Sink,
        lanes: &[Arc<LaneStatus>],
        all: &[Sink],
        (is_new, oldest): (bool, Seq),
    ) -> Result<Seq, AddError> {
        if sink.is_latest() {
            // What it has not comes from the data pool, so it holds nothing back.
            if self.pool.has_cursor(&sink.name)? {
                self.pool.forget_sink(&sink.name)?;
            }
            return Ok(Seq::MAX);
        }
        if self.pool.latest_of(&sink.name)?.is_some() {
            self.pool.forget_sink(&sink.name)?;
        }
        let newest = *self.journal.newest().borrow();
        let start = match sink.start {
            _ if is_new => Seq::MIN,
            Start::Now => newest,
            Start::Journal => oldest.min(newest),
            Start::State => {
                let reaches = lanes.iter().map(|lane| lane.reach());
                let mut others: Vec<String> = (reaches)
                    .filter(|(other, writes)| !may_write(other, *writes, sink))
                    .map(|(other, _)| other.name.clone())
                    .collect();
                let all = all.iter().filter(|other| !may_write(other, None, sink));
                others.extend(all.map(|other| other.name.clone()));
                let beginning = Beginning {
                    sink: &sink.name,
                    selection: &sink.receives(),
                    others: &others,
                    newest,
                    oldest: oldest.min(newest),
                };
                return Ok(self.pool.begin_with_state(&beginning)?);
            }
        };
        let stood = self.pool.add_sink(&sink.name, start)?;
        if is_new && sink.start == Start::State {
            self.pool.began_empty(&sink.name, &sink.receives())?;
        }
        Ok(stood)
    }

    /// Stores where a sink begins that was just made on this node and runs on another one: with the next request of
    /// any node. One that begins with the journal or with the data pool gets those requests in any case. Otherwise
    /// requests that are accepted before that node makes the lane would pass the sink. Blocks.
    ///
    /// # Errors
    /// The pool cannot be written.
    pub fn begin_elsewhere(&self, sink: &Sink) -> Result<(), PoolError> {
        if sink.start == Start::Now && !sink.is_latest() && !self.pool.is_new()? {
            let newest = *self.journal.newest().borrow();
            self.pool.add_sink(&sink.name, newest)?;
        }
        Ok(())
    }

    /// Starts a refill of a lane from the data pool; returns its cursor. Blocks. It begins no earlier than the journal
    /// reaches, otherwise requests that are gone would be passed over.
    pub(super) async fn fill_anew(&self, sink: &Sink) -> Result<Seq, AddError> {
        let newest = *self.journal.newest().borrow();
        let oldest = self.journal.oldest_kept().await?.unwrap_or(newest + 1) - 1;
        let reaches = self.lanes().into_iter().map(|lane| lane.reach());
        let others: Vec<String> = reaches
            .filter(|(other, writes)| !may_write(other, *writes, sink))
            .map(|(other, _)| other.name.clone())
            .collect();
        let beginning = Beginning {
            sink: &sink.name,
            selection: &sink.receives(),
            others: &others,
            newest,
            oldest: oldest.max(self.journal.released()).min(newest),
        };
        Ok(self.pool.fill_anew(&beginning)?)
    }

    /// The last or current fill of a sink, and the rows that are left of it.
    ///
    /// # Errors
    /// The data pool cannot be read.
    pub async fn filling(
        &self,
        name: &str,
        sink: Option<&Sink>,
    ) -> Result<Option<(Filling, FillLeft)>, PoolError> {
        let Some(filling) = self.pool.filling(name).await? else {
            return Ok(None);
        };
        let wanted = |stream: &str| sink.is_some_and(|sink| sink.matches(stream));
        let left = self.pool.fill_left(name, &filling, wanted).await?;
        Ok(Some((filling, left)))
    }

    /// The number of changed items that a sink with the newest state does not have yet.
    ///
    /// # Errors
    /// The data pool cannot be read.
    pub async fn changes_for(&self, lane: &LaneStatus) -> Result<u64, PoolError> {
        let sink = lane.sink();
        let wanted = |stream: &str| sink.matches(stream);
        let place = lane.place();
        self.pool
            .latest_lag(lane.name(), sink.shown, wanted, place)
            .await
    }

    /// Makes a lane refill its sink from the data pool, at the end of the current batch. The lane does it and not the
    /// caller, because a refill must not meet a call that is under way.
    ///
    /// # Errors
    /// See [`RefillError`]; nothing has changed then.
    pub async fn refill(&self, lane: &LaneStatus) -> Result<Refilled, RefillError> {
        let failed = |error: &dyn std::fmt::Display| RefillError::Failed(error.to_string());
        let answer = lane.ask_refill();
        let begun = answer.await;
        begun.map_err(|_| RefillError::Failed("the lane of the sink has ended".to_owned()))??;
        let sink = lane.sink();
        let filling = self.filling(lane.name(), Some(&sink)).await;
        let filling = filling.map_err(|error| failed(&error))?;
        let (filling, left) = filling.ok_or_else(|| failed(&"the filling no longer exists"))?;
        Ok(Refilled {
            number: filling.fill.number,
            items: left.rows + left.waiting,
        })
    }
}

/// Whether a sink may write the streams that another one receives; `writes` says whether its plugin writes the data
/// pool, if that is known. An unknown plugin counts as a writer, because what it writes must not be missed.
fn may_write(writer: &Sink, writes: Option<bool>, receiver: &Sink) -> bool {
    writes != Some(false) && settings::beginning::may_write(writer, receiver)
}
