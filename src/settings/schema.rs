//! The whole configuration as one table of rows, and the largest values that it can have.
//!
//! Walked by the checker (unknown keys, types, ranges), by the environment (which variable is which setting) and by
//! `explain` (the order of rows). The rows are those of the records in `settings/`.
//!
//! **Invariant**: it names exactly the keys that [`Settings`](super::Settings) has: both are made of the same rows.

use super::Settings;
pub(super) use super::record::{Element, Field, Shape};

pub(super) const MIB: u64 = 1024 * 1024;
pub(super) const GIB: u64 = 1024 * MIB;
pub(super) const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// The largest `stale_after_seconds` of a stream.
pub const STALE_SECONDS_MAX: u64 = 365 * 24 * 60 * 60;
/// The largest rate and burst of a key.
pub const RATE_MAX: u64 = 1_000_000_000;
/// The most items that can be set for a stream.
pub const ITEMS_MAX: u64 = 1_000_000_000_000;
/// The most values of a field that can be kept.
pub(super) const HISTORY_MAX: u64 = 100;
/// The most bytes that can be set for a stream, or for a key to store in a second or a day.
pub const VOLUME_MAX: u64 = 8 * 1024 * GIB;

/// The most streams of a read key that is made at run time.
pub const KEY_STREAMS_MAX: usize = 1_000;
/// The most origins of one.
pub const KEY_ORIGINS_MAX: usize = 100;

/// The whole configuration.
pub(super) const ROOT: &[Field] = Settings::FIELDS;
