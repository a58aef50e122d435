//! The numbers that order what is stored, each with a type of its own.
//!
//! All of them are whole numbers that begin near 1, so one that takes another's place would often seem right. The compiler
//! keeps them apart.
//!
//! **Invariant**: no number becomes one of another sequence. From and to plain numbers they go where files, programs and
//! tests have them: [`Seq::new`], [`Seq::get`] and their like.

use std::fmt;
use std::num::ParseIntError;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The highest number that a column of a database can hold.
const HIGHEST: u64 = i64::MAX.cast_unsigned();

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// From a number, as files, programs and tests write it.
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            /// The number, for files and programs.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// From a column of a database, whose numbers have a sign.
            pub const fn from_column(number: i64) -> Self {
                Self(number.unsigned_abs())
            }

            /// For a column of a database; what is too high for one is the highest that it can hold.
            pub const fn to_column(self) -> i64 {
                match self.0 {
                    0..=HIGHEST => self.0.cast_signed(),
                    _ => i64::MAX,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, formatter)
            }
        }
    };
}

/// A number of a sequence without an end: steps along it and distances are plain numbers.
macro_rules! sequence {
    ($(#[$doc:meta])* $name:ident) => {
        number! {
            $(#[$doc])*
            $name
        }

        impl $name {
            pub const MIN: Self = Self(0);
            pub const MAX: Self = Self(u64::MAX);
        }

        impl FromStr for $name {
            type Err = ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }

        impl Add<u64> for $name {
            type Output = Self;

            fn add(self, more: u64) -> Self {
                Self(self.0.saturating_add(more))
            }
        }

        impl AddAssign<u64> for $name {
            fn add_assign(&mut self, more: u64) {
                *self = *self + more;
            }
        }

        impl Sub<u64> for $name {
            type Output = Self;

            fn sub(self, less: u64) -> Self {
                Self(self.0.saturating_sub(less))
            }
        }

        /// How far `self` lies after the other one; 0 if it does not.
        impl Sub for $name {
            type Output = u64;

            fn sub(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }
        }
    };
}

sequence! {
    /// The number of an entry of the request log, the first is 1: of accepted ones the order in which sinks are handed them.
    Seq
}

sequence! {
    /// The number of a change of the pool, in one sequence over all streams. Numbers of different epochs do not compare.
    ChangeSeq
}

number! {
    /// A life of `pool.db`: drawn anew when a copy of it begins a life of its own. From 1 to 2^53 - 1, which pages read as
    /// a number; 0 is none yet.
    Epoch
}

/// The place of an operation in its entry. The first is 0.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ItemPosition(u32);

impl ItemPosition {
    pub const MIN: Self = Self(0);
    pub const MAX: Self = Self(u32::MAX);

    /// From a number, as files, programs and tests write it.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number, for files and programs.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Add<u32> for ItemPosition {
    type Output = Self;

    fn add(self, more: u32) -> Self {
        Self(self.0.saturating_add(more))
    }
}

/// How far `self` lies after the other one; 0 if it does not.
impl Sub for ItemPosition {
    type Output = u32;

    fn sub(self, earlier: Self) -> u32 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for ItemPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_end_where_numbers_do() {
        assert_eq!(Seq::new(7) + 1, Seq::new(8));
        assert_eq!(Seq::MAX + 1, Seq::MAX);
        assert_eq!(Seq::MIN - 1, Seq::MIN);
        assert_eq!(Seq::new(9) - Seq::new(2), 7);
        assert_eq!(Seq::new(2) - Seq::new(9), 0);
        assert_eq!(Seq::MAX.to_column(), i64::MAX);
        assert_eq!(Seq::from_column(7), Seq::new(7));
        assert_eq!(ItemPosition::MAX + 1, ItemPosition::MAX);
    }

    #[test]
    fn numbers_are_written_plainly() {
        assert_eq!(format!("{:>3}", Epoch::new(7)), "  7");
        let json = serde_json::to_string(&(ChangeSeq::new(7), ItemPosition::new(0)));
        assert_eq!(json.ok().as_deref(), Some("[7,0]"));
        let read: Result<(Seq, Epoch), _> = serde_json::from_str("[7,8]");
        assert_eq!(read.ok(), Some((Seq::new(7), Epoch::new(8))));
    }
}
