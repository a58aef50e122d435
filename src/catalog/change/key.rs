//! Ingest keys: made, changed, rotated, revoked, deleted.
//!
//! **Invariant**: a key's text is in the answer that makes it and nowhere else. What was revoked is never valid again.

mod build;
mod rotate;

use std::sync::Arc;

use rusqlite::Connection as Database;

use super::check::{check_stream, require_capacity, require_free, require_runtime_made};
use super::connector::find_connector;
use super::{Changed, audit_changed, audit_created, audit_deleted, set};
use crate::audit::{Actor, Change};
use crate::entries::Entries;
use crate::error::FieldError;
use crate::ingest_key::KeyRow;
use crate::key::KeyText;
use crate::{Catalog, CatalogError, Connector, IngestKey, KeyState, ResourceKind, schema};
use base::clock::{self, Unix};
use build::{KeyForm, MADE_HERE, MADE_THERE};
pub use rotate::Rotation;
use settings::{Patch, Secret, Verify};

/// Grace after a rotation, at most.
pub const GRACE_SECONDS_MAX: u64 = 30 * 86_400;
const NAME_BYTES_MAX: usize = 64;

/// An ingest key that is to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Its connector; it may be declared.
    pub connector: String,
    /// What can be set of it; a secret of its own is made here.
    pub settings: settings::Key,
    /// Whether what it submits is checked and logged only.
    pub test: bool,
}

/// Ingest keys.
impl Catalog {
    /// Makes a key. Its text, if it has one, is in the answer and nowhere else. Only its digest is stored, so that
    /// nobody can show it again.
    pub fn create_key(
        &self,
        new: NewKey,
        actor: &Actor,
    ) -> Changed<(Option<KeyText>, Arc<IngestKey>)> {
        let (text, row) = self.build_key(new)?;
        let ((), entries) = self.commit(actor, |database, entries| {
            require_own_secret(entries, &row)?;
            let connector = find_connector(entries, &row.connector)?;
            require_candidate(connector, &row)?;
            require_free(ResourceKind::Key, connector.key(&row.name).is_some())?;
            require_capacity(connector.keys.len())?;
            check_stream(entries, "stream", &row.stream)?;
            Ok(((), insert_key(database, &row)?))
        })?;
        Ok((text, reload_key(&entries, &row)?))
    }

    /// Changes a key: what is said of it, when it ends.
    pub fn change_key(
        &self,
        connector: &str,
        name: &str,
        patch: &Patch,
        actor: &Actor,
    ) -> Changed<Arc<IngestKey>> {
        self.rewrite_key(connector, name, "change", actor, |key| {
            if key.revoked_at.is_some() {
                return Err(CatalogError::Revoked);
            }
            let mut settings = key.settings();
            set(settings.set_all(patch))?;
            key.description = settings.description.map(Into::into);
            key.expires_at = settings
                .expires_at
                .as_deref()
                .and_then(clock::parse_rfc3339);
            key.allow_in_url = settings.allow_in_url;
            key.networks = settings.networks;
            Ok(())
        })
    }

    /// Revokes a key, for good; it stays in the list. Once more changes nothing. It stays, so that requests with it are
    /// refused by its name and an operator finds the program that sends them.
    pub fn revoke_key(
        &self,
        connector: &str,
        name: &str,
        actor: &Actor,
    ) -> Changed<Arc<IngestKey>> {
        let now = Unix::now();
        self.rewrite_key(connector, name, "revoke", actor, |key| {
            key.revoked_at.get_or_insert(now);
            Ok(())
        })
    }

    /// Takes the secret that the key's tool has sent, which counts from now on; of a declared key it is only handed out.
    /// Returns it, which happens once. Of a declared key nothing is stored, because the configuration has its settings.
    pub fn take_secret(
        &self,
        connector: &str,
        name: &str,
        actor: &Actor,
    ) -> Changed<(KeyText, Arc<IngestKey>)> {
        let ((text, taken), entries) = self.commit(actor, |database, entries| {
            let found = find_connector(entries, connector)?.key(name);
            let key = found.ok_or(CatalogError::NotFound(ResourceKind::Key))?;
            if key.state() == KeyState::Revoked {
                return Err(CatalogError::Revoked);
            }
            if !key.awaits_secret() {
                return Err(CatalogError::NoneSent(HAS_ONE));
            }
            let sent = key.signing.as_ref().and_then(|one| one.sent.text());
            let text = sent.ok_or(CatalogError::NoneSent(NONE_CAME))?;
            let before = key.row();
            let mut after = before.clone();
            if let (Some(verify), Some(_)) = (&before.verify, before.created_at) {
                let mut verify = Verify::clone(verify);
                verify.secret = Some(Secret::new(text.expose()));
                let form = self.signed(verify, connector, name, &before.stream)?;
                after.hash = form.hash;
                after.prefix = Some(form.prefix);
                after.verify = form.verify;
                require_own_secret(entries, &after)?;
                schema::put_key(database, &after)?;
            }
            let change = Change {
                action: "take-secret",
                connector: Some(connector.to_owned()),
                ..audit_changed(ResourceKind::Key, name, before.shown(), after.shown())
            };
            Ok(((text, Arc::clone(key)), change))
        })?;
        if let Some(signing) = &taken.signing {
            signing.sent.forget();
        }
        Ok((text, reload_key(&entries, &taken.row())?))
    }

    /// Deletes a key, which is refused from now on.
    pub fn delete_key(
        &self,
        connector: &str,
        name: &str,
        actor: &Actor,
    ) -> Changed<Arc<IngestKey>> {
        self.commit(actor, |database, entries| {
            let key = find_runtime_key(entries, connector, name)?;
            schema::delete_key(database, connector, name)?;
            let change = Change {
                connector: Some(connector.to_owned()),
                ..audit_deleted(ResourceKind::Key, name, key.row().shown())
            };
            Ok((Arc::clone(key), change))
        })
        .map(|(key, _)| key)
    }

    /// The number of signing keys is checked here too, because a later end may make an expired one valid again.
    fn rewrite_key(
        &self,
        connector: &str,
        name: &str,
        action: &'static str,
        actor: &Actor,
        rewrite: impl Fn(&mut KeyRow) -> Changed<()>,
    ) -> Changed<Arc<IngestKey>> {
        let (after, entries) = self.commit(actor, |database, entries| {
            let before = find_runtime_key(entries, connector, name)?.row();
            let mut after = before.clone();
            rewrite(&mut after)?;
            if after.revoked_at.is_none() {
                require_candidate(find_connector(entries, connector)?, &after)?;
            }
            schema::put_key(database, &after)?;
            let change = Change {
                action,
                connector: Some(connector.to_owned()),
                ..audit_changed(ResourceKind::Key, name, before.shown(), after.shown())
            };
            Ok((after, change))
        })?;
        reload_key(&entries, &after)
    }
}

const HAS_ONE: &str = "this key does not wait for a secret; to set another secret, rotate the key";
const NONE_CAME: &str = "the tool has not sent its secret, or not since the daemon started; create the webhook in the tool, or have it send the token again";

/// No other key has the secret of this one. A delivery is assigned to the key whose secret has signed it; with two it
/// could be either.
pub(crate) fn require_own_secret(entries: &Entries, row: &KeyRow) -> Changed<()> {
    let mut keys = entries.connectors.values().flat_map(|one| &one.keys);
    match row.verify.is_some() && keys.any(|key| key.row().hash == row.hash) {
        true => Err(FieldError::SameSecret.of("verify")),
        false => Ok(()),
    }
}

/// One delivery is tried with every secret that may have signed it, and so there are few.
fn require_candidate(connector: &Connector, row: &KeyRow) -> Changed<()> {
    let signing = connector.signing_keys(&row.stream, Unix::now());
    let others = signing.iter().filter(|key| key.name != row.name);
    match row.verify.is_some() && others.count() >= webhook::CANDIDATES_MAX {
        true => Err(FieldError::Candidates.of("verify")),
        false => Ok(()),
    }
}

/// Writes a key whose connector and stream are there.
pub(crate) fn insert_key(database: &Database, row: &KeyRow) -> Changed<Change> {
    schema::put_key(database, row)?;
    Ok(Change {
        connector: Some(row.connector.to_string()),
        ..audit_created(ResourceKind::Key, &row.name, row.shown())
    })
}

fn find_runtime_key<'a>(entries: &'a Entries, id: &str, name: &str) -> Changed<&'a Arc<IngestKey>> {
    let found = find_connector(entries, id)?.key(name);
    let key = found.ok_or(CatalogError::NotFound(ResourceKind::Key))?;
    require_runtime_made(ResourceKind::Key, key.created_at).map(|()| key)
}

/// A key that was just written. It is taken from the lookups instead of the row, so that the answer contains the object
/// that requests use.
pub(crate) fn reload_key(entries: &Entries, row: &KeyRow) -> Changed<Arc<IngestKey>> {
    let connector = find_connector(entries, &row.connector)?;
    let key = connector.key(&row.name).cloned();
    key.ok_or(CatalogError::NotFound(ResourceKind::Key))
}
