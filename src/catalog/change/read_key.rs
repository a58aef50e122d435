//! Read keys: made, changed, revoked, deleted.
//!
//! **Invariant**: a key's text is in the answer that makes it and nowhere else. What was revoked is never valid again.

use std::sync::Arc;

use rusqlite::Connection as Database;

use super::check::{
    check_future, check_origins, check_own_description, check_own_name, check_range, check_streams,
    require_capacity, require_free, require_runtime_made,
};
use super::{Changed, audit_changed, audit_created, audit_deleted, set_if_given};
use crate::catalog::audit::{Actor, Change};
use crate::catalog::entries::Entries;
use crate::catalog::key::{KeyKind, KeyText, generate};
use crate::catalog::{Catalog, CatalogError, Kind, ReadKey, schema};
use crate::clock::Unix;
use crate::config::{Networks, RATE_MAX};

/// A read key that is to be made.
#[derive(Debug, Clone)]
pub struct NewReadKey {
    /// 1 to 64 letters, digits, `_`, `.` or `-`.
    pub name: String,
    /// At most 200 characters.
    pub description: Option<String>,
    /// What it may read, at least one.
    pub streams: Vec<String>,
    /// When it ends.
    pub expires_at: Option<Unix>,
    /// Whether it may stand in a URL.
    pub allow_in_url: bool,
    /// From where it is taken.
    pub networks: Networks,
    /// How many feeds it may ask for in a second, if another number than usual.
    pub requests_per_second: Option<u32>,
    /// Origins whose pages may read with it.
    pub origins: Vec<String>,
}

/// What is to be changed of a read key.
#[derive(Debug, Clone, Default)]
pub struct ReadKeyPatch {
    /// As in [`NewReadKey`].
    pub description: Option<Option<String>>,
    /// As in [`NewReadKey`].
    pub streams: Option<Vec<String>>,
    /// As in [`NewReadKey`].
    pub expires_at: Option<Option<Unix>>,
    /// As in [`NewReadKey`].
    pub allow_in_url: Option<bool>,
    /// From where it is taken.
    pub networks: Option<Networks>,
    /// As in [`NewReadKey`].
    pub requests_per_second: Option<Option<u32>>,
    /// As in [`NewReadKey`].
    pub origins: Option<Vec<String>>,
}

/// Read keys.
impl Catalog {
    /// Makes a read key. Its text is in the answer and nowhere else.
    pub fn create_read_key(
        &self,
        new: NewReadKey,
        actor: &Actor,
    ) -> Changed<(KeyText, Arc<ReadKey>)> {
        check_own_name(&new.name)?;
        check_own_description(new.description.as_deref())?;
        check_future(new.expires_at)?;
        check_rate(new.requests_per_second)?;
        check_origins(&new.origins)?;
        let text = generate(KeyKind::Read).map_err(CatalogError::Randomness)?;
        let key = ReadKey {
            name: new.name.into(),
            description: new.description.map(Into::into),
            prefix: Some(text.prefix().into()),
            streams: drop_repeats(new.streams),
            expires_at: new.expires_at,
            revoked_at: None,
            allow_in_url: new.allow_in_url,
            networks: new.networks,
            requests_per_second: new.requests_per_second,
            origins: new.origins,
            created_at: Some(Unix::now()),
            hash: text.hash(),
        };
        let (key, _) = self.commit(actor, |database, entries| {
            require_free(Kind::ReadKey, entries.read_keys.contains_key(&key.name))?;
            require_capacity(entries.read_keys.len())?;
            check_streams(entries, &key.streams)?;
            schema::put_read_key(database, &key)?;
            let change = audit_created(Kind::ReadKey, &key.name, key.shown());
            Ok((key, change))
        })?;
        Ok((text, Arc::new(key)))
    }

    /// Changes what a read key may do; its connections end, and come back with what it may do now.
    pub fn change_read_key(
        &self,
        name: &str,
        patch: ReadKeyPatch,
        actor: &Actor,
    ) -> Changed<Arc<ReadKey>> {
        check_own_description(patch.description.as_ref().and_then(Option::as_deref))?;
        check_rate(patch.requests_per_second.flatten())?;
        check_origins(patch.origins.as_deref().unwrap_or_default())?;
        self.rewrite_read_key(name, "change", actor, |key, entries| {
            if key.revoked_at.is_some() {
                return Err(CatalogError::Revoked);
            }
            let description = patch.description.map(|one| one.map(Into::into));
            set_if_given(&mut key.description, description);
            if let Some(streams) = patch.streams {
                key.streams = drop_repeats(streams);
                check_streams(entries, &key.streams)?;
            }
            set_if_given(&mut key.expires_at, patch.expires_at);
            set_if_given(&mut key.allow_in_url, patch.allow_in_url);
            set_if_given(&mut key.networks, patch.networks);
            set_if_given(&mut key.requests_per_second, patch.requests_per_second);
            set_if_given(&mut key.origins, patch.origins);
            Ok(())
        })
    }

    /// Revokes a read key, for good; it stays in the list. Once more changes nothing.
    pub fn revoke_read_key(&self, name: &str, actor: &Actor) -> Changed<Arc<ReadKey>> {
        let now = Unix::now();
        self.rewrite_read_key(name, "revoke", actor, |key, _| {
            key.revoked_at.get_or_insert(now);
            Ok(())
        })
    }

    /// Deletes a read key, which is refused from now on.
    pub fn delete_read_key(&self, name: &str, actor: &Actor) -> Changed<Arc<ReadKey>> {
        self.commit(actor, |database, entries| {
            let key = find_runtime_read_key(entries, name)?;
            schema::delete_read_key(database, name)?;
            let change = audit_deleted(Kind::ReadKey, name, key.shown());
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
            let before = find_runtime_read_key(entries, name)?;
            let mut after = ReadKey::clone(before);
            rewrite(&mut after, entries)?;
            schema::put_read_key(database, &after)?;
            let change = Change {
                action,
                ..audit_changed(Kind::ReadKey, name, before.shown(), after.shown())
            };
            Ok((Arc::new(after), change))
        })
        .map(|(key, _)| key)
    }
}

fn check_rate(requests_per_second: Option<u32>) -> Changed<()> {
    let rate = requests_per_second.map(u64::from);
    check_range("requests_per_second", rate, 1, RATE_MAX)
}

fn find_runtime_read_key<'a>(entries: &'a Entries, name: &str) -> Changed<&'a Arc<ReadKey>> {
    let found = entries.read_keys.get(name);
    let key = found.ok_or(CatalogError::NotFound(Kind::ReadKey))?;
    require_runtime_made(Kind::ReadKey, key.created_at).map(|()| key)
}

fn drop_repeats(names: Vec<String>) -> Vec<Arc<str>> {
    let mut distinct: Vec<Arc<str>> = Vec::new();
    for name in names {
        if !distinct.iter().any(|other| **other == *name) {
            distinct.push(name.into());
        }
    }
    distinct
}
