//! Settlements: everything that one step of a lane changes.
//!
//! **Invariant**: what the sink did, the cursor, retries and dead letters are written in one transaction.

use std::sync::Arc;

use super::apply::{self, Target};
use super::change_set::ChangeSet;
use super::{
    Call, Claim, DeadLetter, FillStep, LatestStep, Retry, Writer, dead_letters, delivery_status,
    fills, latest, retries, sinks, state,
};
use base::clock::Unix;
use base::order::Seq;
use item::batch::{Action, Batch};

/// What a sink did in one call. It happens together with the cursor, or not at all.
#[derive(Debug, Default)]
pub struct Staged {
    /// Changes of items, in order.
    pub effects: Vec<Effect>,
    /// Batches whose items are published to renderers.
    pub publishes: Vec<Batch>,
    /// Changes of the sink's own state: key, and value or nothing.
    pub state: Vec<(String, Option<Vec<u8>>)>,
    /// The streams that come to be with it. They are held until the commit, so that their places stay taken.
    pub claims: Vec<Claim>,
}

impl Staged {
    /// What a later call did comes behind what earlier ones did.
    pub fn add(&mut self, mut later: Self) {
        self.effects.append(&mut later.effects);
        self.publishes.append(&mut later.publishes);
        self.state.append(&mut later.state);
        self.claims.append(&mut later.claims);
    }
}

#[derive(Debug, Clone)]
pub enum Effect {
    /// Every item of the batch is upserted.
    Upsert(Batch),
    /// Every item of the batch is removed.
    Delete(Batch),
    /// Every item of the batch is upserted or removed, as is asked of it, in their order.
    Apply(Batch),
}

impl Effect {
    /// The batch, and what is done with every item of it; none: what each of them asks.
    fn parts(&self) -> (&Batch, Option<Action>) {
        match self {
            Self::Upsert(batch) => (batch, Some(Action::Upsert)),
            Self::Delete(batch) => (batch, Some(Action::Remove)),
            Self::Apply(batch) => (batch, None),
        }
    }
}

/// Everything that one step of a lane changes, committed together or not at all.
#[derive(Debug, Default)]
pub struct Settlement {
    pub sink: Arc<str>,
    /// What the sink did to the pool, to renderers and to its own state.
    pub staged: Staged,
    /// The lane's new cursor, if it moves.
    pub cursor: Option<Seq>,
    /// A retry that is over: delivered, given up or replaced.
    pub retry_done: Option<Retry>,
    /// Batches to be tried again.
    pub retries: Vec<Retry>,
    /// Items that the sink refused for good.
    pub dead_letters: Vec<DeadLetter>,
    /// The batch that the sink is about to be called with. It is stored before the call, so that a crash repeats
    /// exactly this batch.
    pub calling: Option<Call>,
    /// The batch that was stored so is over, with `cursor`.
    pub called: bool,
    /// How far the filling of the sink is.
    pub fill: Option<FillStep>,
    /// How far a sink is that follows the changes.
    pub latest: Option<LatestStep>,
    /// Why the sink is failing from now on, or that it is not any more; none: nothing changed.
    pub failing: Option<Option<String>>,
    /// It can be done in parts: with a log, a change of over 64 MiB is refused. See [`PoolError::is_too_large`].
    ///
    /// [`PoolError::is_too_large`]: super::PoolError::is_too_large
    pub is_divisible: bool,
}

impl Writer {
    /// Does it, within a transaction; under which ids its retries stand. `None`: the retry that it is about is not there any
    /// more, and nothing was done.
    pub(super) fn apply(
        &mut self,
        settlement: &Settlement,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Option<Vec<i64>>, rusqlite::Error> {
        if let Some(retry) = &settlement.retry_done
            && !retries::waits(&self.connection, retry)?
        {
            return Ok(None);
        }
        self.removals.begin();
        let mut target = Target {
            connection: &self.connection,
            views: &mut self.views,
            on_update: &self.on_update,
            removals: &mut self.removals,
            acts: &mut self.acts,
            recording: &self.recording,
            keep: 0,
            counting: &mut self.counting,
            row_numbers: &mut self.row_numbers,
            sink: &settlement.sink,
        };
        let Staged {
            effects,
            publishes,
            state,
            ..
        } = &settlement.staged;
        for effect in effects {
            let (batch, action) = effect.parts();
            let published = publishes.iter().any(|other| other.is(batch));
            apply::apply(&mut target, batch, action, published, pass)?;
        }
        for batch in publishes {
            let is_applied = |effect: &Effect| {
                let (other, action) = effect.parts();
                action != Some(Action::Remove) && other.is(batch)
            };
            if !effects.iter().any(is_applied) {
                apply::publish(&mut target, batch, pass)?;
            }
        }
        state::store(&self.connection, &settlement.sink, state)?;
        let now = Unix::now();
        if let Some(cursor) = settlement.cursor {
            delivery_status::move_cursor(&self.connection, &settlement.sink, cursor, now)?;
        }
        self.advance(settlement)?;
        let ids = retries::store_retries(&self.connection, settlement, now)?;
        dead_letters::store_letters(&self.connection, &settlement.sink, &settlement.dead_letters)?;
        self.removals.finish(&self.connection, &self.recording)?;
        self.views.make_few(&self.connection)?;
        Ok(Some(ids))
    }

    /// How far a sink is with its calls, and one that is filled or follows the changes.
    fn advance(&self, settlement: &Settlement) -> Result<(), rusqlite::Error> {
        let sink = &settlement.sink;
        if settlement.called {
            retries::end_call(&self.connection, sink)?;
        }
        if let Some(call) = &settlement.calling {
            retries::note_call(&self.connection, sink, call)?;
        }
        if let Some(step) = &settlement.fill {
            fills::advance(&self.connection, sink, step)?;
        }
        if let Some(step) = &settlement.latest {
            latest::advance(&self.connection, sink, step)?;
        }
        match &settlement.failing {
            Some(reason) => sinks::note_failing(&self.connection, sink, reason.as_deref()),
            None => Ok(()),
        }
    }
}
