//! A signed-in user, and the message and key for the next page.
//!
//! **Invariant**: a kept message and a kept key are returned once, to their session.

use std::sync::Arc;
use std::time::Duration;

use salvo_core::Depot;
use uuid::Uuid;

use super::{Sessions, SignedIn};
use base::clock::{Lived, Unix};
use catalog::KeyHash;
use catalog::key::KeyText;
use operate::access::Token;

/// Maximum time that a new key is kept for the page that shows it.
pub(super) const ISSUED_KEPT: Duration = Duration::from_mins(5);

/// A session of the admin pages.
#[derive(Debug, Clone)]
pub struct Visitor {
    sessions: Arc<Sessions>,
    /// Digest of the session's secret.
    id: KeyHash,
    /// The token of the sign-in, in its current state.
    pub token: Arc<Token>,
    /// The token that every form of this session must contain.
    pub form_token: Arc<str>,
}

/// A new key, for the one page that shows it.
#[derive(Debug)]
pub struct IssuedKey {
    /// Path and query of that page.
    pub path: String,
    /// Name of the key.
    pub key: String,
    /// The key itself.
    pub secret: KeyText,
    /// After a rotation: the name of the previous key, and its expiry.
    pub previous: Option<(String, Unix)>,
}

impl IssuedKey {
    /// A key without a previous one.
    pub fn new(path: String, key: &str, secret: KeyText) -> Self {
        Self {
            path,
            key: key.to_owned(),
            secret,
            previous: None,
        }
    }
}

impl Sessions {
    /// The visitor with this session secret.
    pub fn visitor(self: &Arc<Self>, secret: &str) -> Option<Visitor> {
        let id = KeyHash::of(secret);
        let mut state = self.lock();
        self.forget_ended(&mut state);
        let session = state.sessions.get_mut(&id)?;
        session.seen_at = Unix::now();
        Some(Visitor {
            sessions: Arc::clone(self),
            id,
            token: self.access.with_hash(session.token)?,
            form_token: Arc::clone(&session.form_token),
        })
    }
}

impl Visitor {
    /// The signed-in user of a page that requires a session.
    pub fn of(depot: &Depot) -> Option<&Self> {
        depot.get_typed::<Self>().ok()
    }

    /// Ends the session and returns it, if it still exists.
    pub fn sign_out(&self) -> Option<SignedIn> {
        let session = self.sessions.lock().sessions.remove(&self.id)?;
        self.sessions.shown(&session)
    }

    /// The ID of the session in lists.
    pub fn session(&self) -> Option<Uuid> {
        let state = self.sessions.lock();
        state.sessions.get(&self.id).map(|session| session.id)
    }

    /// Keeps a message for the next page of the visitor.
    pub fn set_flash(&self, sentence: String) {
        if let Some(session) = self.sessions.lock().sessions.get_mut(&self.id) {
            session.flash = Some(sentence);
        }
    }

    /// Returns the kept message once.
    pub fn take_flash(&self) -> Option<String> {
        let mut state = self.sessions.lock();
        state.sessions.get_mut(&self.id)?.flash.take()
    }

    /// Keeps a new key for the page that shows it. It replaces a key that was not shown.
    pub fn keep_issued_key(&self, key: IssuedKey) {
        let ends_at = Lived::now() + ISSUED_KEPT;
        if let Some(session) = self.sessions.lock().sessions.get_mut(&self.id) {
            session.issued = Some((key, ends_at));
        }
    }

    /// Returns the kept key of this page once.
    pub fn take_issued_key(&self, path: &str) -> Option<IssuedKey> {
        let mut state = self.sessions.lock();
        let kept = &mut state.sessions.get_mut(&self.id)?.issued;
        let (key, ends_at) = kept.take_if(|(key, _)| key.path.split('?').next() == Some(path))?;
        (Lived::now() < ends_at).then_some(key)
    }
}
