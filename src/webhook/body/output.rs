//! The bytes that decoding produces. Filled by every decoder of a body.
//!
//! **Invariant**: neither its length nor its capacity exceeds the limit.

use std::io;

use bytes::Bytes;

use super::DecodeError;

/// Bytes up to a limit. A plain vector would double its memory beyond the limit.
pub(super) struct Output {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Output {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            bytes_max,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// How many bytes may still come.
    pub(super) fn room(&self) -> usize {
        self.bytes_max - self.bytes.len()
    }

    /// Appends all of `bytes`, or nothing if they do not fit. Half of them would be damaged data.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        if bytes.len() > self.room() {
            return Err(DecodeError::TooLarge);
        }
        let len = self.bytes.len() + bytes.len();
        if len > self.bytes.capacity() {
            // Doubling alone would pass the limit by up to its own size.
            let capacity = len
                .max(self.bytes.capacity().saturating_mul(2))
                .min(self.bytes_max);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn into_bytes(self) -> Bytes {
        Bytes::from(self.bytes)
    }
}

/// Fails only when there is no room.
impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
