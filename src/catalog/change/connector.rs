//! Connectors: made, changed, deleted.
//!
//! **Invariant**: a connector is deleted with all its keys, or not at all.

use std::sync::Arc;

use rusqlite::Connection as Database;
use serde_json::Value;

use super::check::{
    check_connector, check_own_name, require_capacity, require_free, require_runtime_made,
};
use super::{Changed, audit_changed, audit_created, audit_deleted, set_if_given};
use crate::catalog::audit::{Actor, Change};
use crate::catalog::entries::Entries;
use crate::catalog::{Catalog, CatalogError, Connector, Kind, schema};
use crate::clock;
use crate::config::ConnectorKind;

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

/// Connectors.
impl Catalog {
    /// Makes a connector without keys.
    pub fn create_connector(&self, wish: ConnectorWish, actor: &Actor) -> Changed<Arc<Connector>> {
        let connector = build_connector(wish)?;
        self.commit(actor, |database, entries| {
            let change = insert_connector(database, entries, &connector)?;
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
            let before = find_runtime_connector(entries, id)?;
            let mut after = Connector::clone(before);
            set_if_given(&mut after.kind, change.kind);
            let item_key = change.item_key.map(|one| one.map(Into::into));
            set_if_given(&mut after.item_key, item_key);
            set_if_given(&mut after.may_delete, change.may_delete);
            set_if_given(&mut after.requests_per_second, change.requests_per_second);
            set_if_given(&mut after.burst, change.burst);
            check_connector(&after)?;
            schema::put_connector(database, &after)?;
            let change = audit_changed(Kind::Connector, id, before.shown(), after.shown());
            Ok((after, change))
        })?;
        // With its keys as they are now.
        let now = entries.connectors.get(id).cloned();
        Ok(now.unwrap_or_else(|| Arc::new(after)))
    }

    /// Deletes a connector and all its keys. The request log stays.
    pub fn delete_connector(&self, id: &str, actor: &Actor) -> Changed<Arc<Connector>> {
        self.commit(actor, |database, entries| {
            let connector = find_runtime_connector(entries, id)?;
            schema::delete_keys(database, id)?;
            schema::delete_connector(database, id)?;
            let mut before = connector.shown();
            let keys = connector.keys.iter().map(|key| key.row().shown());
            before["keys"] = Value::from_iter(keys);
            let change = audit_deleted(Kind::Connector, id, before);
            Ok((Arc::clone(connector), change))
        })
        .map(|(connector, _)| connector)
    }
}

pub(in crate::catalog) fn build_connector(wish: ConnectorWish) -> Changed<Connector> {
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

pub(in crate::catalog) fn insert_connector(
    database: &Database,
    entries: &Entries,
    connector: &Connector,
) -> Changed<Change> {
    let taken = entries.connectors.contains_key(&connector.name);
    require_free(Kind::Connector, taken)?;
    require_capacity(entries.connectors.len())?;
    // Keys of a declared connector of this name that is gone must not come back to life.
    schema::delete_keys(database, &connector.name)?;
    schema::put_connector(database, connector)?;
    Ok(audit_created(
        Kind::Connector,
        &connector.name,
        connector.shown(),
    ))
}

pub(super) fn find_connector<'a>(entries: &'a Entries, id: &str) -> Changed<&'a Arc<Connector>> {
    let found = entries.connectors.get(id);
    found.ok_or(CatalogError::NotFound(Kind::Connector))
}

fn find_runtime_connector<'a>(entries: &'a Entries, id: &str) -> Changed<&'a Arc<Connector>> {
    let connector = find_connector(entries, id)?;
    require_runtime_made(Kind::Connector, connector.created_ms).map(|()| connector)
}
