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

use rusqlite::types::ValueRef;
use thiserror::Error;

use super::ReplicaFile;

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
    /// Of bytes that [`part_of`] returned.
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

/// What an entry changes of a file; none: nothing.
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

/// Writes the bytes of a part.
#[derive(Debug, Default)]
pub(super) struct ChangeWriter(pub(super) Vec<u8>);

impl ChangeWriter {
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn name(&mut self, name: &str) {
        self.number(name.len() as u64);
        self.0.extend_from_slice(name.as_bytes());
    }

    pub(super) fn dropped(&mut self, is_table: bool, name: &str) {
        self.0.push(is_table.into());
        self.name(name);
    }

    /// Begins a table; its rows follow, then [`end`](Self::end).
    pub(super) fn table(
        &mut self,
        name: &str,
        columns: &[String],
        key: usize,
        sequence: Option<i64>,
    ) {
        self.name(name);
        let whole = if key == 0 { WHOLE } else { 0 };
        let counted = if sequence.is_some() { SEQUENCE } else { 0 };
        self.0.push(whole | counted);
        if let Some(sequence) = sequence {
            self.number(sequence.cast_unsigned());
        }
        self.number(columns.len() as u64);
        self.number(key as u64);
        for column in columns {
            self.name(column);
        }
    }

    /// The values of a key follow.
    pub(super) fn gone(&mut self) {
        self.0.push(GONE);
    }

    /// A value for each column follows.
    pub(super) fn row(&mut self) {
        self.0.push(ROW);
    }

    pub(super) fn end(&mut self) {
        self.0.push(END);
    }

    pub(super) fn value(&mut self, value: ValueRef<'_>) {
        let (bytes, kind) = match value {
            ValueRef::Null => return self.number(0),
            ValueRef::Integer(integer) => {
                self.number(1);
                return self.number(((integer << 1) ^ (integer >> 63)).cast_unsigned());
            }
            ValueRef::Real(real) => {
                self.number(2);
                return self.0.extend_from_slice(&real.to_bits().to_be_bytes());
            }
            ValueRef::Text(bytes) => (bytes, 3),
            ValueRef::Blob(bytes) => (bytes, 4),
        };
        self.number(kind + 2 * bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

/// Reads the bytes of a part, from where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangeReader<'a>(pub(super) &'a [u8]);

/// A table of a part; its rows are behind it.
#[derive(Debug)]
pub(super) struct TableChange<'a> {
    pub(super) name: &'a str,
    pub(super) sequence: Option<i64>,
    pub(super) columns: Vec<&'a str>,
    /// So many of the columns name a row; 0: the rows are all that the table has.
    pub(super) key: usize,
}

/// What follows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowChange {
    Gone,
    Row,
    End,
}

impl<'a> ChangeReader<'a> {
    fn byte(&mut self) -> Result<u8, MalformedChange> {
        let (first, rest) = (self.0.split_first()).ok_or(MalformedChange("it ends too early"))?;
        self.0 = rest;
        Ok(*first)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], MalformedChange> {
        let split = self.0.split_at_checked(length);
        let (bytes, rest) = split.ok_or(MalformedChange("it ends too early"))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn number(&mut self) -> Result<u64, MalformedChange> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                // There is one way to write a number.
                let is_shortest = byte > 0 || shift == 0;
                return is_shortest
                    .then_some(number)
                    .ok_or(MalformedChange("a number is longer than it need be"));
            }
        }
        Err(MalformedChange("a number is too large"))
    }

    /// A number of things of which each takes a byte at least.
    pub(super) fn length(&mut self) -> Result<usize, MalformedChange> {
        let length = usize::try_from(self.number()?).ok();
        length
            .filter(|length| *length <= self.0.len())
            .ok_or(MalformedChange("it ends too early"))
    }

    pub(super) fn name(&mut self) -> Result<&'a str, MalformedChange> {
        let length = self.length()?;
        let name = std::str::from_utf8(self.bytes(length)?).ok();
        name.filter(|name| !name.is_empty() && !name.contains('\0'))
            .ok_or(MalformedChange("a name is no text"))
    }

    /// Whether it is a table, and its name.
    pub(super) fn dropped(&mut self) -> Result<(bool, &'a str), MalformedChange> {
        let is_table = match self.byte()? {
            0 => false,
            1 => true,
            _ => return Err(MalformedChange("it drops what is no table and no index")),
        };
        Ok((is_table, self.name()?))
    }

    pub(super) fn table(&mut self) -> Result<TableChange<'a>, MalformedChange> {
        let name = self.name()?;
        let flags = self.byte()?;
        if flags & !(WHOLE | SEQUENCE) != 0 {
            return Err(MalformedChange("a table has unknown flags"));
        }
        let sequence = (flags & SEQUENCE != 0).then(|| self.number()).transpose()?;
        let count = self.length()?;
        if count == 0 || count > COLUMNS_MAX {
            return Err(MalformedChange("a table has no columns, or too many"));
        }
        let key = self.length()?;
        if key > count || (key == 0) != (flags & WHOLE != 0) {
            return Err(MalformedChange("a table has another key than it says"));
        }
        let columns = (0..count).map(|_| self.name()).collect::<Result<_, _>>()?;
        Ok(TableChange {
            name,
            sequence: sequence.map(u64::cast_signed),
            columns,
            key,
        })
    }

    /// What follows; the values of a key of a row that is gone, or of a row, are next.
    pub(super) fn row(&mut self, table: &TableChange<'_>) -> Result<RowChange, MalformedChange> {
        match self.byte()? {
            END => Ok(RowChange::End),
            GONE if table.key > 0 => Ok(RowChange::Gone),
            ROW => Ok(RowChange::Row),
            _ => Err(MalformedChange("a row is neither there nor gone")),
        }
    }

    pub(super) fn value(&mut self) -> Result<ValueRef<'a>, MalformedChange> {
        let kind = self.number()?;
        Ok(match kind {
            0 => ValueRef::Null,
            1 => {
                let number = self.number()?;
                ValueRef::Integer((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
            }
            2 => {
                let bytes = self.bytes(8)?.try_into();
                let bytes = bytes.map_err(|_| MalformedChange("it ends too early"))?;
                ValueRef::Real(f64::from_bits(u64::from_be_bytes(bytes)))
            }
            _ => {
                let length = usize::try_from((kind - 3) / 2).unwrap_or(usize::MAX);
                let bytes = self.bytes(length)?;
                match kind % 2 {
                    1 => ValueRef::Text(bytes),
                    _ => ValueRef::Blob(bytes),
                }
            }
        })
    }

    /// Passes over values.
    pub(super) fn skip(&mut self, values: usize) -> Result<(), MalformedChange> {
        (0..values).try_for_each(|_| self.value().map(drop))
    }
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
