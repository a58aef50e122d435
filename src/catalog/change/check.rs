//! What is checked before anything is made or changed.
//!
//! **Invariant**: what looks like a secret is refused wherever a text is wanted, and never repeated.

use super::Changed;
use crate::entries::Entries;
use crate::error::FieldError;
use crate::{CatalogError, ResourceKind};
use base::clock::Unix;
use settings::{
    KEY_ORIGINS_MAX, KEY_STREAMS_MAX, ValidationError, check_description, check_name, check_origin,
    invalid_text, nearest,
};

/// Streams, connectors, read keys, and keys of one connector, at most of each. Each change loads all of them again, and
/// lookups keep them in memory.
const COUNT_MAX: usize = 10_000;

/// Only what was made at run time may be changed. A changed declared one would be as declared again after the next
/// start.
pub(super) fn require_runtime_made(kind: ResourceKind, created_at: Option<Unix>) -> Changed<()> {
    created_at.map(drop).ok_or(CatalogError::Declared(kind))
}

pub(super) fn require_free(kind: ResourceKind, taken: bool) -> Changed<()> {
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
    check_text("name", name, check_name)?;
    check_addressable(name)
}

pub(super) fn check_own_description(description: Option<&str>) -> Changed<()> {
    let check = |text| check_text("description", text, check_description);
    description.map_or(Ok(()), check)
}

/// Origins as browsers send them.
pub(super) fn check_origins(origins: &[String]) -> Changed<()> {
    if origins.len() > KEY_ORIGINS_MAX {
        let error = ValidationError::Form(format!("a key has at most {KEY_ORIGINS_MAX} of them"));
        return Err(FieldError::from(error).of("origins"));
    }
    let mut each = origins.iter();
    each.try_for_each(|one| check_text("origins", one, check_origin))
}

/// A text that looks like a secret is refused, because lists and the audit log show it.
pub(super) fn check_text(
    field: &'static str,
    text: &str,
    check: fn(&str) -> Result<(), String>,
) -> Changed<()> {
    match invalid_text(text, check) {
        None => Ok(()),
        Some(error) => Err(FieldError::from(error).of(field)),
    }
}

/// Programs take these for the folder, or the one above it, in any URL. Nothing with such a name could be changed or
/// deleted over HTTP.
pub(super) fn check_addressable(name: &str) -> Changed<()> {
    match name {
        "." | ".." => Err(FieldError::Dots.of("name")),
        _ => Ok(()),
    }
}

/// A number lies within bounds, if it is given.
pub(super) fn check_range(
    field: &'static str,
    value: Option<u64>,
    min: u64,
    max: u64,
) -> Changed<()> {
    if value.is_some_and(|value| !(min..=max).contains(&value)) {
        return Err(FieldError::from(ValidationError::Range { min, max }).of(field));
    }
    Ok(())
}

/// A key that has already ended would be of no use.
pub(super) fn check_future(expires_at: Option<Unix>) -> Changed<()> {
    if expires_at.is_some_and(|expires_at| expires_at <= Unix::now()) {
        return Err(FieldError::Past.of("expires_at"));
    }
    Ok(())
}

/// The `field` of an ingest key names a stream that there is and that the daemon does not fill itself. Items of a key
/// would otherwise be mixed with the daemon's own problems.
pub(crate) fn check_stream(entries: &Entries, field: &'static str, name: &str) -> Changed<()> {
    if entries.streams.get(name).is_some_and(|one| one.is_built_in) {
        let message = "expected another stream: the daemon fills this one".to_owned();
        return Err(FieldError::from(ValidationError::Form(message)).of(field));
    }
    check_there_is(entries, field, name)
}

/// The error names a stream with a similar name, so that a misspelled name is noticed.
fn check_there_is(entries: &Entries, field: &'static str, name: &str) -> Changed<()> {
    if entries.streams.contains_key(name) {
        return Ok(());
    }
    let meant = nearest(name, entries.streams.keys().map(|name| &**name));
    let fault = FieldError::NoStream {
        name: name.to_owned(),
        meant: meant.map(str::to_owned),
    };
    Err(fault.of(field))
}

pub(super) fn check_streams(entries: &Entries, names: &[String]) -> Changed<()> {
    if !(1..=KEY_STREAMS_MAX).contains(&names.len()) {
        let max = KEY_STREAMS_MAX;
        return Err(FieldError::StreamCount { max }.of("streams"));
    }
    names
        .iter()
        .try_for_each(|name| check_there_is(entries, "streams", name))
}
