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
use crate::ingest_key::KeyRow;
use crate::{Catalog, CatalogError, KeyState, ReadKey, ResourceKind, Stream, schema};
use base::clock::Unix;
use settings::{Patch, check_stream_name};

impl Catalog {
    /// Makes a stream.
    ///
    /// # Errors
    /// See [`CatalogError`]; nothing was changed then. The same holds for all that follow.
    pub fn create_stream(&self, new: &Patch, actor: &Actor) -> Changed<Arc<Stream>> {
        let mut settings = settings::Stream::default();
        set(settings.set_all(new))?;
        let stream = build_stream(settings)?;
        self.commit_all(actor, |database, entries| {
            insert_stream(database, entries, stream.clone())
        })
        .map(|(stream, _)| stream)
    }

    /// How many streams of this name were deleted. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn deleted_streams(&self, name: &str) -> Changed<u64> {
        Ok(schema::deleted_streams(&self.store().connection, name)?)
    }

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

    /// Deletes a stream; its items stay in the pool. Without `force` no key may name it; with it, such keys stay, what they
    /// ask for is not found, and they end when a stream of this name is made again. A delete by mistake would otherwise
    /// stop every program with such a key.
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

/// Writes a stream. Keys of a stream that had its name and was deleted are not keys of this one: they are revoked, and read
/// keys lose it. A holder of an old key could otherwise read or write a stream that has only its name in common with
/// the old one.
pub(crate) fn insert_stream(
    database: &Database,
    entries: &Entries,
    mut stream: Stream,
) -> Changed<(Arc<Stream>, Vec<Change>)> {
    require_free(
        ResourceKind::Stream,
        entries.streams.contains_key(&stream.name),
    )?;
    require_capacity(entries.streams.len())?;
    stream.life = schema::deleted_streams(database, &stream.name)?;
    schema::put_stream(database, &stream)?;
    let created = audit_created(ResourceKind::Stream, &stream.name, shown(&stream));
    let mut changes = vec![created];
    if stream.life > 0 {
        revoke_keys(database, entries, &stream.name, &mut changes)?;
        revoke_read_keys(database, entries, &stream.name, &mut changes)?;
    }
    Ok((Arc::new(stream), changes))
}

/// Declared keys stay, because a change at run time never changes what is declared.
fn revoke_keys(
    database: &Database,
    entries: &Entries,
    stream: &str,
    changes: &mut Vec<Change>,
) -> Changed<()> {
    let keys = entries.connectors.values().flat_map(|one| &one.keys);
    for key in keys.filter(|key| *key.stream == *stream && key.created_at.is_some()) {
        let before = key.row();
        if before.revoked_at.is_some() {
            continue;
        }
        let after = KeyRow {
            revoked_at: Some(Unix::now()),
            ..before.clone()
        };
        schema::put_key(database, &after)?;
        changes.push(Change {
            action: "revoke",
            connector: Some(key.connector.to_string()),
            ..audit_changed(ResourceKind::Key, &key.name, before.shown(), after.shown())
        });
    }
    Ok(())
}

/// A read key with other streams stays, because it can still be used for those.
fn revoke_read_keys(
    database: &Database,
    entries: &Entries,
    stream: &str,
    changes: &mut Vec<Change>,
) -> Changed<()> {
    for key in entries.read_keys.values() {
        let is_named = key.streams.iter().any(|name| *name == *stream);
        if !is_named || key.created_at.is_none() || key.revoked_at.is_some() {
            continue;
        }
        let mut after = ReadKey::clone(key);
        let mut settings = settings::ReadKey::clone(&key.settings);
        settings.streams.retain(|name| *name != *stream);
        // One without a stream is of no use.
        if settings.streams.is_empty() {
            after.revoked_at = Some(Unix::now());
        } else {
            after.set(settings);
        }
        schema::put_read_key(database, &after)?;
        changes.push(Change {
            action: if after.revoked_at.is_some() {
                "revoke"
            } else {
                "change"
            },
            ..audit_changed(ResourceKind::ReadKey, &key.name, key.shown(), after.shown())
        });
    }
    Ok(())
}

fn find_runtime_stream<'a>(entries: &'a Entries, name: &str) -> Changed<&'a Arc<Stream>> {
    let found = entries.streams.get(name);
    let stream = found.ok_or(CatalogError::NotFound(ResourceKind::Stream))?;
    require_runtime_made(ResourceKind::Stream, stream.created_at).map(|()| stream)
}

/// Keys that can still be used and name the stream. Keys that have ended do not count, because deleting the stream
/// changes nothing for them.
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
