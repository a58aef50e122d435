//! Ingest keys: made, changed, rotated, revoked, deleted.
//!
//! **Invariant**: a key's text is in the answer that makes it and nowhere else. What was revoked is never valid again.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection as Database;
use serde_json::json;

use super::check::{
    check_future, check_own_description, check_own_name, check_range, check_stream,
    require_capacity, require_free, require_runtime_made,
};
use super::connector::find_connector;
use super::{Changed, audit_changed, audit_created, audit_deleted, set};
use crate::audit::{Actor, Change};
use crate::entries::Entries;
use crate::error::FieldError;
use crate::ingest_key::KeyRow;
use crate::key::{self, KeyKind, KeyText, generate};
use crate::signing::hash_of;
use crate::{Catalog, CatalogError, Connector, IngestKey, KeyHash, KeyState, ResourceKind, schema};
use base::clock::{self, Unix};
use settings::{Patch, Secret, Verify};
use webhook::InvalidVerifier;

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

/// How a key is to be rotated.
#[derive(Debug, Clone, Default)]
pub struct Rotation {
    /// How long the old one stays.
    pub grace_seconds: u64,
    /// When the new one ends; if it is not said, when the old one would have.
    pub expires_at: Option<Option<Unix>>,
    /// What the tool signs with from now on, for a key that verifies signatures.
    pub secret: Option<Secret>,
}

/// Ingest keys.
impl Catalog {
    /// Makes a key. Its text, if it has one, is in the answer and nowhere else.
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

    /// Revokes a key, for good; it stays in the list. Once more changes nothing.
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

    /// Makes a new key of this name. The old one gets a name of its own, `<name>.<its public id>`, and ends after the
    /// grace. Returns the new key's text, the new key and the old one.
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

    /// Takes the secret that the key's tool has sent, which counts from now on; of a declared key it is only handed out.
    /// Returns it, which happens once.
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

/// What a key is found by, and shown by.
struct KeyForm {
    text: Option<KeyText>,
    hash: KeyHash,
    prefix: Arc<str>,
    verify: Option<Arc<Verify>>,
}

impl KeyForm {
    /// A key of our own making.
    fn generated(test: bool) -> Changed<Self> {
        let text = generate(match test {
            true => KeyKind::IngestTest,
            false => KeyKind::Ingest,
        })
        .map_err(CatalogError::Randomness)?;
        Ok(Self {
            hash: text.hash(),
            prefix: text.prefix().into(),
            text: Some(text),
            verify: None,
        })
    }
}

const NO_TEST: &str = "a key that verifies signatures cannot be a test key";
const MADE_HERE: &str =
    "only a key that verifies signatures has a given secret; the daemon creates this one";
const MADE_THERE: &str =
    "must be set: this key verifies signatures, and its tool creates the new secret";

const HAS_ONE: &str = "this key does not wait for a secret; to set another secret, rotate the key";
const NONE_CAME: &str = "the tool has not sent its secret, or not since the daemon started; create the webhook in the tool, or have it send the token again";

/// No other key has the secret of this one.
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

impl Catalog {
    pub(crate) fn build_key(&self, new: NewKey) -> Changed<(Option<KeyText>, KeyRow)> {
        let (key, connector) = (new.settings, new.connector);
        check_own_name(&key.name)?;
        check_own_description(key.description.as_deref())?;
        let expires_at = key.expires_at.as_deref().and_then(clock::parse_rfc3339);
        check_future(expires_at)?;
        let form = match key.verify {
            None => KeyForm::generated(new.test)?,
            Some(_) if new.test => return Err(FieldError::Secret(NO_TEST).of("verify")),
            Some(verify) => self.signed(verify, &connector, &key.name, &key.stream)?,
        };
        let row = KeyRow {
            connector: connector.into(),
            name: key.name.into(),
            description: key.description.map(Into::into),
            hash: form.hash,
            prefix: Some(form.prefix),
            stream: key.stream.into(),
            expires_at,
            revoked_at: None,
            created_at: Some(Unix::now()),
            allow_in_url: key.allow_in_url,
            networks: key.networks,
            verify: form.verify,
        };
        Ok((form.text, row))
    }

    /// A key in the form of a signing secret.
    fn signed(
        &self,
        verify: Verify,
        connector: &str,
        name: &str,
        stream: &str,
    ) -> Changed<KeyForm> {
        let verifier = verify
            .verifier()
            .map_err(|invalid| FieldError::from(invalid).of("verify"))?;
        if verifier.signs_url() && verifier.url().is_none() && self.public_url.is_none() {
            let message = "it signs the URL that the tool was given: set server.public_url in the configuration, or `url` here".to_owned();
            let invalid = InvalidVerifier {
                field: "scheme",
                message,
            };
            return Err(FieldError::from(invalid).of("verify"));
        }
        Ok(KeyForm {
            text: None,
            hash: hash_of(&verify, connector, name, stream),
            prefix: verify.shown().into(),
            verify: Some(Arc::new(verify)),
        })
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

/// A key that was just written.
pub(crate) fn reload_key(entries: &Entries, row: &KeyRow) -> Changed<Arc<IngestKey>> {
    let connector = find_connector(entries, &row.connector)?;
    let key = connector.key(&row.name).cloned();
    key.ok_or(CatalogError::NotFound(ResourceKind::Key))
}

/// A key that another takes the place of: it ends after the grace, or at once.
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

/// The name of a key that was rotated: its public id tells it from others.
fn name_rotated(key: &KeyRow) -> Box<str> {
    let prefix = key.prefix.as_deref().unwrap_or_default();
    let id = prefix.rsplit('_').next().unwrap_or_default();
    let kept = NAME_BYTES_MAX.saturating_sub(id.len() + 1);
    // Names are ASCII.
    let name = key.name.get(..kept).unwrap_or(&key.name);
    format!("{name}.{id}").into()
}
