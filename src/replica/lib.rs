//! Copies of `pool.db` and `catalog.db` that several nodes keep equal: each change of either file is an entry of one log.
//!
//! The log is in PostgreSQL ([`log`]). A node does its work in SQLite, as a node alone does. A [`Recorder`] on the writing
//! connection knows which rows the open transaction has changed; [`Recorder::take`] encodes them as they are now, and
//! [`change`] makes the bytes of an entry of the parts of both files. Other nodes [`Recorder::apply`] the entry to their
//! copies: first every key goes that it names, then its rows come.
//!
//! Each file keeps its own [`LogPlace`] in a table of its own, which changes in the transaction of what it says. Digests
//! are a chain, so that a copy that differs finds out at the next entry, whoever wrote it.
//!
//! # How a file commits
//!
//! 1. `Recorder::prepare`, `BEGIN IMMEDIATE`, the work.
//! 2. [`Recorder::take`]. If it returns nothing, `COMMIT`: nothing is said of it to anybody.
//! 3. [`log::Log::append`] behind the place that this file and the other one know, with the digest before.
//! 4. It was appended: [`LogPlace::store`] of the new place, `COMMIT`. Entries are missing here
//!    ([`log::AppendError::Behind`]): `ROLLBACK`, follow, and begin anew with the work. Another node runs the sinks:
//!    `ROLLBACK`, and let go of the lanes. [`log::AppendError::Differs`]: `ROLLBACK`, and take a new copy. The database is
//!    away: `ROLLBACK`, an error that passes, as a full disk.
//!
//! `append` returns when that is known, and not before: the transaction of the file stays open meanwhile, which holds up no
//! reader. The commit need not be flushed: a copy that a power cut took back follows again from its own place.
//! Numbers and secrets that the work draws are drawn before it, because it may run twice.
//!
//! This belongs into the commit of `sqlite::FileWriter`'s owners, as an enum of two that the pool and the catalog each have
//! beside their writer: one commits as before, the other has a recorder and a way to the task that owns the [`log::Log`].
//! `sqlite` itself is below this package. An entry of both files has both writers locked, the catalog's first.
//! Where there is no log nothing of this exists: no trigger, no table, no call.
//!
//! # How a node follows
//!
//! It asks [`log::Log::follow`] from the lower place of its two files. Each file applies what it lacks, the pool and the
//! catalog of one entry one after the other, and shows nothing while they differ. What does not concern a file moves its
//! place in memory only; [`LogPlace::store`] it once a second and at the end. After the file has got ahead of memory by an
//! entry of somebody else, what is derived from [`AppliedEntry::tables`] is loaded anew. If
//! [`log::FollowedEntries::fits`] is false, or [`ApplyError::DoesNotFit`] comes, the node closes its files, and begins as it
//! does at each start: [`CopiesAtRest::bring_to_head`] has the files follow while nobody has them open, or replaces them by
//! a base. The first node of all makes the files and begins the log with them ([`CopiesAtRest::begin_log`]): they are base 0,
//! and their digest is in every digest after it. So a file of another cluster, or of a node alone, never passes for a copy.
//!
//! A format is raised by an entry as well: one that has the new format and no rows, at which each node upgrades its file.
//! Upgrades are functions of the file alone then. An entry of a newer format ends a node that does not know it.
//!
//! # Tables and rows
//!
//! A row is named by its declared primary key. A table without one (`history`) is carried whole, and so is one whose key may
//! be `NULL`, is not compared byte by byte, or has more than four columns. A table that a transaction makes is carried with
//! its statement, its indexes and all that it has; one that it makes otherwise, too. Views and triggers are no part of an
//! entry: whoever opens the file makes them.
//!
//! **Invariant**: a copy to which all entries were applied has the same rows, tables, indexes and sequences as the file that
//! they were taken from.
#![deny(unsafe_code)]

mod apply;
mod at_rest;
mod encoding;
pub mod log;
mod place;
mod recorder;
mod tables;
#[cfg(test)]
mod tests;

pub use apply::{AppliedEntry, ApplyError, LogEntry, TouchedTable};
pub use at_rest::{AtRestError, CopiesAtRest};
pub use encoding::{
    CHANGE_VERSION, COLUMNS_MAX, FileChange, MalformedChange, change, check_change, part_of,
};
pub use place::{ChainDigest, LogPlace};
pub use recorder::Recorder;

/// The table of a file's place. It is the one that is not recorded.
const OWN_TABLE: &str = "replica";

/// A file that has copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplicaFile {
    Pool,
    Catalog,
}

impl ReplicaFile {
    pub const ALL: [Self; 2] = [Self::Pool, Self::Catalog];

    /// How an entry names it.
    fn number(self) -> u8 {
        match self {
            Self::Pool => 0,
            Self::Catalog => 1,
        }
    }
}
