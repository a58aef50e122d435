//! Connectors: made, changed, deleted.
//!
//! **Invariant**: a connector is deleted with all its keys, or not at all.

use std::sync::Arc;

use rusqlite::Connection as Database;
use serde_json::Value;

use super::check::{
    check_addressable, check_text, require_capacity, require_free, require_runtime_made,
};
use super::{Changed, audit_changed, audit_created, audit_deleted, set};
use crate::audit::{Actor, Change};
use crate::entries::Entries;
use crate::{Catalog, CatalogError, Connector, ResourceKind, schema};
use base::clock::Unix;
use settings::{Patch, check_connector_name};

impl Catalog {
    /// Makes a connector without keys.
    pub fn create_connector(&self, new: &Patch, actor: &Actor) -> Changed<Arc<Connector>> {
        let connector = build_connector(new)?;
        self.commit(actor, |database, entries| {
            Ok(((), insert_connector(database, entries, &connector)?))
        })?;
        Ok(Arc::new(connector))
    }

    /// Changes a connector. What changed counts from the next request on; a changed rate begins with a full burst.
    pub fn change_connector(
        &self,
        id: &str,
        patch: &Patch,
        actor: &Actor,
    ) -> Changed<Arc<Connector>> {
        let (after, entries) = self.commit(actor, |database, entries| {
            let before = find_runtime_connector(entries, id)?;
            let mut after = Connector::clone(before);
            set(Arc::make_mut(&mut after.settings).set_all(patch))?;
            schema::put_connector(database, &after)?;
            let change = audit_changed(ResourceKind::Connector, id, shown(before), shown(&after));
            Ok((after, change))
        })?;
        // With its keys as they are now.
        let now = entries.connectors.get(id).cloned();
        Ok(now.unwrap_or_else(|| Arc::new(after)))
    }

    /// Deletes a connector and all its keys. The request log stays. The entry in the audit log contains the keys,
    /// because each of them is gone too.
    pub fn delete_connector(&self, id: &str, actor: &Actor) -> Changed<Arc<Connector>> {
        self.commit(actor, |database, entries| {
            let connector = find_runtime_connector(entries, id)?;
            schema::delete_keys(database, id)?;
            schema::delete_connector(database, id)?;
            let mut before = shown(connector);
            let keys = connector.keys.iter().map(|key| key.row().shown());
            before["keys"] = Value::from_iter(keys);
            let change = audit_deleted(ResourceKind::Connector, id, before);
            Ok((Arc::clone(connector), change))
        })
        .map(|(connector, _)| connector)
    }
}

pub(crate) fn build_connector(new: &Patch) -> Changed<Connector> {
    let mut settings = settings::Connector::default();
    set(settings.set_all(new))?;
    check_text("name", &settings.name, check_connector_name)?;
    check_addressable(&settings.name)?;
    Ok(Connector::new(settings, Some(Unix::now())))
}

pub(crate) fn insert_connector(
    database: &Database,
    entries: &Entries,
    connector: &Connector,
) -> Changed<Change> {
    let taken = entries.connectors.contains_key(&connector.name);
    require_free(ResourceKind::Connector, taken)?;
    require_capacity(entries.connectors.len())?;
    // Keys of a declared connector of this name that is gone must not come back to life.
    schema::delete_keys(database, &connector.name)?;
    schema::put_connector(database, connector)?;
    Ok(audit_created(
        ResourceKind::Connector,
        &connector.name,
        shown(connector),
    ))
}

pub(super) fn find_connector<'a>(entries: &'a Entries, id: &str) -> Changed<&'a Arc<Connector>> {
    let found = entries.connectors.get(id);
    found.ok_or(CatalogError::NotFound(ResourceKind::Connector))
}

fn find_runtime_connector<'a>(entries: &'a Entries, id: &str) -> Changed<&'a Arc<Connector>> {
    let connector = find_connector(entries, id)?;
    require_runtime_made(ResourceKind::Connector, connector.created_at).map(|()| connector)
}

/// For the audit log, without its keys.
fn shown(connector: &Connector) -> Value {
    schema::shown(&*connector.settings)
}
