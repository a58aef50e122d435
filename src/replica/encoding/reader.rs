//! Reads the parts of a change.
//!
//! **Invariant**: no length is trusted before as many bytes are there.

use rusqlite::types::ValueRef;

use super::{COLUMNS_MAX, END, GONE, MalformedChange, ROW, SEQUENCE, WHOLE};

/// Reads the bytes of a part, from where it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangeReader<'a>(pub(crate) &'a [u8]);

/// A table of a part; its rows are behind it.
#[derive(Debug)]
pub(crate) struct TableChange<'a> {
    pub(crate) name: &'a str,
    pub(crate) sequence: Option<i64>,
    pub(crate) columns: Vec<&'a str>,
    /// So many of the columns name a row; 0: the rows are all that the table has.
    pub(crate) key: usize,
}

/// What follows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowChange {
    Gone,
    Row,
    End,
}

impl<'a> ChangeReader<'a> {
    pub(super) fn byte(&mut self) -> Result<u8, MalformedChange> {
        let (first, rest) = (self.0.split_first()).ok_or(MalformedChange("it ends too early"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], MalformedChange> {
        let split = self.0.split_at_checked(length);
        let (bytes, rest) = split.ok_or(MalformedChange("it ends too early"))?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A longer form of a number is refused, so that equal changes have equal bytes and digests.
    pub(crate) fn number(&mut self) -> Result<u64, MalformedChange> {
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

    /// A number of things of which each takes a byte at least. A larger one is refused at once, so that no memory is
    /// taken for what is not there.
    pub(crate) fn length(&mut self) -> Result<usize, MalformedChange> {
        let length = usize::try_from(self.number()?).ok();
        length
            .filter(|length| *length <= self.0.len())
            .ok_or(MalformedChange("it ends too early"))
    }

    pub(crate) fn name(&mut self) -> Result<&'a str, MalformedChange> {
        let length = self.length()?;
        let name = std::str::from_utf8(self.bytes(length)?).ok();
        name.filter(|name| !name.is_empty() && !name.contains('\0'))
            .ok_or(MalformedChange("a name is no text"))
    }

    /// Whether it is a table, and its name.
    pub(crate) fn dropped(&mut self) -> Result<(bool, &'a str), MalformedChange> {
        let is_table = match self.byte()? {
            0 => false,
            1 => true,
            _ => return Err(MalformedChange("it drops what is no table and no index")),
        };
        Ok((is_table, self.name()?))
    }

    pub(crate) fn table(&mut self) -> Result<TableChange<'a>, MalformedChange> {
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
    pub(crate) fn row(&mut self, table: &TableChange<'_>) -> Result<RowChange, MalformedChange> {
        match self.byte()? {
            END => Ok(RowChange::End),
            GONE if table.key > 0 => Ok(RowChange::Gone),
            ROW => Ok(RowChange::Row),
            _ => Err(MalformedChange("a row is neither there nor gone")),
        }
    }

    pub(crate) fn value(&mut self) -> Result<ValueRef<'a>, MalformedChange> {
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
    pub(crate) fn skip(&mut self, values: usize) -> Result<(), MalformedChange> {
        (0..values).try_for_each(|_| self.value().map(drop))
    }
}
