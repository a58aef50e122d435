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
//! The pool and the catalog each have [`Commits`] beside their writer, an enum of two. Where there is no log nothing of this
//! exists: no trigger, no table, no call. `sqlite` itself is below this package. With a [`SharedLog`], which both files have:
//!
//! 1. `BEGIN IMMEDIATE`, the work.
//! 2. [`Recorder::take`]. If it returns nothing, `COMMIT`: nothing is said of it to anybody.
//! 3. The writing thread blocks until the task that owns the [`log::Log`] has appended the entry behind the place that both
//!    files have come to, with the digest before.
//! 4. It was appended: [`LogPlace::store`] of the new place, `COMMIT`. Entries are missing here ([`Behind`]): `ROLLBACK`, let
//!    go of the file, wait until both have been brought further, and begin anew with the work; from the second time on with
//!    the log reserved. Anything else: `ROLLBACK`, and a [`LogError`], which says whether the same works later.
//!
//! Other nodes may have an entry before this one: so what is in the log and cannot be committed to the file ends the process,
//! and the next one follows. The transaction of the file stays open meanwhile, which holds up no reader. The commit need not
//! be flushed: a copy that a power cut took back follows again from its own place.
//!
//! The work may run more than once. Numbers, times and secrets that it draws belong to a run; only what the last run
//! returned, which was committed, is answered.
//!
//! # How a node follows
//!
//! One task reads with a log of its own from the lower place of both files ([`SharedLog::read`]) whenever a hint comes, a
//! moment has passed, or a writer lacks entries ([`SharedLog::lacking`]). [`SharedLog::apply`] hands each entry to the catalog
//! and then to the pool, each with a transaction and a place of its own. So the pool never shows what is newer than the
//! catalog: an entry is the pool's when all before it are the catalog's. Only after a start may they be further apart: until
//! the head is reached for the first time, a node shows nothing. That is all it takes.
//!
//! What is derived from [`AppliedEntry::tables`] in memory is loaded anew by each file. What does not concern a file moves its
//! place in memory only; it is stored once a second and at the end. If the files do not fit the log
//! ([`LogError::Differs`]), nothing is appended any more: the node closes them, and begins as it does at each start.
//! [`CopiesAtRest::bring_to_head`] has the files follow while nobody has them open, or replaces them by a base. The first node
//! of all makes the files and begins the log with them ([`CopiesAtRest::begin_log`]): they are base 0, and their digest is in
//! every digest after it. So a file of another cluster, or of a node alone, never passes for a copy.
//!
//! The format of an entry has room for parts of both files; nobody makes one yet.
//!
//! # How the format is raised
//!
//! The log has a format: it stands for how entries are written and for the formats of both files. All that is appended behind
//! an entry that raises it is of rows in the new tables. Such an entry says nothing else, and each node brings its own files
//! to their new formats there, with its own code ([`CopiesAtRest::upgrade`]), before it applies what comes next. So a file is
//! never upgraded when it is opened, as that of a daemon alone is: a copy that a start has upgraded would fit no entry any
//! more, and one that is upgraded behind rows of newer nodes would differ from theirs.
//!
//! Entries carry no older tables for newer nodes, and no newer ones for older nodes: code for two formats of each table, in
//! both directions, would be written for every version and tried by nobody. Instead a newer node keeps its copies in the
//! older format, which needs none of its code, and opens them when the log is raised ([`log::Log::raise`]). `cluster` says
//! which nodes live; whoever finds that all of them know the new format may raise it, and one of them does.
//!
//! What the upgrade makes must follow from the rows alone. Copies have equal rows, not equal files: the numbers that SQLite
//! gives to rows (`rowid`), and their order without an `ORDER BY`, differ from node to node, and so do clocks and chance. The
//! digests are of entries, so a copy that is upgraded otherwise would be found by no comparison.
//!
//! A version that does not know the format appends and applies nothing ([`NewerLog`]). One that passes over a format, because
//! the log was raised twice since its copies were made, waits for a base behind both: it has no code that stops in between.
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
mod commits;
mod encoding;
mod format;
pub mod log;
mod place;
mod recorder;
mod running;
mod shared;
mod tables;
mod tally;
#[cfg(test)]
mod tests;

pub use apply::{AppliedEntry, ApplyError, LogEntry, TouchedTable};
pub use at_rest::{AtRestError, CopiesAtRest, FirstBase, UpgradeFile};
pub use commits::{CommitError, Commits, LoggedFile, Said, SeenHere};
pub use encoding::{
    CHANGE_VERSION, COLUMNS_MAX, FileChange, MalformedChange, change, check_change, part_of,
};
pub use format::NewerLog;
pub(crate) use format::{raise, raised_to};
pub use place::{ChainDigest, LogPlace};
pub use recorder::Recorder;
pub use running::MadeCopies;
pub use shared::{Again, Behind, LogError, SharedLog};
pub use tally::{MovedPart, Tally, TallyCounter, is_copy};

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
