//! The sessions and invitations of a daemon alone, in memory.
//!
//! **Invariant**: see [`Sessions`](super::Sessions).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::sealed::form_token;
use super::{IssuedKey, SESSION, SESSIONS_MAX, SignedIn};
use base::clock::{self, Lived, Unix};
use catalog::KeyHash;
use journal::log::Client;
use operate::access::{Access, Token};

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct State {
    /// By the digest of their secret.
    pub(super) sessions: HashMap<KeyHash, Session>,
    /// Invitations by the digest of their token: the digest of their secret, and their expiry. By token, so that a new
    /// link replaces the one before.
    pub(super) invitations: HashMap<KeyHash, (KeyHash, Lived)>,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: Uuid,
    /// Digest of the token of the sign-in.
    pub(super) token: KeyHash,
    client: Client,
    since: Unix,
    pub(super) seen_at: Unix,
    pub(super) ends_at: Lived,
    pub(super) form_token: Arc<str>,
    /// The message about the last write, for the next page.
    pub(super) flash: Option<String>,
    /// A new key, and until when it can be shown.
    pub(super) issued: Option<(IssuedKey, Lived)>,
}

impl Session {
    /// One that begins now.
    pub(super) fn new(id: Uuid, token: &Token, client: Client, secret: &str) -> Self {
        let now = Unix::now();
        Self {
            id,
            token: token.hash(),
            client,
            since: now,
            seen_at: now,
            ends_at: Lived::now() + SESSION,
            form_token: form_token(secret),
            flash: None,
            issued: None,
        }
    }

    fn shown(&self, access: &Access) -> Option<SignedIn> {
        let shown = SignedIn {
            id: self.id,
            token: access.with_hash(self.token)?,
            client: self.client.to_string(),
            since: self.since,
            seen_at: self.seen_at,
            ends_at: clock::unix_of_lived(self.ends_at),
        };
        Some(shown.within_token())
    }
}

impl State {
    /// Adds a session.
    pub(super) fn begin(&mut self, secret: KeyHash, new: Session, access: &Access) {
        self.forget_ended(access);
        let sessions = &mut self.sessions;
        let own = |session: &Session| session.token == new.token;
        let count = sessions.values().filter(|session| own(session)).count();
        if count >= SESSIONS_MAX {
            let own = sessions.iter().filter(|(_, session)| own(session));
            let oldest = own.min_by_key(|(_, session)| session.ends_at);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                sessions.remove(&oldest);
            }
        }
        sessions.insert(secret, new);
    }

    /// All sessions, the newest first.
    pub(super) fn list(&mut self, access: &Access) -> Vec<SignedIn> {
        self.forget_ended(access);
        let sessions = self.sessions.values();
        let mut all: Vec<_> = sessions.filter_map(|it| it.shown(access)).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.id));
        all
    }

    /// Removes the session with this ID.
    pub(super) fn end(&mut self, id: Uuid, access: &Access) -> Option<SignedIn> {
        self.forget_ended(access);
        let mut all = self.sessions.iter();
        let (secret, _) = all.find(|(_, session)| session.id == id)?;
        let secret = *secret;
        self.remove(secret, access)
    }

    /// Removes the session with this secret.
    pub(super) fn remove(&mut self, secret: KeyHash, access: &Access) -> Option<SignedIn> {
        self.sessions.remove(&secret)?.shown(access)
    }

    /// Removes sessions whose time is over, and those of tokens that are no longer valid.
    pub(super) fn forget_ended(&mut self, access: &Access) {
        let now = Lived::now();
        let goes_on =
            |session: &Session| now < session.ends_at && access.with_hash(session.token).is_some();
        self.sessions.retain(|_, session| goes_on(session));
    }
}

/// The state, for as long as it is used.
pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
