//! A change of the files as bytes: what [`Recorder::take`](super::Recorder::take) writes, and what is read of it.
//!
//! ```text
//! change:    version (1), then for each file: file (byte; 0 pool, 1 catalog), bytes that follow (number), part
//! part:      format of the file (number)
//!            count, then: is a table (byte), name          dropped, before anything else
//!            count, then: statement                        tables, then indexes that are made
//!            count, then: table
//! table:     name, flags (byte; 1: carried whole, 2: has a sequence), [the sequence (number)]
//!            count of columns, how many of them are the key, names; those of the key first
//!            rows: 1 and the values of a key: the row is gone
//!                  2 and a value for each column: the row as it is now
//!                  0: the end
//! value:     number 0: NULL; 1: an integer, as a number (sign in the lowest bit)
//!            2: eight bytes of a float, the highest first; 3 + 2 * bytes: text; 4 + 2 * bytes: bytes
//! number:    seven bits a byte, the lowest first; the highest bit says that more follow
//! ```
//!
//! Names and statements are a number of bytes, and UTF-8.
//!
//! **Invariant**: reading never panics whatever the bytes are, and allocates nothing but the names of columns, of which a
//! table has at most [`COLUMNS_MAX`]. What a table contains is read where it lies.

mod reader;
mod writer;

use thiserror::Error;

use super::ReplicaFile;
pub(super) use reader::{ChangeReader, RowChange, TableChange};
pub(super) use writer::ChangeWriter;

/// The first byte of a change. Another version is not read.
pub const CHANGE_VERSION: u8 = 1;
/// SQLite's own limit.
pub const COLUMNS_MAX: usize = 2_000;

const END: u8 = 0;
const GONE: u8 = 1;
const ROW: u8 = 2;

const WHOLE: u8 = 1;
const SEQUENCE: u8 = 2;

/// The bytes are no change that this version writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the entry is not readable: {0}")]
pub struct MalformedChange(pub(super) &'static str);

/// What one transaction changed of one file, encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange(pub(super) Vec<u8>);

impl FileChange {
    /// Of bytes that [`part_of`] returned. All of it is read first, so that nobody meets an error halfway.
    ///
    /// # Errors
    /// They are no change of a file.
    pub fn from_bytes(part: &[u8]) -> Result<Self, MalformedChange> {
        check_part(part)?;
        Ok(Self(part.to_vec()))
    }
}

/// The change of one entry: of either file, or of both.
pub fn change(parts: &[(ReplicaFile, FileChange)]) -> Vec<u8> {
    let mut writer = ChangeWriter(vec![CHANGE_VERSION]);
    for file in ReplicaFile::ALL {
        for (_, part) in parts.iter().filter(|(of, _)| *of == file) {
            writer.0.reserve(part.0.len() + 11);
            writer.0.push(file.number());
            writer.number(part.0.len() as u64);
            writer.0.extend_from_slice(&part.0);
        }
    }
    writer.0
}

/// What an entry changes of a file; none: nothing. Files come in their order, so that a file that is named twice is
/// found without a list.
///
/// # Errors
/// The bytes are no change, or name a file twice.
pub fn part_of(change: &[u8], file: ReplicaFile) -> Result<Option<&[u8]>, MalformedChange> {
    let mut reader = ChangeReader(change);
    if reader.byte()? != CHANGE_VERSION {
        return Err(MalformedChange("it has another version"));
    }
    let (mut found, mut files) = (None, ReplicaFile::ALL.iter());
    while !reader.0.is_empty() {
        let number = reader.byte()?;
        let named = files.find(|one| one.number() == number);
        let named = *named.ok_or(MalformedChange("it names no file, or one twice"))?;
        let length = reader.length()?;
        let part = reader.bytes(length)?;
        if named == file {
            found = Some(part);
        }
    }
    Ok(found)
}

/// Reads all of a change, as [`Recorder::apply`](super::Recorder::apply) does, and says of how many rows it is.
///
/// # Errors
/// The bytes are no change.
pub fn check_change(change: &[u8]) -> Result<u64, MalformedChange> {
    let mut rows = 0;
    for file in ReplicaFile::ALL {
        if let Some(part) = part_of(change, file)? {
            rows += check_part(part)?;
        }
    }
    Ok(rows)
}

pub(super) fn check_part(part: &[u8]) -> Result<u64, MalformedChange> {
    let mut reader = ChangeReader(part);
    reader.number()?;
    for _ in 0..reader.length()? {
        reader.dropped()?;
    }
    for _ in 0..reader.length()? {
        reader.name()?;
    }
    let mut rows = 0;
    for _ in 0..reader.length()? {
        let table = reader.table()?;
        loop {
            match reader.row(&table)? {
                RowChange::End => break,
                RowChange::Gone => reader.skip(table.key)?,
                RowChange::Row => reader.skip(table.columns.len())?,
            }
            rows += 1;
        }
    }
    match reader.0.is_empty() {
        true => Ok(rows),
        false => Err(MalformedChange("something follows its end")),
    }
}
