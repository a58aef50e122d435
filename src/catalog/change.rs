//! Changes at run time: what may be wanted, what is checked, what is written.
//!
//! The admin API and the admin pages call these; all of them block.
//!
//! **Invariant**: when a change returns, every lookup that begins later sees it, and it survives a power cut.
//! What is declared is never changed.

use std::sync::Arc;

use rusqlite::Connection as Database;
use serde_json::{Value, json};

use super::audit::{Actor, Change};
use super::connector::KeyRow;
use super::entries::Entries;
use super::key::{KeyKind, KeyText, generate};
use super::{Catalog, CatalogError, Connector, IngestKey, KeyState, Kind, ReadKey, Stream, schema};
use crate::clock;
use crate::config::{
    ConnectorKind, OnUpdate, RATE_MAX, STALE_SECONDS_MAX, check_item_key, check_name,
    check_stream_name, nearest, quoted,
};

/// Streams, connectors, read keys, and keys of one connector, at most of each.
const COUNT_MAX: usize = 10_000;
/// Streams of a read key, at most.
const STREAMS_OF_KEY_MAX: usize = 1_000;
/// Grace after a rotation, at most.
pub const GRACE_SECONDS_MAX: u64 = 30 * 86_400;
const NAME_BYTES_MAX: usize = 64;
/// Keys that a refusal names.
const NAMED_MAX: usize = 5;

/// A stream that is to be made.
#[derive(Debug, Clone)]
pub struct StreamWish {
    /// 1 to 128 characters, no control characters.
    pub name: String,
    /// What an update does to the fields that it does not name.
    pub on_update: OnUpdate,
    /// After so long without data, renderers are told that it is stale.
    pub stale_after_seconds: Option<u64>,
}

/// What is to be changed of a stream.
#[derive(Debug, Clone, Default)]
pub struct StreamChange {
    /// As in [`StreamWish`].
    pub on_update: Option<OnUpdate>,
    /// As in [`StreamWish`].
    pub stale_after_seconds: Option<Option<u64>>,
}

/// A connector that is to be made.
#[derive(Debug, Clone)]
pub struct ConnectorWish {
    /// 1 to 64 letters, digits, `_`, `.` or `-`.
    pub name: String,
    /// How its requests come.
    pub kind: ConnectorKind,
    /// The item key of requests without `X-Item-Key`.
    pub item_key: Option<String>,
    /// Whether its keys may remove items; none: as its kind says.
    pub may_delete: Option<bool>,
    /// Of each key; none: the limit for all.
    pub requests_per_second: Option<u32>,
    /// Likewise.
    pub burst: Option<u32>,
}

/// What is to be changed of a connector.
#[derive(Debug, Clone, Default)]
pub struct ConnectorChange {
    /// As in [`ConnectorWish`].
    pub kind: Option<ConnectorKind>,
    /// As in [`ConnectorWish`].
    pub item_key: Option<Option<String>>,
    /// As in [`ConnectorWish`].
    pub may_delete: Option<Option<bool>>,
    /// As in [`ConnectorWish`].
    pub requests_per_second: Option<Option<u32>>,
    /// As in [`ConnectorWish`].
    pub burst: Option<Option<u32>>,
}

/// An ingest key that is to be made.
#[derive(Debug, Clone)]
pub struct KeyWish {
    /// Its connector; it may be declared.
    pub connector: String,
    /// 1 to 64 letters, digits, `_`, `.` or `-`; unique within the connector.
    pub name: String,
    /// The one stream that it may submit to.
    pub stream: String,
    /// Whether what it submits is checked and logged only.
    pub test: bool,
    /// When it ends: Unix time in milliseconds.
    pub expires_ms: Option<u64>,
}

/// How a key is to be rotated.
#[derive(Debug, Clone, Default)]
pub struct Rotation {
    /// How long the old one stays.
    pub grace_seconds: u64,
    /// When the new one ends; if it is not said, when the old one would have.
    pub expires_ms: Option<Option<u64>>,
}

/// A read key that is to be made.
#[derive(Debug, Clone)]
pub struct ReadKeyWish {
    /// 1 to 64 letters, digits, `_`, `.` or `-`.
    pub name: String,
    /// What it may read, at least one.
    pub streams: Vec<String>,
    /// When it ends: Unix time in milliseconds.
    pub expires_ms: Option<u64>,
    /// Whether it may stand in a URL.
    pub allow_in_url: bool,
}

/// What is to be changed of a read key.
#[derive(Debug, Clone, Default)]
pub struct ReadKeyChange {
    /// As in [`ReadKeyWish`].
    pub streams: Option<Vec<String>>,
    /// As in [`ReadKeyWish`].
    pub expires_ms: Option<Option<u64>>,
    /// As in [`ReadKeyWish`].
    pub allow_in_url: Option<bool>,
}

pub(super) type Changed<T> = Result<T, CatalogError>;

/// Streams.
impl Catalog {
    /// Makes a stream.
    ///
    /// # Errors
    /// See [`CatalogError`]; nothing was changed then. The same holds for all that follow.
    pub fn create_stream(&self, wish: StreamWish, actor: &Actor) -> Changed<Arc<Stream>> {
        let stream = new_stream(wish)?;
        self.commit(actor, |database, entries| {
            let change = put_new_stream(database, entries, &stream)?;
            Ok((Arc::new(stream), change))
        })
        .map(|(stream, _)| stream)
    }

    /// Changes a stream.
    pub fn change_stream(
        &self,
        name: &str,
        change: StreamChange,
        actor: &Actor,
    ) -> Changed<Arc<Stream>> {
        check_stale(change.stale_after_seconds.flatten())?;
        self.commit(actor, |database, entries| {
            let before = own_stream(entries, name)?;
            let mut after = Stream::clone(before);
            replace(&mut after.on_update, change.on_update);
            replace(&mut after.stale_after_seconds, change.stale_after_seconds);
            schema::put_stream(database, &after)?;
            let change = changed(Kind::Stream, name, before.shown(), after.shown());
            Ok((Arc::new(after), change))
        })
        .map(|(stream, _)| stream)
    }

    /// Deletes a stream; its items stay in the pool. Without `force` no key may name it; with it, such keys stay and
    /// what they ask for is not found.
    pub fn delete_stream(&self, name: &str, force: bool, actor: &Actor) -> Changed<Arc<Stream>> {
        self.commit(actor, |database, entries| {
            let stream = own_stream(entries, name)?;
            let named_by = keys_naming(entries, name);
            if !named_by.is_empty() && !force {
                return Err(CatalogError::InUse(some_of(&named_by)));
            }
            schema::delete_stream(database, name)?;
            let change = deleted(Kind::Stream, name, stream.shown());
            Ok((Arc::clone(stream), change))
        })
        .map(|(stream, _)| stream)
    }
}

/// Connectors.
impl Catalog {
    /// Makes a connector without keys.
    pub fn create_connector(&self, wish: ConnectorWish, actor: &Actor) -> Changed<Arc<Connector>> {
        let connector = new_connector(wish)?;
        self.commit(actor, |database, entries| {
            let change = put_new_connector(database, entries, &connector)?;
            Ok((Arc::new(connector), change))
        })
        .map(|(connector, _)| connector)
    }

    /// Changes a connector. What changed counts from the next request on; a changed rate begins with a full burst.
    pub fn change_connector(
        &self,
        id: &str,
        change: ConnectorChange,
        actor: &Actor,
    ) -> Changed<Arc<Connector>> {
        let (after, entries) = self.commit(actor, |database, entries| {
            let before = own_connector(entries, id)?;
            let mut after = Connector::clone(before);
            replace(&mut after.kind, change.kind);
            let item_key = change.item_key.map(|one| one.map(Into::into));
            replace(&mut after.item_key, item_key);
            replace(&mut after.may_delete, change.may_delete);
            replace(&mut after.requests_per_second, change.requests_per_second);
            replace(&mut after.burst, change.burst);
            check_connector(&after)?;
            schema::put_connector(database, &after)?;
            let change = changed(Kind::Connector, id, before.shown(), after.shown());
            Ok((after, change))
        })?;
        // With its keys as they are now.
        let now = entries.connectors.get(id).cloned();
        Ok(now.unwrap_or_else(|| Arc::new(after)))
    }

    /// Deletes a connector and all its keys. The request log stays.
    pub fn delete_connector(&self, id: &str, actor: &Actor) -> Changed<Arc<Connector>> {
        self.commit(actor, |database, entries| {
            let connector = own_connector(entries, id)?;
            schema::delete_keys(database, id)?;
            schema::delete_connector(database, id)?;
            let mut before = connector.shown();
            let keys = connector.keys.iter().map(|key| key.row().shown());
            before["keys"] = Value::from_iter(keys);
            let change = deleted(Kind::Connector, id, before);
            Ok((Arc::clone(connector), change))
        })
        .map(|(connector, _)| connector)
    }
}

/// Ingest keys.
impl Catalog {
    /// Makes a key. Its text is in the answer and nowhere else.
    pub fn create_key(&self, wish: KeyWish, actor: &Actor) -> Changed<(KeyText, Arc<IngestKey>)> {
        let (text, row) = new_key(wish)?;
        let ((), entries) = self.commit(actor, |database, entries| {
            let connector = connector(entries, &row.connector)?;
            free(Kind::Key, connector.key(&row.name).is_some())?;
            room(connector.keys.len())?;
            check_stream(entries, "stream", &row.stream)?;
            Ok(((), put_new_key(database, &row)?))
        })?;
        Ok((text, key_now(&entries, &row)?))
    }

    /// Changes when a key ends.
    pub fn change_key(
        &self,
        connector: &str,
        name: &str,
        expires_ms: Option<Option<u64>>,
        actor: &Actor,
    ) -> Changed<Arc<IngestKey>> {
        self.rewrite_key(connector, name, "change", actor, |key| {
            if key.revoked_ms.is_some() {
                return Err(CatalogError::Revoked);
            }
            replace(&mut key.expires_ms, expires_ms);
            Ok(())
        })
    }

    /// Revokes a key, for good; it stays in the list. Once more changes nothing.
    pub fn revoke_key(
        &self,
        connector: &str,
        name: &str,
        actor: &Actor,
    ) -> Changed<Arc<IngestKey>> {
        let now_ms = clock::unix_ms();
        self.rewrite_key(connector, name, "revoke", actor, |key| {
            key.revoked_ms.get_or_insert(now_ms);
            Ok(())
        })
    }

    /// Makes a new key of this name. The old one gets a name of its own, `<name>.<its public id>`, and ends after the
    /// grace. Returns the new key's text, the new key and the old one.
    pub fn rotate_key(
        &self,
        connector: &str,
        name: &str,
        rotation: Rotation,
        actor: &Actor,
    ) -> Changed<(KeyText, Arc<IngestKey>, Arc<IngestKey>)> {
        if rotation.grace_seconds > GRACE_SECONDS_MAX {
            return Err(CatalogError::invalid(
                "grace_seconds",
                format!("grace_seconds must be from 0 to {GRACE_SECONDS_MAX}"),
            ));
        }
        check_future(rotation.expires_ms.flatten())?;
        let now_ms = clock::unix_ms();
        let ((text, new, old), entries) = self.commit(actor, |database, entries| {
            let key = own_key(entries, connector, name)?;
            if key.state() == KeyState::Revoked {
                return Err(CatalogError::Revoked);
            }
            let before = key.row();
            let expires_ms = rotation.expires_ms.unwrap_or(before.expires_ms);
            if expires_ms.is_some_and(|ends_ms| ends_ms <= now_ms) {
                return Err(CatalogError::invalid(
                    "expires_at",
                    "this key has expired; give expires_at, the end of the new one, or null for none",
                ));
            }
            room(self.connector(connector).map_or(0, |one| one.keys.len()))?;
            let test = before.prefix.as_deref().is_some_and(super::key::is_test);
            let text = generate(if test {
                KeyKind::IngestTest
            } else {
                KeyKind::Ingest
            })?;
            let new = KeyRow {
                hash: text.hash(),
                prefix: Some(text.prefix().into()),
                expires_ms,
                created_ms: Some(now_ms),
                ..before.clone()
            };
            let mut old = KeyRow {
                name: old_name(&before),
                ..before.clone()
            };
            if rotation.grace_seconds == 0 {
                old.revoked_ms = Some(now_ms);
            } else {
                let ends_ms = now_ms + rotation.grace_seconds * 1_000;
                old.expires_ms = Some(old.expires_ms.map_or(ends_ms, |other| other.min(ends_ms)));
            }
            schema::put_key(database, &new)?;
            schema::put_key(database, &old)?;
            let after = json!({"new": new.shown(), "old": old.shown()});
            let change = Change {
                action: "rotate",
                connector: Some(connector.to_owned()),
                ..changed(Kind::Key, name, before.shown(), after)
            };
            Ok(((text, new, old), change))
        })?;
        Ok((text, key_now(&entries, &new)?, key_now(&entries, &old)?))
    }

    /// Deletes a key, which is refused from now on.
    pub fn delete_key(
        &self,
        connector: &str,
        name: &str,
        actor: &Actor,
    ) -> Changed<Arc<IngestKey>> {
        self.commit(actor, |database, entries| {
            let key = own_key(entries, connector, name)?;
            schema::delete_key(database, connector, name)?;
            let change = Change {
                connector: Some(connector.to_owned()),
                ..deleted(Kind::Key, name, key.row().shown())
            };
            Ok((Arc::clone(key), change))
        })
        .map(|(key, _)| key)
    }

    fn rewrite_key(
        &self,
        connector: &str,
        name: &str,
        action: &'static str,
        actor: &Actor,
        rewrite: impl FnOnce(&mut KeyRow) -> Changed<()>,
    ) -> Changed<Arc<IngestKey>> {
        let (after, entries) = self.commit(actor, |database, entries| {
            let before = own_key(entries, connector, name)?.row();
            let mut after = before.clone();
            rewrite(&mut after)?;
            schema::put_key(database, &after)?;
            let change = Change {
                action,
                connector: Some(connector.to_owned()),
                ..changed(Kind::Key, name, before.shown(), after.shown())
            };
            Ok((after, change))
        })?;
        key_now(&entries, &after)
    }
}

/// Read keys.
impl Catalog {
    /// Makes a read key. Its text is in the answer and nowhere else.
    pub fn create_read_key(
        &self,
        wish: ReadKeyWish,
        actor: &Actor,
    ) -> Changed<(KeyText, Arc<ReadKey>)> {
        check_own_name(&wish.name)?;
        check_future(wish.expires_ms)?;
        let text = generate(KeyKind::Read)?;
        let key = ReadKey {
            name: wish.name.into(),
            prefix: Some(text.prefix().into()),
            streams: distinct(wish.streams),
            expires_ms: wish.expires_ms,
            revoked_ms: None,
            allow_in_url: wish.allow_in_url,
            created_ms: Some(clock::unix_ms()),
            hash: text.hash(),
        };
        let (key, _) = self.commit(actor, |database, entries| {
            free(Kind::ReadKey, entries.read_keys.contains_key(&key.name))?;
            room(entries.read_keys.len())?;
            check_streams(entries, &key.streams)?;
            schema::put_read_key(database, &key)?;
            let change = made(Kind::ReadKey, &key.name, key.shown());
            Ok((key, change))
        })?;
        Ok((text, Arc::new(key)))
    }

    /// Changes what a read key may do; its connections end, and come back with what it may do now.
    pub fn change_read_key(
        &self,
        name: &str,
        change: ReadKeyChange,
        actor: &Actor,
    ) -> Changed<Arc<ReadKey>> {
        self.rewrite_read_key(name, "change", actor, |key, entries| {
            if key.revoked_ms.is_some() {
                return Err(CatalogError::Revoked);
            }
            if let Some(streams) = change.streams {
                key.streams = distinct(streams);
                check_streams(entries, &key.streams)?;
            }
            replace(&mut key.expires_ms, change.expires_ms);
            replace(&mut key.allow_in_url, change.allow_in_url);
            Ok(())
        })
    }

    /// Revokes a read key, for good; it stays in the list. Once more changes nothing.
    pub fn revoke_read_key(&self, name: &str, actor: &Actor) -> Changed<Arc<ReadKey>> {
        let now_ms = clock::unix_ms();
        self.rewrite_read_key(name, "revoke", actor, |key, _| {
            key.revoked_ms.get_or_insert(now_ms);
            Ok(())
        })
    }

    /// Deletes a read key, which is refused from now on.
    pub fn delete_read_key(&self, name: &str, actor: &Actor) -> Changed<Arc<ReadKey>> {
        self.commit(actor, |database, entries| {
            let key = own_read_key(entries, name)?;
            schema::delete_read_key(database, name)?;
            let change = deleted(Kind::ReadKey, name, key.shown());
            Ok((Arc::clone(key), change))
        })
        .map(|(key, _)| key)
    }

    fn rewrite_read_key(
        &self,
        name: &str,
        action: &'static str,
        actor: &Actor,
        rewrite: impl FnOnce(&mut ReadKey, &Entries) -> Changed<()>,
    ) -> Changed<Arc<ReadKey>> {
        self.commit(actor, |database: &Database, entries| {
            let before = own_read_key(entries, name)?;
            let mut after = ReadKey::clone(before);
            rewrite(&mut after, entries)?;
            schema::put_read_key(database, &after)?;
            let change = Change {
                action,
                ..changed(Kind::ReadKey, name, before.shown(), after.shown())
            };
            Ok((Arc::new(after), change))
        })
        .map(|(key, _)| key)
    }
}

pub(super) fn new_stream(wish: StreamWish) -> Changed<Stream> {
    no_secret("name", &wish.name)?;
    check_stream_name(&wish.name).map_err(|message| CatalogError::invalid("name", message))?;
    check_addressable(&wish.name)?;
    check_stale(wish.stale_after_seconds)?;
    Ok(Stream {
        name: wish.name.into(),
        on_update: wish.on_update,
        stale_after_seconds: wish.stale_after_seconds,
        created_ms: Some(clock::unix_ms()),
    })
}

pub(super) fn put_new_stream(
    database: &Database,
    entries: &Entries,
    stream: &Stream,
) -> Changed<Change> {
    free(Kind::Stream, entries.streams.contains_key(&stream.name))?;
    room(entries.streams.len())?;
    schema::put_stream(database, stream)?;
    Ok(made(Kind::Stream, &stream.name, stream.shown()))
}

pub(super) fn new_connector(wish: ConnectorWish) -> Changed<Connector> {
    check_own_name(&wish.name)?;
    let connector = Connector {
        name: wish.name.into(),
        kind: wish.kind,
        item_key: wish.item_key.map(Into::into),
        may_delete: wish.may_delete,
        requests_per_second: wish.requests_per_second,
        burst: wish.burst,
        created_ms: Some(clock::unix_ms()),
        keys: Vec::new(),
    };
    check_connector(&connector)?;
    Ok(connector)
}

pub(super) fn put_new_connector(
    database: &Database,
    entries: &Entries,
    connector: &Connector,
) -> Changed<Change> {
    let taken = entries.connectors.contains_key(&connector.name);
    free(Kind::Connector, taken)?;
    room(entries.connectors.len())?;
    // Keys of a declared connector of this name that is gone must not come back to life.
    schema::delete_keys(database, &connector.name)?;
    schema::put_connector(database, connector)?;
    Ok(made(Kind::Connector, &connector.name, connector.shown()))
}

pub(super) fn new_key(wish: KeyWish) -> Changed<(KeyText, KeyRow)> {
    check_own_name(&wish.name)?;
    check_future(wish.expires_ms)?;
    let text = generate(if wish.test {
        KeyKind::IngestTest
    } else {
        KeyKind::Ingest
    })?;
    let row = KeyRow {
        connector: wish.connector.into(),
        name: wish.name.into(),
        hash: text.hash(),
        prefix: Some(text.prefix().into()),
        stream: wish.stream.into(),
        expires_ms: wish.expires_ms,
        revoked_ms: None,
        created_ms: Some(clock::unix_ms()),
    };
    Ok((text, row))
}

/// Writes a key whose connector and stream are there.
pub(super) fn put_new_key(database: &Database, row: &KeyRow) -> Changed<Change> {
    schema::put_key(database, row)?;
    Ok(Change {
        connector: Some(row.connector.to_string()),
        ..made(Kind::Key, &row.name, row.shown())
    })
}

fn replace<T>(value: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *value = new;
    }
}

fn made(kind: Kind, name: &str, after: Value) -> Change {
    Change {
        action: "create",
        kind,
        name: name.to_owned(),
        connector: None,
        before: None,
        after: Some(after),
    }
}

fn changed(kind: Kind, name: &str, before: Value, after: Value) -> Change {
    Change {
        action: "change",
        before: Some(before),
        ..made(kind, name, after)
    }
}

fn deleted(kind: Kind, name: &str, before: Value) -> Change {
    Change {
        action: "delete",
        before: Some(before),
        after: None,
        ..made(kind, name, Value::Null)
    }
}

fn own_stream<'a>(entries: &'a Entries, name: &str) -> Changed<&'a Arc<Stream>> {
    let found = entries.streams.get(name);
    let stream = found.ok_or(CatalogError::NotFound(Kind::Stream))?;
    own(Kind::Stream, stream.created_ms).map(|()| stream)
}

fn connector<'a>(entries: &'a Entries, id: &str) -> Changed<&'a Arc<Connector>> {
    let found = entries.connectors.get(id);
    found.ok_or(CatalogError::NotFound(Kind::Connector))
}

fn own_connector<'a>(entries: &'a Entries, id: &str) -> Changed<&'a Arc<Connector>> {
    let connector = connector(entries, id)?;
    own(Kind::Connector, connector.created_ms).map(|()| connector)
}

fn own_key<'a>(entries: &'a Entries, id: &str, name: &str) -> Changed<&'a Arc<IngestKey>> {
    let found = connector(entries, id)?.key(name);
    let key = found.ok_or(CatalogError::NotFound(Kind::Key))?;
    own(Kind::Key, key.created_ms).map(|()| key)
}

fn own_read_key<'a>(entries: &'a Entries, name: &str) -> Changed<&'a Arc<ReadKey>> {
    let found = entries.read_keys.get(name);
    let key = found.ok_or(CatalogError::NotFound(Kind::ReadKey))?;
    own(Kind::ReadKey, key.created_ms).map(|()| key)
}

/// Only what was made at run time may be changed.
fn own(kind: Kind, created_ms: Option<u64>) -> Changed<()> {
    created_ms.map(drop).ok_or(CatalogError::Declared(kind))
}

/// A key that was just written.
pub(super) fn key_now(entries: &Entries, row: &KeyRow) -> Changed<Arc<IngestKey>> {
    let connector = connector(entries, &row.connector)?;
    let key = connector.key(&row.name).cloned();
    key.ok_or(CatalogError::NotFound(Kind::Key))
}

fn free(kind: Kind, taken: bool) -> Changed<()> {
    if taken {
        return Err(CatalogError::Taken(kind));
    }
    Ok(())
}

fn room(count: usize) -> Changed<()> {
    if count >= COUNT_MAX {
        return Err(CatalogError::Full { max: COUNT_MAX });
    }
    Ok(())
}

/// Keys that can still be used and name the stream.
fn keys_naming(entries: &Entries, stream: &str) -> Vec<String> {
    let keys = entries.connectors.values().flat_map(|one| &one.keys);
    let keys = keys.filter(|key| *key.stream == *stream && key.state() == KeyState::Active);
    let keys = keys.map(|key| format!("{} of {}", quoted(&key.name), quoted(&key.connector)));
    let readers = entries.read_keys.values();
    let readers = readers.filter(|key| {
        key.streams.iter().any(|name| **name == *stream) && key.state() == KeyState::Active
    });
    let readers = readers.map(|key| format!("the read key {}", quoted(&key.name)));
    keys.chain(readers).collect()
}

fn some_of(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let some = names[..names.len() - more].join(", ");
    match more {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

/// The name of a key that was rotated: its public id tells it from others.
fn old_name(key: &KeyRow) -> Box<str> {
    let prefix = key.prefix.as_deref().unwrap_or_default();
    let id = prefix.rsplit('_').next().unwrap_or_default();
    let kept = NAME_BYTES_MAX.saturating_sub(id.len() + 1);
    // Names are ASCII.
    let name = key.name.get(..kept).unwrap_or(&key.name);
    format!("{name}.{id}").into()
}

fn distinct(names: Vec<String>) -> Vec<Arc<str>> {
    let mut distinct: Vec<Arc<str>> = Vec::new();
    for name in names {
        if !distinct.iter().any(|other| **other == *name) {
            distinct.push(name.into());
        }
    }
    distinct
}

/// Names of connectors and keys.
fn check_own_name(name: &str) -> Changed<()> {
    no_secret("name", name)?;
    check_name(name).map_err(|message| CatalogError::invalid("name", format!("name {message}")))?;
    check_addressable(name)
}

/// Programs take these for the folder, or the one above it, in any URL.
fn check_addressable(name: &str) -> Changed<()> {
    if matches!(name, "." | "..") {
        let message = "name must be more than \".\" or \"..\", which cannot stand in a URL";
        return Err(CatalogError::invalid("name", message));
    }
    Ok(())
}

/// What looks like a key was pasted into the wrong place: it would be kept and shown.
fn no_secret(field: &'static str, text: &str) -> Changed<()> {
    if looks_secret(text) {
        return Err(CatalogError::invalid(
            field,
            format!(
                "{field} begins like a secret (ik_, rk_, at_), which it must not; nothing was kept of it"
            ),
        ));
    }
    Ok(())
}

/// Whether a text begins like a key or a token, and so is kept and repeated nowhere.
pub fn looks_secret(text: &str) -> bool {
    let markers = ["ik_", "rk_", "at_"];
    markers.iter().any(|marker| text.starts_with(marker))
}

fn check_stale(seconds: Option<u64>) -> Changed<()> {
    if seconds.is_some_and(|seconds| !(1..=STALE_SECONDS_MAX).contains(&seconds)) {
        return Err(CatalogError::invalid(
            "stale_after_seconds",
            format!("stale_after_seconds must be from 1 to {STALE_SECONDS_MAX}, or null for never"),
        ));
    }
    Ok(())
}

fn check_connector(connector: &Connector) -> Changed<()> {
    if let Some(field) = &connector.item_key {
        no_secret("item_key", field)?;
        check_item_key(field)
            .map_err(|message| CatalogError::invalid("item_key", format!("item_key {message}")))?;
    }
    for (name, value) in [
        ("requests_per_second", connector.requests_per_second),
        ("burst", connector.burst),
    ] {
        if value.is_some_and(|value| !(1..=RATE_MAX).contains(&u64::from(value))) {
            return Err(CatalogError::invalid(
                name,
                format!("{name} must be from 1 to {RATE_MAX}, or null for the limit of all keys"),
            ));
        }
    }
    Ok(())
}

fn check_future(expires_ms: Option<u64>) -> Changed<()> {
    if expires_ms.is_some_and(|expires_ms| expires_ms <= clock::unix_ms()) {
        return Err(CatalogError::invalid(
            "expires_at",
            "expires_at has passed already; give a time to come, or leave it out",
        ));
    }
    Ok(())
}

/// The `field` of a wish names a stream that there is.
pub(super) fn check_stream(entries: &Entries, field: &'static str, name: &str) -> Changed<()> {
    if entries.streams.contains_key(name) {
        return Ok(());
    }
    let hint = match nearest(name, entries.streams.keys().map(|name| &**name)) {
        Some(meant) => format!("did you mean {}?", quoted(meant)),
        None => "create it first, /api/admin/streams lists those that there are".to_owned(),
    };
    let message = format!("there is no stream {}; {hint}", quoted(name));
    Err(CatalogError::invalid(field, message))
}

fn check_streams(entries: &Entries, names: &[Arc<str>]) -> Changed<()> {
    if !(1..=STREAMS_OF_KEY_MAX).contains(&names.len()) {
        return Err(CatalogError::invalid(
            "streams",
            format!("streams must name 1 to {STREAMS_OF_KEY_MAX} streams"),
        ));
    }
    names
        .iter()
        .try_for_each(|name| check_stream(entries, "streams", name))
}
