//! Who is signed in to the pages.
//!
//! The sign-in page makes sessions, every page asks for one, `headgate serve` prints an invitation.
//!
//! **Invariant**: a session and an invitation are held only as the digest of their secret. There are at most
//! [`SESSIONS_MAX`] sessions; each ends at sign-out, after [`SESSION_MS`], or with the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::catalog::KeyHash;
use crate::clock;

/// How long somebody stays signed in.
pub(super) const SESSION_MS: u64 = 12 * 3_600_000;
/// How long an invitation can be used.
const INVITATION_MS: u64 = 10 * 60_000;
/// When there are more, the oldest ends.
const SESSIONS_MAX: usize = 100;
/// What an invitation begins with.
const INVITATION_PREFIX: &str = "once_";

/// The sessions and the invitation of a daemon.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<KeyHash, Session>,
    invitation: Option<(KeyHash, u64)>,
}

#[derive(Debug)]
struct Session {
    ends_ms: u64,
    form_token: Arc<str>,
    said: Option<String>,
}

/// Somebody who is signed in.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    /// Digest of the session's secret.
    id: KeyHash,
    /// What every form of this session must send along.
    pub(super) form_token: Arc<str>,
}

impl Sessions {
    /// A secret that signs in once, within ten minutes. An earlier one ends.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn invite(&self) -> Result<String, getrandom::Error> {
        let secret = format!("{INVITATION_PREFIX}{}", random()?);
        let ends_ms = clock::unix_ms() + INVITATION_MS;
        self.lock().invitation = Some((KeyHash::of(&secret), ends_ms));
        Ok(secret)
    }

    /// Uses an invitation up; false if it is none, or its time is over.
    pub(super) fn accept_invitation(&self, secret: &str) -> bool {
        let mut state = self.lock();
        match state.invitation {
            Some((hash, ends_ms)) if hash == KeyHash::of(secret) => {
                state.invitation = None;
                clock::unix_ms() < ends_ms
            }
            _ => false,
        }
    }

    /// A new session; its secret.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn begin(&self) -> Result<String, getrandom::Error> {
        let secret = random()?;
        let session = Session {
            ends_ms: clock::unix_ms() + SESSION_MS,
            form_token: random()?.into(),
            said: None,
        };
        let mut state = self.lock();
        let sessions = &mut state.sessions;
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.ends_ms);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                sessions.remove(&oldest);
            }
        }
        sessions.insert(KeyHash::of(&secret), session);
        Ok(secret)
    }

    /// Who has this secret.
    pub(super) fn visitor(&self, secret: &str) -> Option<Visitor> {
        let id = KeyHash::of(secret);
        let mut state = self.lock();
        let session = state.sessions.get(&id)?;
        if clock::unix_ms() >= session.ends_ms {
            state.sessions.remove(&id);
            return None;
        }
        Some(Visitor {
            id,
            form_token: Arc::clone(&session.form_token),
        })
    }

    /// Ends a session.
    pub(super) fn end(&self, visitor: &Visitor) {
        self.lock().sessions.remove(&visitor.id);
    }

    /// Keeps a sentence for the next page that the visitor sees.
    pub(super) fn say(&self, visitor: &Visitor, sentence: String) {
        if let Some(session) = self.lock().sessions.get_mut(&visitor.id) {
            session.said = Some(sentence);
        }
    }

    /// The sentence that was kept.
    pub(super) fn said(&self, visitor: &Visitor) -> Option<String> {
        self.lock().sessions.get_mut(&visitor.id)?.said.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 256 random bits as hexadecimal digits.
fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_works_once_and_the_last_one_only() {
        let sessions = Sessions::default();
        let first = sessions.invite().expect("random numbers");
        let second = sessions.invite().expect("random numbers");
        assert!(!sessions.accept_invitation(&first));
        assert!(!sessions.accept_invitation("once_"));
        assert!(sessions.accept_invitation(&second));
        assert!(!sessions.accept_invitation(&second));
    }

    #[test]
    fn an_invitation_and_a_session_end_with_their_time() {
        let sessions = Sessions::default();
        let invitation = sessions.invite().expect("random numbers");
        let secret = sessions.begin().expect("random numbers");
        assert!(sessions.visitor(&secret).is_some());
        {
            let mut state = sessions.lock();
            let (_, ends_ms) = state.invitation.as_mut().expect("it is open");
            *ends_ms = clock::unix_ms();
            for session in state.sessions.values_mut() {
                session.ends_ms = clock::unix_ms();
            }
        }
        assert!(!sessions.accept_invitation(&invitation));
        assert!(sessions.visitor(&secret).is_none());
        assert!(sessions.lock().sessions.is_empty());
    }

    #[test]
    fn there_are_so_many_sessions_and_no_more() {
        let sessions = Sessions::default();
        let secrets: Vec<String> = (0..SESSIONS_MAX + 5)
            .map(|_| sessions.begin().expect("random numbers"))
            .collect();
        assert_eq!(sessions.lock().sessions.len(), SESSIONS_MAX);
        let last = secrets.last().and_then(|last| sessions.visitor(last));
        sessions.end(&last.expect("the newest stays"));
        assert_eq!(sessions.lock().sessions.len(), SESSIONS_MAX - 1);
    }

    #[test]
    fn a_sentence_is_said_once_and_to_one_visitor() {
        let sessions = Sessions::default();
        let [one, other] = [(); 2].map(|()| {
            let secret = sessions.begin().expect("random numbers");
            sessions.visitor(&secret).expect("it has begun")
        });
        sessions.say(&one, "done".to_owned());
        assert_eq!(sessions.said(&other), None);
        assert_eq!(sessions.said(&one).as_deref(), Some("done"));
        assert_eq!(sessions.said(&one), None);
    }
}
