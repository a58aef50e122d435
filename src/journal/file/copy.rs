//! What a copy of `journal.db` holds, and how a journal begins a life of its own as a copy.
//!
//! A backup asks the first, a restore does the second.
//!
//! **Invariant**: a restored journal gives no number to a request that the life it was copied from gave to another: who
//! noted one (`accepted_seq` in the pool, a log) finds one request by it. Ids of batches are made of ids of requests.

use std::ops::Range;
use std::path::Path;

use rusqlite::Connection;

use super::payloads::{self, Held};
use super::schema::ACCEPTED;
use super::{claims, schema, timeline};
use crate::{Durability, StorageError};
use base::order::Seq;

/// More requests than the other life can have taken since it was copied. Otherwise a sink that knows the other life
/// could take a new request for an old one.
pub(super) const NUMBERS_SKIPPED: u64 = 1 << 40;

/// Where a journal stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyState {
    /// The highest sequence number that it gave out.
    pub last_seq: Seq,
    /// The first accepted request that was asked for and has no payload, neither in place nor in quarantine.
    pub missing: Option<Seq>,
}

/// Looks into a journal that nobody writes to. The payloads of requests after `after` are asked for.
pub fn copy_state(connection: &Connection, after: Seq) -> Result<CopyState, rusqlite::Error> {
    let sql = format!(
        "SELECT r.seq FROM requests r WHERE r.seq > ?1 AND {ACCEPTED}
            AND NOT EXISTS (SELECT 1 FROM payloads p WHERE p.seq = r.seq)
            AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.seq = r.seq)
         ORDER BY r.seq"
    );
    let mut statement = connection.prepare(&sql)?;
    // Those that have no row of their own may be in a group.
    let mut accepted = statement.query([after.to_column()])?;
    let mut held = Held::default();
    let mut missing = None;
    while let Some(row) = accepted.next()? {
        let seq = Seq::from_column(row.get(0)?);
        if !held.has(connection, seq)? {
            missing = Some(seq);
            break;
        }
    }
    Ok(CopyState {
        last_seq: schema::last_seq(connection)?,
        missing,
    })
}

/// Makes an empty journal at `path`.
pub fn make(path: &Path) -> Result<(), StorageError> {
    schema::open_writer(path, Durability::Os).map(drop)
}

/// Makes the tables that a journal makes when they are first needed. A repair copies into tables of this version, so
/// tables that are made later must be there.
pub fn make_later(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute_batch(timeline::CLOCK)?;
    connection.execute_batch(schema::SKIPPED)
}

/// Has all claims of a journal that was salvaged count, whatever was lost of how they are listed.
pub fn list_runs(connection: &Connection) -> Result<(), rusqlite::Error> {
    claims::list_runs(connection)
}

/// Has each payload of a journal that was salvaged have a row of its own: how many rows are more than before.
pub fn separate_payloads(connection: &Connection) -> Result<u64, rusqlite::Error> {
    payloads::separate(connection)
}

/// Has what is made of the log of a journal that was salvaged be made again at the next start.
pub fn forget_spans(connection: &Connection) -> Result<(), rusqlite::Error> {
    schema::forget_spans(connection)
}

/// Has a journal that was salvaged give these numbers to nobody: those after the start, up to and including the end.
pub fn skip(connection: &Connection, numbers: Range<Seq>) -> Result<(), rusqlite::Error> {
    schema::skip(connection, numbers)
}

/// Makes the copy at `path` a journal of its own, whose numbers go on far above `highest`.
///
/// # Errors
/// SQLite's; the file was written by a newer version.
pub fn begin_anew(path: &Path, highest: Seq) -> Result<(), StorageError> {
    let connection = schema::open_writer(path, Durability::Fsync)?;
    schema::skip(&connection, highest..highest + NUMBERS_SKIPPED)?;
    Ok(())
}
