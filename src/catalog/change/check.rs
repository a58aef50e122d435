//! What a wish is checked for before anything is written.
//!
//! **Invariant**: what looks like a secret is refused wherever a name is wanted, and never repeated.

use std::sync::Arc;

use super::Changed;
use crate::catalog::entries::Entries;
use crate::catalog::error::Fault;
use crate::catalog::{CatalogError, Connector, Kind};
use crate::clock;
use crate::config::{RATE_MAX, STALE_SECONDS_MAX, check_item_key, check_name, nearest};

/// Streams, connectors, read keys, and keys of one connector, at most of each.
const COUNT_MAX: usize = 10_000;
/// Streams of a read key, at most.
const STREAMS_OF_KEY_MAX: usize = 1_000;

/// Only what was made at run time may be changed.
pub(super) fn require_runtime_made(kind: Kind, created_ms: Option<u64>) -> Changed<()> {
    created_ms.map(drop).ok_or(CatalogError::Declared(kind))
}

pub(super) fn require_free(kind: Kind, taken: bool) -> Changed<()> {
    if taken {
        return Err(CatalogError::Taken(kind));
    }
    Ok(())
}

pub(super) fn require_capacity(count: usize) -> Changed<()> {
    if count >= COUNT_MAX {
        return Err(CatalogError::Full { max: COUNT_MAX });
    }
    Ok(())
}

/// Names of connectors and keys.
pub(super) fn check_own_name(name: &str) -> Changed<()> {
    check_no_secret("name", name)?;
    check_name(name).map_err(|wants| Fault::Form(wants).of("name"))?;
    check_addressable(name)
}

/// Programs take these for the folder, or the one above it, in any URL.
pub(super) fn check_addressable(name: &str) -> Changed<()> {
    match name {
        "." | ".." => Err(Fault::Dots.of("name")),
        _ => Ok(()),
    }
}

/// What looks like a key was pasted into the wrong place: it would be kept and shown.
pub(super) fn check_no_secret(field: &'static str, text: &str) -> Changed<()> {
    match looks_secret(text) {
        true => Err(Fault::Secret.of(field)),
        false => Ok(()),
    }
}

/// Whether a text begins like a key or a token, and so is kept and repeated nowhere.
pub fn looks_secret(text: &str) -> bool {
    let markers = ["ik_", "rk_", "at_"];
    markers.iter().any(|marker| text.starts_with(marker))
}

pub(super) fn check_stale(seconds: Option<u64>) -> Changed<()> {
    check_range("stale_after_seconds", seconds, 1, STALE_SECONDS_MAX)
}

pub(super) fn check_connector(connector: &Connector) -> Changed<()> {
    if let Some(field) = &connector.item_key {
        check_no_secret("item_key", field)?;
        check_item_key(field).map_err(|wants| Fault::Form(wants).of("item_key"))?;
    }
    let rate = connector.requests_per_second.map(u64::from);
    check_range("requests_per_second", rate, 1, RATE_MAX)?;
    check_range("burst", connector.burst.map(u64::from), 1, RATE_MAX)
}

/// A number lies within bounds, if it is given.
pub(super) fn check_range(
    field: &'static str,
    value: Option<u64>,
    min: u64,
    max: u64,
) -> Changed<()> {
    if value.is_some_and(|value| !(min..=max).contains(&value)) {
        return Err(Fault::Range { min, max }.of(field));
    }
    Ok(())
}

pub(super) fn check_future(expires_ms: Option<u64>) -> Changed<()> {
    if expires_ms.is_some_and(|expires_ms| expires_ms <= clock::unix_ms()) {
        return Err(Fault::Past.of("expires_at"));
    }
    Ok(())
}

/// The `field` of a wish names a stream that there is.
pub(in crate::catalog) fn check_stream(
    entries: &Entries,
    field: &'static str,
    name: &str,
) -> Changed<()> {
    if entries.streams.contains_key(name) {
        return Ok(());
    }
    let meant = nearest(name, entries.streams.keys().map(|name| &**name));
    let fault = Fault::NoStream {
        name: name.to_owned(),
        meant: meant.map(str::to_owned),
    };
    Err(fault.of(field))
}

pub(super) fn check_streams(entries: &Entries, names: &[Arc<str>]) -> Changed<()> {
    if !(1..=STREAMS_OF_KEY_MAX).contains(&names.len()) {
        let max = STREAMS_OF_KEY_MAX;
        return Err(Fault::StreamCount { max }.of("streams"));
    }
    names
        .iter()
        .try_for_each(|name| check_stream(entries, "streams", name))
}
