//! Rotates a key: a new one takes its place, and the old one stays for a grace period.
//!
//! **Invariant**: the new key and the end of the old one are stored together.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{
    GRACE_SECONDS_MAX, KeyForm, MADE_HERE, MADE_THERE, NAME_BYTES_MAX, find_runtime_key,
    reload_key, require_candidate, require_own_secret,
};
use crate::audit::{Actor, Change};
use crate::change::check::{check_future, check_range, require_capacity};
use crate::change::connector::find_connector;
use crate::change::{Changed, audit_changed};
use crate::error::FieldError;
use crate::ingest_key::KeyRow;
use crate::key::KeyText;
use crate::{Catalog, CatalogError, IngestKey, KeyState, ResourceKind, key, schema};
use base::clock::Unix;
use settings::{Secret, Verify};

/// How a key is to be rotated.
#[derive(Debug, Clone, Default)]
pub struct Rotation {
    /// How long the old one stays. Programs that still have it have so long to take the new one.
    pub grace_seconds: u64,
    /// When the new one ends; if it is not said, when the old one would have. Twice optional, because the new one may
    /// be made without an end although the old one has one.
    pub expires_at: Option<Option<Unix>>,
    /// What the tool signs with from now on, for a key that verifies signatures.
    pub secret: Option<Secret>,
}

impl Catalog {
    /// Makes a new key of this name. The old one gets a name of its own, `<name>.<its public id>`, and ends after the
    /// grace. Returns the new key's text, the new key and the old one. The new one has the name instead of the old one,
    /// so that scripts that name the key find the one that counts.
    pub fn rotate_key(
        &self,
        connector: &str,
        name: &str,
        rotation: Rotation,
        actor: &Actor,
    ) -> Changed<(Option<KeyText>, Arc<IngestKey>, Arc<IngestKey>)> {
        let grace_seconds = Some(rotation.grace_seconds);
        check_range("grace_seconds", grace_seconds, 0, GRACE_SECONDS_MAX)?;
        check_future(rotation.expires_at.flatten())?;
        let now = Unix::now();
        let ((text, new, old), entries) = self.commit(actor, |database, entries| {
            let key = find_runtime_key(entries, connector, name)?;
            if key.state() == KeyState::Revoked {
                return Err(CatalogError::Revoked);
            }
            let before = key.row();
            let expires_at = rotation.expires_at.unwrap_or(before.expires_at);
            if expires_at.is_some_and(|ends_at| ends_at <= now) {
                return Err(FieldError::Ended.of("expires_at"));
            }
            require_capacity(self.connector(connector).map_or(0, |one| one.keys.len()))?;
            let test = before.prefix.as_deref().is_some_and(key::is_test);
            let form = match (&before.verify, rotation.secret.clone()) {
                (None, None) => KeyForm::generated(test)?,
                (Some(verify), secret @ Some(_)) => {
                    let verify = Verify {
                        secret,
                        ..Verify::clone(verify)
                    };
                    self.signed(verify, connector, name, &before.stream)?
                }
                (None, Some(_)) => return Err(FieldError::Secret(MADE_HERE).of("rotation")),
                (Some(_), None) => return Err(FieldError::Secret(MADE_THERE).of("rotation")),
            };
            let new = KeyRow {
                hash: form.hash,
                prefix: Some(form.prefix),
                verify: form.verify,
                expires_at,
                created_at: Some(now),
                ..before.clone()
            };
            require_own_secret(entries, &new)?;
            let text = form.text;
            // One without a secret has verified nothing.
            let grace_seconds = match key.awaits_secret() {
                true => 0,
                false => rotation.grace_seconds,
            };
            let old = rotated(&before, grace_seconds, now);
            // In its grace the old one is tried, too.
            if old.revoked_at.is_none() {
                require_candidate(find_connector(entries, connector)?, &old)?;
            }
            schema::put_key(database, &new)?;
            schema::put_key(database, &old)?;
            let after = json!({"new": new.shown(), "old": old.shown()});
            let change = Change {
                action: "rotate",
                connector: Some(connector.to_owned()),
                ..audit_changed(ResourceKind::Key, name, before.shown(), after)
            };
            Ok(((text, new, old), change))
        })?;
        Ok((
            text,
            reload_key(&entries, &new)?,
            reload_key(&entries, &old)?,
        ))
    }
}

/// A key that another takes the place of: it ends after the grace, or at once. The grace never moves an end to a later
/// time, because a key must not last longer by a rotation.
fn rotated(key: &KeyRow, grace_seconds: u64, now: Unix) -> KeyRow {
    let mut old = KeyRow {
        name: name_rotated(key),
        ..key.clone()
    };
    if grace_seconds == 0 {
        old.revoked_at = Some(now);
    } else {
        let ends_at = now + Duration::from_secs(grace_seconds);
        old.expires_at = Some(old.expires_at.map_or(ends_at, |other| other.min(ends_at)));
    }
    old
}

/// The name of a key that was rotated: its public id tells it from others. The name is cut where both together are too
/// long, so that every key can be rotated.
fn name_rotated(key: &KeyRow) -> Box<str> {
    let prefix = key.prefix.as_deref().unwrap_or_default();
    let id = prefix.rsplit('_').next().unwrap_or_default();
    let kept = NAME_BYTES_MAX.saturating_sub(id.len() + 1);
    // Names are ASCII.
    let name = key.name.get(..kept).unwrap_or(&key.name);
    format!("{name}.{id}").into()
}
