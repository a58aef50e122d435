//! What the writes of a field come to: its override, or none.
//!
//! **Invariant**: it is a function of the writes that are there, in the order of their numbers. One that is taken away is
//! as if it had not been made.

use rusqlite::Row;

use super::Until;
use super::number;
use base::clock::Unix;
use base::order::ChangeSeq;

/// What a write does to the override of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Release = 0,
    Set = 1,
    Add = 2,
}

/// One write of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) n: ChangeSeq,
    pub(super) op: Op,
    /// The value that was shown after it, as JSON; empty of a release. Of an add it is kept, too, because an undo
    /// before it may leave nothing to add to.
    pub(super) value: String,
    /// What an add adds.
    pub(super) step: String,
    /// What an add would have added to without an override; empty: there was no such field. It is kept, because the
    /// source may have changed by the time an earlier write is undone.
    pub(super) start: String,
    pub(super) by: String,
    pub(super) at: Unix,
    pub(super) until: Option<Until>,
    /// An add that leaves the `until` that is there.
    pub(super) keeps_until: bool,
    /// From which number on its `until` is over; 0: it is not. A number and not a time, so that every fold has the same
    /// result, whatever the clock says.
    pub(super) ended: ChangeSeq,
}

pub(super) const COLUMNS: &str =
    "n, op, value, step, start, by_name, at_ms, until_lived, until_wall, keeps_until, ended";

impl Write {
    /// From [`COLUMNS`], which begin at column `first`.
    pub(super) fn read(row: &Row<'_>, first: usize) -> Result<Self, rusqlite::Error> {
        let op = match row.get::<_, u8>(first + 1)? {
            0 => Op::Release,
            1 => Op::Set,
            _ => Op::Add,
        };
        Ok(Self {
            n: ChangeSeq::from_column(row.get(first)?),
            op,
            value: row.get(first + 2)?,
            step: row.get(first + 3)?,
            start: row.get(first + 4)?,
            by: row.get(first + 5)?,
            at: Unix::from_column(row.get(first + 6)?),
            until: Until::of_columns(row.get(first + 7)?, row.get(first + 8)?),
            keeps_until: row.get(first + 9)?,
            ended: ChangeSeq::from_column(row.get(first + 10)?),
        })
    }
}

/// A field that is overridden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Override {
    /// As JSON.
    pub(crate) value: String,
    pub(crate) by: String,
    pub(crate) at: Unix,
    pub(crate) until: Option<Until>,
    /// From which number on `until` is over; 0: it is not.
    ended: ChangeSeq,
}

/// The override that these writes of a field come to, oldest first.
pub(super) fn fold<'a>(writes: impl IntoIterator<Item = &'a Write>) -> Option<Override> {
    let mut now: Option<Override> = None;
    for write in writes {
        let before = now.take().filter(|before| before.holds_at(write.n));
        now = match write.op {
            Op::Release => None,
            Op::Set => Some(Override::of(write, write.value.clone())),
            Op::Add => Some(add(before, write)),
        };
    }
    now.filter(|now| now.ended == ChangeSeq::MIN)
}

fn add(before: Option<Override>, write: &Write) -> Override {
    let start = match (&before, &*write.start) {
        (Some(before), _) => &*before.value,
        (None, "") => "0",
        (None, start) => start,
    };
    // Later acts are not judged anew: where there is no number now, it stays what it came to.
    let value = number::sum(start, &write.step).unwrap_or_else(|| write.value.clone());
    let after = Override::of(write, value);
    match before {
        Some(before) if write.keeps_until => Override {
            until: before.until,
            ended: before.ended,
            ..after
        },
        _ => after,
    }
}

impl Override {
    fn of(write: &Write, value: String) -> Self {
        Self {
            value,
            by: write.by.clone(),
            at: write.at,
            until: write.until,
            ended: write.ended,
        }
    }

    fn holds_at(&self, n: ChangeSeq) -> bool {
        self.ended == ChangeSeq::MIN || self.ended > n
    }
}

#[cfg(test)]
mod tests;
