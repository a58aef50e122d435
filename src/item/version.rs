//! Versions of items: what a source says of how new an item is.
//!
//! `ingest` reads them, the journal stores them with the items, the pool compares them.
//!
//! **Invariant**: versions are compared exactly, and their bytes sort as they do.

use std::fmt;

/// A number to six decimals, or a time to the nanosecond: millionths of a count, or nanoseconds since 1970. Numbers and
/// times share one scale, on which a number of milliseconds equals its time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
// An item with an alignment of 16 would be a third larger.
#[repr(Rust, packed(8))]
pub struct Version(i128);

impl Version {
    /// The lowest one.
    pub const MIN: Self = Self(i128::MIN);

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
mod tests {
    use super::Version;

    #[test]
    fn bytes_sort_as_versions_do() {
        let all = [i128::MIN, -1_000_001, -1, 0, 1, 999, 1 << 64, i128::MAX];
        for pair in all.map(Version::from_millionths).windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
            assert!(pair[0].to_bytes() < pair[1].to_bytes(), "{pair:?}");
            assert_eq!(Version::from_bytes(pair[1].to_bytes()), pair[1]);
        }
    }

    #[test]
    fn a_version_is_written_as_the_shortest_decimal() {
        for (millionths, text) in [
            (0, "0"),
            (9_000_000, "9"),
            (-1_500_000, "-1.5"),
            (-1, "-0.000001"),
            (1_767_607_200_000_000_001_000_000, "1767607200000000001"),
            (1_700_000_000_001_000, "1700000000.001"),
        ] {
            assert_eq!(Version::from_millionths(millionths).to_string(), text);
        }
    }

    #[test]
    fn versions_of_before_keep_their_scale() {
        for thousandths in [i64::MIN, -7, 0, 1_500, i64::MAX] {
            let version = Version::from_thousandths(thousandths);
            assert_eq!(version.millionths(), i128::from(thousandths) * 1_000);
        }
        assert_eq!(size_of::<Option<Version>>(), 24);
    }
}
