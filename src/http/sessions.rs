//! Sessions of the admin pages.
//!
//! The sign-in page creates sessions, and every page requires one. The command line and the admin API create
//! invitations, and list and end sessions.
//!
//! **Invariant**: only the digest of the secret of a session or invitation is kept. A token has at most `SESSIONS_MAX`
//! sessions. Each ends at sign-out, after [`SESSION`], with its token, or with the process, and has the current role of
//! its token. A new key is kept for the page that shows it, for at most `visitor::ISSUED_KEPT`, and is returned once.

mod invitation;
mod visitor;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use base::clock::{self, Lived, Unix};
use base::text::hex;
use catalog::{AuditChange, KeyHash, ResourceKind};
pub use invitation::Invitation;
use journal::log::Client;
use operate::access::{Access, Token};
pub use visitor::{IssuedKey, Visitor};

/// Maximum duration of a session.
pub const SESSION: Duration = Duration::from_hours(12);
/// Maximum sessions of a token; one more ends the oldest.
const SESSIONS_MAX: usize = 100;

/// The sessions and the invitations of a daemon.
#[derive(Debug)]
pub struct Sessions {
    access: Arc<Access>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<KeyHash, Session>,
    /// Invitations by the digest of their token: the digest of their secret, and their expiry.
    invitations: HashMap<KeyHash, (KeyHash, Lived)>,
}

/// A session, as lists show it.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// Its ID, which grants no access.
    pub id: Uuid,
    /// The token of the sign-in.
    pub token: Arc<Token>,
    /// The client of the sign-in.
    pub client: Client,
    /// Time of the sign-in.
    pub since: Unix,
    /// Time of the last request for a page.
    pub seen_at: Unix,
    /// Its expiry.
    pub ends_at: Unix,
}

impl SignedIn {
    /// The entry in the audit log for a session that ended early.
    pub fn signed_out(&self) -> AuditChange {
        let was = json!({
            "token": &*self.token.name,
            "client": self.client.to_string(),
            "since": clock::rfc3339(self.since),
        });
        AuditChange {
            before: Some(was),
            after: None,
            ..AuditChange::done(
                "sign_out",
                ResourceKind::Session,
                self.id.to_string(),
                Value::Null,
            )
        }
    }
}

#[derive(Debug)]
struct Session {
    id: Uuid,
    /// Digest of the token of the sign-in.
    token: KeyHash,
    client: Client,
    since: Unix,
    seen_at: Unix,
    ends_at: Lived,
    form_token: Arc<str>,
    /// The message about the last write, for the next page.
    flash: Option<String>,
    /// A new key, and until when it can be shown.
    issued: Option<(IssuedKey, Lived)>,
}

impl Sessions {
    /// Without sessions; `access` has the tokens.
    pub fn new(access: &Arc<Access>) -> Self {
        Self {
            access: Arc::clone(access),
            state: Mutex::default(),
        }
    }

    /// Creates a session with this token; returns its ID and its secret.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn begin(&self, token: &Token, client: Client) -> Result<(Uuid, String), getrandom::Error> {
        let secret = random()?;
        let (id, now) = (Uuid::now_v7(), Unix::now());
        let session = Session {
            id,
            token: token.hash(),
            client,
            since: now,
            seen_at: now,
            ends_at: Lived::now() + SESSION,
            form_token: random()?.into(),
            flash: None,
            issued: None,
        };
        let mut state = self.lock();
        self.forget_ended(&mut state);
        let sessions = &mut state.sessions;
        let own = |session: &Session| session.token == token.hash();
        let count = sessions.values().filter(|session| own(session)).count();
        if count >= SESSIONS_MAX {
            let own = sessions.iter().filter(|(_, session)| own(session));
            let oldest = own.min_by_key(|(_, session)| session.ends_at);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                sessions.remove(&oldest);
            }
        }
        sessions.insert(KeyHash::of(&secret), session);
        Ok((id, secret))
    }

    /// All sessions, the newest first.
    pub fn list(&self) -> Vec<SignedIn> {
        let mut state = self.lock();
        self.forget_ended(&mut state);
        let sessions = state.sessions.values();
        let mut all: Vec<_> = sessions.filter_map(|it| self.shown(it)).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.id));
        all
    }

    /// Ends a session and returns it; `None`: there is no such session.
    pub fn end(&self, id: Uuid) -> Option<SignedIn> {
        let mut state = self.lock();
        self.forget_ended(&mut state);
        let mut all = state.sessions.iter();
        let (secret, _) = all.find(|(_, session)| session.id == id)?;
        let secret = *secret;
        let session = state.sessions.remove(&secret)?;
        self.shown(&session)
    }

    fn shown(&self, session: &Session) -> Option<SignedIn> {
        let token = self.access.with_hash(session.token)?;
        let ends_at = clock::unix_of_lived(session.ends_at);
        Some(SignedIn {
            id: session.id,
            client: session.client,
            since: session.since,
            seen_at: session.seen_at,
            ends_at: token.expires_at.map_or(ends_at, |end| end.min(ends_at)),
            token,
        })
    }

    fn forget_ended(&self, state: &mut State) {
        let now = Lived::now();
        let goes_on = |session: &Session| {
            now < session.ends_at && self.access.with_hash(session.token).is_some()
        };
        state.sessions.retain(|_, session| goes_on(session));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns 256 random bits as hexadecimal digits.
fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}
