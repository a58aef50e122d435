//! Streams: made, changed, deleted.
//!
//! **Invariant**: a stream that keys name is deleted only by force.

use std::sync::Arc;

use rusqlite::Connection as Database;
use serde_json::Value;

use super::check::{
    check_addressable, check_text, require_capacity, require_free, require_runtime_made,
};
use super::{Changed, audit_changed, audit_created, audit_deleted, set};
use crate::audit::{Actor, Change};
use crate::entries::Entries;
use crate::error::NamedBy;
use crate::{Catalog, CatalogError, KeyState, ResourceKind, Stream, schema};
use base::clock::Unix;
use settings::{Patch, check_stream_name};

/// Streams.
impl Catalog {
    /// Makes a stream.
    ///
    /// # Errors
    /// See [`CatalogError`]; nothing was changed then. The same holds for all that follow.
    pub fn create_stream(&self, new: &Patch, actor: &Actor) -> Changed<Arc<Stream>> {
        let mut settings = settings::Stream::default();
        set(settings.set_all(new))?;
        let stream = build_stream(settings)?;
        self.commit(actor, |database, entries| {
            let change = insert_stream(database, entries, &stream)?;
            Ok((Arc::new(stream), change))
        })
        .map(|(stream, _)| stream)
    }

    /// Changes a stream.
    pub fn change_stream(&self, name: &str, patch: &Patch, actor: &Actor) -> Changed<Arc<Stream>> {
        self.commit(actor, |database, entries| {
            let before = find_runtime_stream(entries, name)?;
            let mut after = Stream::clone(before);
            set(after.settings.set_all(patch))?;
            schema::put_stream(database, &after)?;
            let change = audit_changed(ResourceKind::Stream, name, shown(before), shown(&after));
            Ok((Arc::new(after), change))
        })
        .map(|(stream, _)| stream)
    }

    /// Deletes a stream; its items stay in the pool. Without `force` no key may name it; with it, such keys stay and
    /// what they ask for is not found.
    pub fn delete_stream(&self, name: &str, force: bool, actor: &Actor) -> Changed<Arc<Stream>> {
        self.commit(actor, |database, entries| {
            let stream = find_runtime_stream(entries, name)?;
            let named_by = find_keys_naming(entries, name);
            if !named_by.is_empty() && !force {
                return Err(CatalogError::InUse(named_by));
            }
            schema::delete_stream(database, name)?;
            let change = audit_deleted(ResourceKind::Stream, name, shown(stream));
            Ok((Arc::clone(stream), change))
        })
        .map(|(stream, _)| stream)
    }
}

/// A stream with a name that can be made.
pub(crate) fn build_stream(settings: settings::Stream) -> Changed<Stream> {
    check_text("name", &settings.name, check_stream_name)?;
    check_addressable(&settings.name)?;
    Ok(Stream::new(settings, Some(Unix::now())))
}

pub(crate) fn insert_stream(
    database: &Database,
    entries: &Entries,
    stream: &Stream,
) -> Changed<Change> {
    require_free(
        ResourceKind::Stream,
        entries.streams.contains_key(&stream.name),
    )?;
    require_capacity(entries.streams.len())?;
    schema::put_stream(database, stream)?;
    Ok(audit_created(
        ResourceKind::Stream,
        &stream.name,
        shown(stream),
    ))
}

fn find_runtime_stream<'a>(entries: &'a Entries, name: &str) -> Changed<&'a Arc<Stream>> {
    let found = entries.streams.get(name);
    let stream = found.ok_or(CatalogError::NotFound(ResourceKind::Stream))?;
    require_runtime_made(ResourceKind::Stream, stream.created_at).map(|()| stream)
}

/// Keys that can still be used and name the stream.
fn find_keys_naming(entries: &Entries, stream: &str) -> Vec<NamedBy> {
    let keys = entries.connectors.values().flat_map(|one| &one.keys);
    let keys = keys.filter(|key| *key.stream == *stream && key.state() == KeyState::Active);
    let keys = keys.map(|key| NamedBy {
        connector: Some(key.connector.to_string()),
        key: key.name.to_string(),
    });
    let readers = entries.read_keys.values();
    let readers = readers.filter(|key| {
        key.streams.iter().any(|name| **name == *stream) && key.state() == KeyState::Active
    });
    let readers = readers.map(|key| NamedBy {
        connector: None,
        key: key.name.to_string(),
    });
    keys.chain(readers).collect()
}

/// For the audit log.
fn shown(stream: &Stream) -> Value {
    schema::shown(&stream.settings)
}
