//! Read keys: made, changed, revoked, deleted.
//!
//! **Invariant**: a key's text is in the answer that makes it and nowhere else. What was revoked is never valid again.

use std::sync::Arc;

use rusqlite::Connection as Database;

use super::check::{
    check_future, check_origins, check_own_description, check_own_name, check_range, check_streams,
    require_capacity, require_free, require_runtime_made,
};
use super::{Changed, audit_changed, audit_created, audit_deleted, set};
use crate::audit::{Actor, Change};
use crate::entries::Entries;
use crate::key::{KeyKind, KeyText, generate};
use crate::{Catalog, CatalogError, ReadKey, ResourceKind, schema};
use base::clock::Unix;
use settings::{Patch, RATE_MAX};

impl Catalog {
    /// Makes a read key. Its text is in the answer and nowhere else.
    pub fn create_read_key(
        &self,
        settings: settings::ReadKey,
        actor: &Actor,
    ) -> Changed<(KeyText, Arc<ReadKey>)> {
        check_own_name(&settings.name)?;
        check(&settings)?;
        let kind = match settings.operate {
            true => KeyKind::Operate,
            false => KeyKind::Read,
        };
        let text = generate(kind).map_err(CatalogError::Randomness)?;
        let settings = settings::ReadKey {
            streams: drop_repeats(settings.streams),
            ..settings
        };
        let key = ReadKey {
            prefix: Some(text.prefix().into()),
            ..ReadKey::new(settings, text.hash(), Some(Unix::now()))
        };
        check_future(key.expires_at)?;
        self.commit(actor, |database, entries| {
            require_free(
                ResourceKind::ReadKey,
                entries.read_keys.contains_key(&key.name),
            )?;
            require_capacity(entries.read_keys.len())?;
            check_streams(entries, &key.streams)?;
            schema::put_read_key(database, &key)?;
            let change = audit_created(ResourceKind::ReadKey, &key.name, key.shown());
            Ok(((), change))
        })?;
        Ok((text, Arc::new(key)))
    }

    /// Changes what a read key may do; its connections end, and come back with what it may do now, so that none shows
    /// what the key may not see any more.
    pub fn change_read_key(
        &self,
        name: &str,
        patch: &Patch,
        actor: &Actor,
    ) -> Changed<Arc<ReadKey>> {
        self.rewrite_read_key(name, "change", actor, |key, entries| {
            if key.revoked_at.is_some() {
                return Err(CatalogError::Revoked);
            }
            let mut settings = settings::ReadKey::clone(&key.settings);
            set(settings.set_all(patch))?;
            if patch.contains_key("streams") {
                settings.streams = drop_repeats(settings.streams);
                check_streams(entries, &settings.streams)?;
            }
            check(&settings)?;
            key.set(settings);
            Ok(())
        })
    }

    /// Revokes a read key, for good; it stays in the list, so that its requests are known as those of a revoked key.
    /// Once more changes nothing.
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
            let change = audit_deleted(ResourceKind::ReadKey, name, key.shown());
            Ok((Arc::clone(key), change))
        })
        .map(|(key, _)| key)
    }

    fn rewrite_read_key(
        &self,
        name: &str,
        action: &'static str,
        actor: &Actor,
        rewrite: impl Fn(&mut ReadKey, &Entries) -> Changed<()>,
    ) -> Changed<Arc<ReadKey>> {
        self.commit(actor, |database: &Database, entries| {
            let before = find_runtime_read_key(entries, name)?;
            let mut after = ReadKey::clone(before);
            rewrite(&mut after, entries)?;
            schema::put_read_key(database, &after)?;
            let change = Change {
                action,
                ..audit_changed(ResourceKind::ReadKey, name, before.shown(), after.shown())
            };
            Ok((Arc::new(after), change))
        })
        .map(|(key, _)| key)
    }
}

/// What can be set of a read key, but for its name.
fn check(settings: &settings::ReadKey) -> Changed<()> {
    check_own_description(settings.description.as_deref())?;
    let rate = settings.requests_per_second.map(u64::from);
    check_range("requests_per_second", rate, 1, RATE_MAX)?;
    check_origins(&settings.origins)
}

fn find_runtime_read_key<'a>(entries: &'a Entries, name: &str) -> Changed<&'a Arc<ReadKey>> {
    let found = entries.read_keys.get(name);
    let key = found.ok_or(CatalogError::NotFound(ResourceKind::ReadKey))?;
    require_runtime_made(ResourceKind::ReadKey, key.created_at).map(|()| key)
}

fn drop_repeats(names: Vec<String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}
