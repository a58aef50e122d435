//! Somebody who is signed in, and what is kept for the next page that he sees.
//!
//! **Invariant**: a sentence and a key that were kept are given once, to the session that they are for.

use std::sync::Arc;
use std::time::Duration;

use salvo_core::Depot;
use uuid::Uuid;

use super::{Sessions, SignedIn};
use base::clock::{Lived, Unix};
use catalog::KeyHash;
use catalog::key::KeyText;
use operate::access::Token;

/// How long a key that was issued waits for the page that shows it.
pub(super) const ISSUED_KEPT: Duration = Duration::from_mins(5);

/// A session of the admin pages.
#[derive(Debug, Clone)]
pub struct Visitor {
    sessions: Arc<Sessions>,
    /// Digest of the session's secret.
    id: KeyHash,
    /// The token that it began with, as it is now.
    pub token: Arc<Token>,
    /// What every form of this session must send along.
    pub form_token: Arc<str>,
}

/// A key that was just issued, for the one page that shows it.
#[derive(Debug)]
pub struct IssuedKey {
    /// Path of that page, and what it is asked for with.
    pub path: String,
    /// Name of the key.
    pub key: String,
    /// The key itself.
    pub secret: KeyText,
    /// Under what name the key before it ends, and when, after a rotation.
    pub previous: Option<(String, Unix)>,
}

impl IssuedKey {
    /// A key that did not exist before.
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
    /// The visitor with this secret.
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
    /// Who is signed in, on pages behind a session.
    pub fn of(depot: &Depot) -> Option<&Self> {
        depot.get_typed::<Self>().ok()
    }

    /// Ends the session: what it was, if it was there still.
    pub fn sign_out(&self) -> Option<SignedIn> {
        let session = self.sessions.lock().sessions.remove(&self.id)?;
        self.sessions.shown(&session)
    }

    /// What others call the session.
    pub fn session(&self) -> Option<Uuid> {
        let state = self.sessions.lock();
        state.sessions.get(&self.id).map(|session| session.id)
    }

    /// Keeps a sentence for the next page that the visitor sees.
    pub fn set_flash(&self, sentence: String) {
        if let Some(session) = self.sessions.lock().sessions.get_mut(&self.id) {
            session.flash = Some(sentence);
        }
    }

    /// The sentence that was kept.
    pub fn take_flash(&self) -> Option<String> {
        let mut state = self.sessions.lock();
        state.sessions.get_mut(&self.id)?.flash.take()
    }

    /// Keeps a key for the page that shows it. An earlier one that was not shown is forgotten.
    pub fn keep_issued_key(&self, key: IssuedKey) {
        let ends_at = Lived::now() + ISSUED_KEPT;
        if let Some(session) = self.sessions.lock().sessions.get_mut(&self.id) {
            session.issued = Some((key, ends_at));
        }
    }

    /// The key that was kept for this page.
    pub fn take_issued_key(&self, path: &str) -> Option<IssuedKey> {
        let mut state = self.sessions.lock();
        let kept = &mut state.sessions.get_mut(&self.id)?.issued;
        let (key, ends_at) = kept.take_if(|(key, _)| key.path.split('?').next() == Some(path))?;
        (Lived::now() < ends_at).then_some(key)
    }
}
