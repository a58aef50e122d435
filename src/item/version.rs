//! Versions of items: what a source says of how new an item is.
//!
//! `ingest` reads them, the journal stores them with the items, the pool compares them.
//!
//! **Invariant**: versions are compared exactly, and their bytes sort as they do.

use std::fmt;

use base::clock;

/// A number to six decimals, or a time to the nanosecond: millionths of a count, or nanoseconds since 1970. Numbers and
/// times share one scale, on which a number of milliseconds equals its time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
// An item with an alignment of 16 would be a third larger.
#[repr(Rust, packed(8))]
pub struct Version(i128);

impl Version {
    /// Bytes of a text that can be one.
    pub const TEXT_BYTES_MAX: usize = 64;
    pub const MIN: Self = Self(i128::MIN);

    /// The version that a text stands for: a number (`9`, `-1.50`, `1e3`), whose seventh decimal is rounded, or a time in
    /// RFC 3339. None: it is neither, or beyond 10^32.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > Self::TEXT_BYTES_MAX {
            return None;
        }
        let number = millionths(text);
        number.or_else(|| clock::nanos_of_rfc3339(text)).map(Self)
    }

    /// So many millionths of a count, or nanoseconds since 1970.
    pub const fn from_millionths(millionths: i128) -> Self {
        Self(millionths)
    }

    /// A version as it was stored before: thousandths of a count, or microseconds since 1970.
    pub const fn from_thousandths(thousandths: i64) -> Self {
        Self(thousandths as i128 * 1_000)
    }

    /// Millionths of a count, or nanoseconds since 1970.
    pub const fn millionths(self) -> i128 {
        self.0
    }

    /// Thousandths of a count, or microseconds since 1970: as much of it as 64 bits hold.
    pub fn thousandths(self) -> i64 {
        let thousandths = self.millionths().div_euclid(1_000);
        thousandths.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Bytes that sort as versions do.
    pub const fn to_bytes(self) -> [u8; 16] {
        (self.0 ^ i128::MIN).to_be_bytes()
    }

    /// The version with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(i128::from_be_bytes(bytes) ^ i128::MIN)
    }
}

/// The millionths of a number as JSON writes it, or as a text has it.
fn millionths(text: &str) -> Option<i128> {
    let (is_negative, number) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (number, exponent) = match number.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let digits = || whole.bytes().chain(decimals.bytes());
    if digits().next().is_none() || !digits().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // So many digits stand before the decimal point of millionths.
    let kept = i64::try_from(whole.len()).ok()? + i64::from(exponent) + 6;
    let mut value: i128 = 0;
    for (at, byte) in (0..).zip(digits()) {
        let digit = i128::from(byte - b'0');
        if at >= kept {
            value += i128::from(at == kept && digit >= 5);
            break;
        }
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    let zeros = kept - i64::try_from(whole.len() + decimals.len()).ok()?;
    if value != 0 && zeros > 0 {
        let factor = 10_i128.checked_pow(u32::try_from(zeros).ok()?)?;
        value = value.checked_mul(factor)?;
    }
    Some(if is_negative { -value } else { value })
}

/// The shortest decimal: `9`, `-1.5`, `1767607200000.000001`.
impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millionths = self.millionths();
        let sign = if millionths < 0 { "-" } else { "" };
        let size = millionths.unsigned_abs();
        let (whole, mut fraction, mut digits) = (size / 1_000_000, size % 1_000_000, 6);
        if fraction == 0 {
            return write!(formatter, "{sign}{whole}");
        }
        while fraction % 10 == 0 {
            (fraction, digits) = (fraction / 10, digits - 1);
        }
        write!(formatter, "{sign}{whole}.{fraction:0digits$}")
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Version({})", self.millionths())
    }
}

#[cfg(test)]
mod tests;
