//! Writes the parts of a change.
//!
//! **Invariant**: what is written here, the reader reads as the same.

use rusqlite::types::ValueRef;

use super::{END, GONE, ROW, SEQUENCE, WHOLE};

/// Writes the bytes of a part.
#[derive(Debug, Default)]
pub(crate) struct ChangeWriter(pub(crate) Vec<u8>);

impl ChangeWriter {
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(crate) fn name(&mut self, name: &str) {
        self.number(name.len() as u64);
        self.0.extend_from_slice(name.as_bytes());
    }

    pub(crate) fn dropped(&mut self, is_table: bool, name: &str) {
        self.0.push(is_table.into());
        self.name(name);
    }

    /// Begins a table; its rows follow, then [`end`](Self::end).
    pub(crate) fn table(
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
    pub(crate) fn gone(&mut self) {
        self.0.push(GONE);
    }

    /// A value for each column follows.
    pub(crate) fn row(&mut self) {
        self.0.push(ROW);
    }

    pub(crate) fn end(&mut self) {
        self.0.push(END);
    }

    pub(crate) fn value(&mut self, value: ValueRef<'_>) {
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
