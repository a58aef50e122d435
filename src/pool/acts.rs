//! Acts of operators: overrides and holds, what is shown beside what is stored.
//!
//! Rows of `items` are what sources said; acts never touch them. What is shown of a key is its base, the row that is kept
//! while it is held or else its row in `items`, with overrides over it field by field. An override is what the writes of a
//! field come to (`acts/fold.rs`), so that undoing an act is taking its writes away. One act is one transaction of the
//! writer, flushed before it is answered; it has a number of the one sequence, and so has each change of what is shown.
//!
//! **Invariant**: a stream without rows here is read and written as if there were no acts. What changes nothing is no act:
//! it has no number, is not audited, and there is nothing to undo.

mod act;
mod answers;
mod beneath;
mod concern;
mod due;
mod edit;
mod fold;
mod hold;
mod intent;
mod key;
mod number;
mod outcome;
mod put;
mod read;
mod record;
mod refusal;
mod schema;
mod undo;

use std::sync::{Arc, PoisonError};

use rusqlite::Connection;

use super::change_set::ChangeSet;
use super::tombstones::Removals;
use super::views::Views;
use super::{Pool, PoolError, Writer};
use act::PUT;
pub use act::{Act, Author, Until};
use base::order::ChangeSeq;
pub(super) use beneath::{Before, Did, published_again};
pub(super) use concern::ActStreams;
pub use due::NextEnd;
pub(super) use intent::INTENTS;
pub use intent::PutIntent;
pub use number::is_zero;
pub use outcome::{ActProgress, Acted, Outcome, Undone};
pub use read::{ActCounts, HeldSince, ItemActs, OverrideNow, StreamActs};
pub use record::Record;
pub use refusal::ActRefused;
pub(super) use schema::TABLES_11;

/// Stands for the whole stream where a key is asked for: no key is empty.
const STREAM: &str = "";
/// Who ends what has a time.
const HEADGATE: &str = "headgate";

/// Which call it is, where it may come again.
#[derive(Debug, Clone)]
pub struct Repeatable {
    /// The `Idempotency-Key`.
    pub key: String,
    /// Of the verb and the body. By it, a key that is used for another act is refused and not answered with the first
    /// one's result.
    pub digest: [u8; 32],
}

/// What acts are made with.
pub(super) struct Acting<'a> {
    pub(super) connection: &'a Connection,
    pub(super) views: &'a mut Views,
    pub(super) acts: &'a mut ActStreams,
    pub(super) removals: &'a mut Removals,
}

/// What an act comes to within its transaction.
struct Made {
    outcome: Outcome,
    /// For the audit log; none: nothing was changed.
    record: Option<record::Change>,
    /// The number of the change, where it is not the last one.
    seq: Option<ChangeSeq>,
}

impl Made {
    fn nothing(outcome: Outcome) -> Self {
        Self {
            outcome,
            record: None,
            seq: None,
        }
    }
}

/// Within a transaction: it is refused, or SQLite fails.
enum Fault {
    Refused(ActRefused),
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<ActRefused> for Fault {
    fn from(refused: ActRefused) -> Self {
        Self::Refused(refused)
    }
}

impl Pool {
    /// Makes an act, or stores what is needed to make it when its data is submitted: on disk when it returns, and then told.
    /// Blocks.
    ///
    /// # Errors
    /// See [`ActRefused`]: nothing was changed. Or SQLite's.
    pub fn act(
        &self,
        stream: &Arc<str>,
        act: &Act,
        by: &Author,
        repeatable: Option<&Repeatable>,
    ) -> Result<Result<ActProgress, ActRefused>, PoolError> {
        let items = self.sizes.of(stream).items;
        self.in_act(stream, |acting, pass| {
            let call = Call {
                stream,
                by,
                repeatable,
                items,
            };
            match call.run(acting, act, pass) {
                Ok(progress) => Ok(Ok(progress)),
                Err(Fault::Refused(refused)) => Ok(Err(refused)),
                Err(Fault::Sql(error)) => Err(error),
            }
        })
    }

    /// Runs what changes what is shown of a stream.
    fn in_act<T>(
        &self,
        stream: &Arc<str>,
        mut work: impl FnMut(&mut Acting<'_>, &mut ChangeSet<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, PoolError> {
        let done = self.change(|writer, pass| {
            writer.removals.begin();
            let done = work(&mut writer.acting(), pass)?;
            writer.views.store(&writer.connection)?;
            writer.views.make_few(&writer.connection)?;
            Ok(done)
        })?;
        self.settle_acts(stream)?;
        Ok(done)
    }

    /// What is shown of a stream may have changed by an act that is committed.
    fn settle_acts(&self, stream: &Arc<str>) -> Result<(), PoolError> {
        let writer = &mut *self.lock();
        writer.acts.settle(&writer.connection, stream)?;
        let mut acted = self.acted.write().unwrap_or_else(PoisonError::into_inner);
        acted.insert(Arc::clone(stream), writer.seq);
        Ok(())
    }

    /// Whether somebody has acted on a stream since this change: what was made of it before is old at once. So a caller
    /// that rendered a page meanwhile renders it again.
    pub fn has_acted_since(&self, stream: &str, seq: ChangeSeq) -> bool {
        let acted = self.acted.read().unwrap_or_else(PoisonError::into_inner);
        acted.get(stream).is_some_and(|acted| *acted > seq)
    }

    /// Streams that acts have left something of. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn acted_streams(&self) -> Result<Vec<Arc<str>>, PoolError> {
        let sql = "SELECT stream FROM acts UNION SELECT stream FROM act_answers
             UNION SELECT stream FROM writes UNION SELECT stream FROM holds";
        self.read(|connection| {
            let mut select = connection.prepare_cached(sql)?;
            select.query_map([], |row| row.get(0))?.collect()
        })
    }

    /// Ends what acts have left of a stream that is gone. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn forget_acts(&self, stream: &str) -> Result<(), PoolError> {
        let stream: Arc<str> = stream.into();
        self.in_act(&stream, |acting, pass| acting.forget(&stream, pass))
    }
}

impl Writer {
    pub(super) fn acting(&mut self) -> Acting<'_> {
        Acting {
            connection: &self.connection,
            views: &mut self.views,
            acts: &mut self.acts,
            removals: &mut self.removals,
        }
    }
}

/// A call of an operator.
struct Call<'a> {
    stream: &'a Arc<str>,
    by: &'a Author,
    repeatable: Option<&'a Repeatable>,
    /// How many items the stream has.
    items: u64,
}

impl Call<'_> {
    fn run(
        &self,
        acting: &mut Acting<'_>,
        act: &Act,
        pass: &mut ChangeSet<'_>,
    ) -> Result<ActProgress, Fault> {
        if let Some(acted) = answers::earlier(acting.connection, self)? {
            return Ok(ActProgress::Done(acted));
        }
        if let Some(intent) = self.under_way(acting.connection)? {
            return Ok(ActProgress::Submit(intent));
        }
        // What is over by now is over for this act.
        acting.end_due(pass)?;
        let made = match act {
            Act::Override {
                key,
                fields,
                until,
                create,
            } => self.set(acting, key, (fields, *until, *create), pass)?,
            Act::Add { .. } => self.add(acting, act, pass)?,
            Act::Release { key, fields } => {
                self.release(acting, key.as_deref(), fields.as_deref(), pass)?
            }
            Act::Hold { keys, until } => self.hold(acting, keys.as_deref(), *until, pass)?,
            Act::Take { keys } => self.take(acting, keys.as_deref(), pass)?,
            Act::Resume { keys } => self.resume(acting, keys.as_deref(), pass)?,
            Act::Undo { skip } => match self.undo(acting, *skip, pass)? {
                undo::Undo::Made(made) => *made,
                undo::Undo::Submit(intent) => return Ok(ActProgress::Submit(*intent)),
            },
            Act::Put { key, fields } => {
                let intent = self.intend_put(acting, key, fields)?;
                return Ok(ActProgress::Submit(intent));
            }
        };
        Ok(ActProgress::Done(self.done(
            acting,
            act.verb(),
            made,
            pass,
        )?))
    }

    /// It is written down, with its answer.
    fn done(
        &self,
        acting: &mut Acting<'_>,
        verb: &str,
        made: Made,
        pass: &ChangeSet<'_>,
    ) -> Result<Acted, Fault> {
        if let Some(change) = made.record {
            acting.record(self.stream, verb, self.by, &change)?;
            acting.limit_list(self.stream, &self.by.operator)?;
        }
        let acted = Acted {
            request_id: self.by.request_id,
            seq: made.seq.unwrap_or_else(|| pass.seq()),
            outcome: made.outcome,
            replayed: false,
        };
        answers::keep(acting.connection, self, &acted)?;
        Ok(acted)
    }
}

/// A name as JSON writes it.
pub(super) fn json_name(name: &str) -> String {
    let mut json = String::with_capacity(name.len() + 2);
    item::string_into(name, &mut json);
    json
}
