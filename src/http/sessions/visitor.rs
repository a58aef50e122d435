//! A signed-in user, and the message and key for the next page.
//!
//! **Invariant**: a kept message and a kept key are returned once, to their session.

use std::sync::Arc;
use std::time::Duration;

use salvo_core::Depot;
use uuid::Uuid;

use super::sealed::{Content, Seal, form_token};
use super::{IssuedKey, Kept, SessionError, Sessions, SignedIn, memory};
use base::clock::{Lived, Unix};
use catalog::KeyHash;
use operate::access::Token;
use postgres::DatabaseError;

/// Maximum time that a new key is kept for the page that shows it. A key that nobody has read must not stay in memory.
pub(super) const ISSUED_KEPT: Duration = Duration::from_mins(5);

/// A session of the admin pages, at one of its requests.
#[derive(Debug, Clone)]
pub struct Visitor {
    sessions: Arc<Sessions>,
    /// Digest of the session's secret.
    secret: KeyHash,
    /// The ID of the session in lists.
    pub session: Uuid,
    /// The token of the sign-in, in its current state.
    pub token: Arc<Token>,
    /// The token that every form of this session must contain.
    pub form_token: Arc<str>,
    /// What the database keeps for the next page, in a cluster. The visit says it, so that most pages need no second
    /// question.
    waiting: Option<Waiting>,
}

/// What the database keeps for a page.
#[derive(Debug, Clone)]
struct Waiting {
    seal: Seal,
    has_flash: bool,
    /// Path of the page that shows a new key.
    issued_for: Option<String>,
}

impl Sessions {
    /// The visitor with this session secret, at a request of its. `reads`: the request changes nothing, so it needs no
    /// database for a session that this node has seen just now.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn visitor(
        self: &Arc<Self>,
        secret: &str,
        reads: bool,
    ) -> Result<Option<Visitor>, SessionError> {
        let hash = KeyHash::of(secret);
        let shared = match &self.kept {
            Kept::Here(state) => {
                let visitor = memory::lock(state).visitor(self, hash);
                return Ok(visitor);
            }
            Kept::InDatabase(shared) => shared,
        };
        let Some(visit) = shared.visit(hash, reads).await? else {
            return Ok(None);
        };
        let Some(token) = self.access.with_hash(KeyHash::from_bytes(visit.token)) else {
            return Ok(None);
        };
        Ok(Some(Visitor {
            sessions: Arc::clone(self),
            secret: hash,
            session: visit.id,
            token,
            form_token: form_token(secret),
            waiting: Some(Waiting {
                seal: Seal::of(secret),
                has_flash: visit.has_flash,
                issued_for: visit.issued_for,
            }),
        }))
    }
}

impl memory::State {
    fn visitor(&mut self, sessions: &Arc<Sessions>, secret: KeyHash) -> Option<Visitor> {
        self.forget_ended(&sessions.access);
        let session = self.sessions.get_mut(&secret)?;
        session.seen_at = Unix::now();
        Some(Visitor {
            sessions: Arc::clone(sessions),
            secret,
            session: session.id,
            token: sessions.access.with_hash(session.token)?,
            form_token: Arc::clone(&session.form_token),
            waiting: None,
        })
    }
}

impl Visitor {
    /// The signed-in user of a page that requires a session.
    pub fn of(depot: &Depot) -> Option<&Self> {
        depot.get_typed::<Self>().ok()
    }

    /// Ends the session and returns it, if it still exists.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn sign_out(&self) -> Result<Option<SignedIn>, SessionError> {
        match &self.sessions.kept {
            Kept::Here(state) => Ok(memory::lock(state).remove(self.secret, &self.sessions.access)),
            Kept::InDatabase(_) => self.sessions.end(self.session).await,
        }
    }

    /// Keeps a message for the next page of the visitor. If that fails, there is none.
    pub async fn set_flash(&self, sentence: String) {
        match (&self.sessions.kept, &self.waiting) {
            (Kept::Here(state), _) => {
                if let Some(session) = memory::lock(state).sessions.get_mut(&self.secret) {
                    session.flash = Some(sentence);
                }
            }
            (Kept::InDatabase(shared), Some(Waiting { seal, .. })) => {
                let Some(sealed) = seal.seal(Content::Flash, sentence.as_bytes()) else {
                    return;
                };
                let kept = shared.tables.set_flash(*self.secret.as_bytes(), &sealed);
                note_lost(kept.await);
            }
            (Kept::InDatabase(_), None) => {}
        }
    }

    /// Returns the kept message once.
    pub async fn take_flash(&self) -> Option<String> {
        match (&self.sessions.kept, &self.waiting) {
            (Kept::Here(state), _) => {
                let mut state = memory::lock(state);
                state.sessions.get_mut(&self.secret)?.flash.take()
            }
            (Kept::InDatabase(shared), Some(waiting)) if waiting.has_flash => {
                let taken = shared.tables.take_flash(*self.secret.as_bytes());
                let sealed = note_lost(taken.await)??;
                let text = waiting.seal.unseal(Content::Flash, &sealed)?;
                String::from_utf8(text).ok()
            }
            (Kept::InDatabase(_), _) => None,
        }
    }

    /// Keeps a new key for the page that shows it. It replaces a key that was not shown.
    ///
    /// # Errors
    /// The database does not answer, or there are no random numbers: no page will show it.
    pub async fn keep_issued_key(&self, key: IssuedKey) -> Result<(), SessionError> {
        match (&self.sessions.kept, &self.waiting) {
            (Kept::Here(state), _) => {
                let ends_at = Lived::now() + ISSUED_KEPT;
                if let Some(session) = memory::lock(state).sessions.get_mut(&self.secret) {
                    session.issued = Some((key, ends_at));
                }
            }
            (Kept::InDatabase(shared), Some(Waiting { seal, .. })) => {
                let sealed = seal.seal(Content::IssuedKey, &key.write());
                let sealed = sealed.ok_or(getrandom::Error::UNEXPECTED)?;
                let secret = *self.secret.as_bytes();
                (shared.tables)
                    .keep_issued(secret, key.page(), &sealed, ISSUED_KEPT)
                    .await?;
            }
            (Kept::InDatabase(_), None) => {}
        }
        Ok(())
    }

    /// Returns the kept key of this page once.
    ///
    /// # Errors
    /// The database does not answer. The key is still kept, or lost if the answer is.
    pub async fn take_issued_key(&self, page: &str) -> Result<Option<IssuedKey>, SessionError> {
        match (&self.sessions.kept, &self.waiting) {
            (Kept::Here(state), _) => Ok(memory::lock(state).take_issued_key(self.secret, page)),
            (Kept::InDatabase(shared), Some(waiting))
                if waiting.issued_for.as_deref() == Some(page) =>
            {
                let taken = shared.tables.take_issued(*self.secret.as_bytes(), page);
                let text = taken
                    .await?
                    .and_then(|sealed| waiting.seal.unseal(Content::IssuedKey, &sealed));
                Ok(text.and_then(|text| IssuedKey::read(&text)))
            }
            (Kept::InDatabase(_), _) => Ok(None),
        }
    }
}

impl memory::State {
    fn take_issued_key(&mut self, secret: KeyHash, page: &str) -> Option<IssuedKey> {
        let kept = &mut self.sessions.get_mut(&secret)?.issued;
        let (key, ends_at) = kept.take_if(|(key, _)| key.page() == page)?;
        (Lived::now() < ends_at).then_some(key)
    }
}

/// What is nice to have is logged where it is missing. A page must not fail because a message is missing.
fn note_lost<T>(answer: Result<T, DatabaseError>) -> Option<T> {
    let answer = answer.inspect_err(|error| {
        tracing::debug!(%error, "the message of a page cannot be kept or read");
    });
    answer.ok()
}
