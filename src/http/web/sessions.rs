//! Who is signed in to the pages.
//!
//! The sign-in page makes sessions, every page asks for one; the command line and the admin API give invitations.
//!
//! **Invariant**: a session and an invitation are held only as the digest of their secret. There are at most
//! [`SESSIONS_MAX`] sessions; each ends at sign-out, after [`SESSION_MS`], or with the process. A key that was just
//! issued is held until the page that shows it, is given to it once, and to nobody after [`ISSUED_MS`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use salvo_core::Depot;

use crate::catalog::KeyHash;
use crate::catalog::key::KeyText;
use crate::clock;

/// How long somebody stays signed in.
pub(super) const SESSION_MS: u64 = 12 * 3_600_000;
/// How long an invitation can be used.
const INVITATION_MS: u64 = 10 * 60_000;
/// How long a key that was issued waits for the page that shows it.
const ISSUED_MS: u64 = 5 * 60_000;
/// When there are more, the oldest ends.
const SESSIONS_MAX: usize = 100;
/// What an invitation begins with.
const INVITATION_PREFIX: &str = "once_";

/// What signs in once.
#[derive(Debug)]
pub struct Invitation {
    /// Its secret.
    secret: String,
    /// Until when: Unix time in milliseconds.
    pub ends_ms: u64,
}

impl Invitation {
    /// The path that signs in, below the address of the admin listener. The secret stands in the fragment: no server is
    /// asked for it.
    pub fn path(&self) -> String {
        format!("/sign-in#{}", self.secret)
    }
}

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
    /// What the next page says of the write before it.
    flash: Option<String>,
    /// A key that was just issued, and until when it is handed out.
    issued: Option<(IssuedKey, u64)>,
}

/// A key that was just issued, for the one page that shows it.
#[derive(Debug)]
pub(super) struct IssuedKey {
    /// Path of that page.
    pub(super) path: String,
    /// Name of the key.
    pub(super) key: String,
    /// The key itself.
    pub(super) secret: KeyText,
    /// Under what name the key before it ends, and when, after a rotation: Unix time in milliseconds.
    pub(super) previous: Option<(String, u64)>,
}

/// Somebody who is signed in.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    sessions: Arc<Sessions>,
    /// Digest of the session's secret.
    id: KeyHash,
    /// What every form of this session must send along.
    pub(super) form_token: Arc<str>,
}

impl IssuedKey {
    /// A key that did not exist before.
    pub(super) fn new(path: String, key: &str, secret: KeyText) -> Self {
        Self {
            path,
            key: key.to_owned(),
            secret,
            previous: None,
        }
    }
}

impl Sessions {
    /// What signs in once, within ten minutes. An earlier one ends.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn invite(&self) -> Result<Invitation, getrandom::Error> {
        let secret = format!("{INVITATION_PREFIX}{}", random()?);
        let ends_ms = clock::lived_ms() + INVITATION_MS;
        self.lock().invitation = Some((KeyHash::of(&secret), ends_ms));
        Ok(Invitation {
            secret,
            ends_ms: clock::unix_ms() + INVITATION_MS,
        })
    }

    /// Uses an invitation up; false if it is none, or its time is over.
    pub(super) fn accept_invitation(&self, secret: &str) -> bool {
        let mut state = self.lock();
        match state.invitation {
            Some((hash, ends_ms)) if hash == KeyHash::of(secret) => {
                state.invitation = None;
                clock::lived_ms() < ends_ms
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
            ends_ms: clock::lived_ms() + SESSION_MS,
            form_token: random()?.into(),
            flash: None,
            issued: None,
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

    /// The visitor with this secret.
    pub(super) fn visitor(self: &Arc<Self>, secret: &str) -> Option<Visitor> {
        let id = KeyHash::of(secret);
        let mut state = self.lock();
        let session = state.sessions.get(&id)?;
        if clock::lived_ms() >= session.ends_ms {
            state.sessions.remove(&id);
            return None;
        }
        Some(Visitor {
            sessions: Arc::clone(self),
            id,
            form_token: Arc::clone(&session.form_token),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visitor {
    /// Who is signed in, on pages behind a session.
    pub(super) fn of(depot: &Depot) -> Option<&Self> {
        depot.get_typed::<Self>().ok()
    }

    /// Ends the session.
    pub(super) fn sign_out(&self) {
        self.sessions.lock().sessions.remove(&self.id);
    }

    /// Keeps a sentence for the next page that the visitor sees.
    pub(super) fn set_flash(&self, sentence: String) {
        if let Some(session) = self.sessions.lock().sessions.get_mut(&self.id) {
            session.flash = Some(sentence);
        }
    }

    /// The sentence that was kept.
    pub(super) fn take_flash(&self) -> Option<String> {
        let mut state = self.sessions.lock();
        state.sessions.get_mut(&self.id)?.flash.take()
    }

    /// Keeps a key for the page that shows it. An earlier one that was not shown is forgotten.
    pub(super) fn keep_issued_key(&self, key: IssuedKey) {
        let ends_ms = clock::lived_ms() + ISSUED_MS;
        if let Some(session) = self.sessions.lock().sessions.get_mut(&self.id) {
            session.issued = Some((key, ends_ms));
        }
    }

    /// The key that was kept for this page.
    pub(super) fn take_issued_key(&self, path: &str) -> Option<IssuedKey> {
        let mut state = self.sessions.lock();
        let kept = &mut state.sessions.get_mut(&self.id)?.issued;
        let (key, ends_ms) = kept.take_if(|(key, _)| key.path == path)?;
        (clock::lived_ms() < ends_ms).then_some(key)
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
    use crate::catalog::key::{KeyKind, generate};

    #[test]
    fn an_invitation_works_once_and_the_last_one_only() {
        let sessions = Arc::new(Sessions::default());
        let invite = || sessions.invite().expect("random numbers").secret;
        let (first, second) = (invite(), invite());
        assert!(!sessions.accept_invitation(&first));
        assert!(!sessions.accept_invitation("once_"));
        assert!(sessions.accept_invitation(&second));
        assert!(!sessions.accept_invitation(&second));
    }

    #[test]
    fn an_invitation_and_a_session_end_with_their_time() {
        let sessions = Arc::new(Sessions::default());
        let invitation = sessions.invite().expect("random numbers").secret;
        let secret = sessions.begin().expect("random numbers");
        assert!(sessions.visitor(&secret).is_some());
        {
            let mut state = sessions.lock();
            let (_, ends_ms) = state.invitation.as_mut().expect("it is open");
            *ends_ms = clock::lived_ms();
            for session in state.sessions.values_mut() {
                session.ends_ms = clock::lived_ms();
            }
        }
        assert!(!sessions.accept_invitation(&invitation));
        assert!(sessions.visitor(&secret).is_none());
        assert!(sessions.lock().sessions.is_empty());
    }

    #[test]
    fn there_are_so_many_sessions_and_no_more() {
        let sessions = Arc::new(Sessions::default());
        let secrets: Vec<String> = (0..SESSIONS_MAX + 5)
            .map(|_| sessions.begin().expect("random numbers"))
            .collect();
        assert_eq!(sessions.lock().sessions.len(), SESSIONS_MAX);
        let last = secrets.last().and_then(|last| sessions.visitor(last));
        last.expect("the newest stays").sign_out();
        assert_eq!(sessions.lock().sessions.len(), SESSIONS_MAX - 1);
    }

    #[test]
    fn an_issued_key_is_given_once_to_its_page_and_visitor_while_it_is_new() {
        let sessions = Arc::new(Sessions::default());
        let [one, other] = [(); 2].map(|()| {
            let secret = sessions.begin().expect("random numbers");
            sessions.visitor(&secret).expect("it has begun")
        });
        let keep = || {
            let secret = generate(KeyKind::Ingest).expect("random numbers");
            one.keep_issued_key(IssuedKey::new("/sources/shop".to_owned(), "main", secret));
        };
        keep();
        assert!(other.take_issued_key("/sources/shop").is_none());
        assert!(one.take_issued_key("/sources/other").is_none());
        assert!(one.take_issued_key("/sources/shop").is_some());
        assert!(one.take_issued_key("/sources/shop").is_none());
        keep();
        for session in sessions.lock().sessions.values_mut() {
            if let Some((_, ends_ms)) = &mut session.issued {
                *ends_ms = clock::lived_ms();
            }
        }
        assert!(one.take_issued_key("/sources/shop").is_none());
    }

    #[test]
    fn a_sentence_is_said_once_and_to_one_visitor() {
        let sessions = Arc::new(Sessions::default());
        let [one, other] = [(); 2].map(|()| {
            let secret = sessions.begin().expect("random numbers");
            sessions.visitor(&secret).expect("it has begun")
        });
        one.set_flash("done".to_owned());
        assert_eq!(other.take_flash(), None);
        assert_eq!(one.take_flash().as_deref(), Some("done"));
        assert_eq!(one.take_flash(), None);
    }
}
