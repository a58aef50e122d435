//! Who is signed in to the pages.
//!
//! The sign-in page makes sessions, every page asks for one; the command line and the admin API give invitations, and list
//! and end sessions.
//!
//! **Invariant**: a session and an invitation are held only as the digest of their secret. There are at most
//! [`SESSIONS_MAX`] sessions of a token; each ends at sign-out, after [`SESSION_MS`], with its token, or with the process,
//! and has the role that its token has at the moment. A key that was just issued is held until the page that shows it, is
//! given to it once, and to nobody after [`ISSUED_MS`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use salvo_core::Depot;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::catalog::key::KeyText;
use crate::catalog::{AuditChange, KeyHash, Kind};
use crate::clock;
use crate::journal::log::Client;
use crate::operate::access::{Access, Token};

/// How long somebody stays signed in.
pub(super) const SESSION_MS: u64 = 12 * 3_600_000;
/// How long an invitation can be used.
const INVITATION_MS: u64 = 10 * 60_000;
/// How long a key that was issued waits for the page that shows it.
const ISSUED_MS: u64 = 5 * 60_000;
/// When a token has more, the oldest of them ends.
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

/// The sessions and the invitations of a daemon.
#[derive(Debug)]
pub struct Sessions {
    access: Arc<Access>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<KeyHash, Session>,
    /// By the digests of the tokens that gave them: that of the secret, and until when.
    invitations: HashMap<KeyHash, (KeyHash, u64)>,
}

/// Somebody who is signed in, as others see it.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// What it is called; opens nothing.
    pub id: Uuid,
    /// The token that it began with.
    pub token: Arc<Token>,
    /// Where it began.
    pub client: Client,
    /// When: Unix time in milliseconds.
    pub since_ms: u64,
    /// When the last page was asked for, likewise.
    pub seen_ms: u64,
    /// When it ends if nobody signs out, likewise.
    pub ends_ms: u64,
}

impl SignedIn {
    /// For the audit trail: that it ended before its time.
    pub(in crate::http) fn signed_out(&self) -> AuditChange {
        let was = json!({
            "token": &*self.token.name,
            "client": self.client.to_string(),
            "since": clock::rfc3339(self.since_ms),
        });
        AuditChange {
            before: Some(was),
            after: None,
            ..AuditChange::done("sign_out", Kind::Session, self.id.to_string(), Value::Null)
        }
    }
}

#[derive(Debug)]
struct Session {
    id: Uuid,
    /// Digest of the token that it began with.
    token: KeyHash,
    client: Client,
    since_ms: u64,
    seen_ms: u64,
    /// Time lived.
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
    /// The token that it began with, as it is now.
    pub(super) token: Arc<Token>,
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
    /// None yet; their tokens are those of `access`.
    pub fn new(access: &Arc<Access>) -> Self {
        Self {
            access: Arc::clone(access),
            state: Mutex::default(),
        }
    }

    /// What signs in once, within ten minutes, as with this token. An earlier one of the token ends.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn invite(&self, token: &Token) -> Result<Invitation, getrandom::Error> {
        let secret = format!("{INVITATION_PREFIX}{}", random()?);
        let ends_ms = clock::lived_ms() + INVITATION_MS;
        let mut state = self.lock();
        let access = &self.access;
        (state.invitations).retain(|token, _| access.with_hash(*token).is_some());
        (state.invitations).insert(token.hash(), (KeyHash::of(&secret), ends_ms));
        Ok(Invitation {
            secret,
            ends_ms: clock::unix_ms() + INVITATION_MS,
        })
    }

    /// Uses an invitation up: the token that gave it. None: it is no invitation, its time is over, or its token's.
    pub(super) fn accept_invitation(&self, secret: &str) -> Option<Arc<Token>> {
        let hash = KeyHash::of(secret);
        let mut state = self.lock();
        let mut all = state.invitations.iter();
        let (token, _) = all.find(|(_, (invitation, _))| *invitation == hash)?;
        let token = *token;
        let (_, ends_ms) = state.invitations.remove(&token)?;
        match clock::lived_ms() < ends_ms {
            true => self.access.with_hash(token),
            false => None,
        }
    }

    /// A new session of somebody with this token; its id, and its secret.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn begin(
        &self,
        token: &Token,
        client: Client,
    ) -> Result<(Uuid, String), getrandom::Error> {
        let secret = random()?;
        let (id, now_ms) = (Uuid::now_v7(), clock::unix_ms());
        let session = Session {
            id,
            token: token.hash(),
            client,
            since_ms: now_ms,
            seen_ms: now_ms,
            ends_ms: clock::lived_ms() + SESSION_MS,
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
            let oldest = own.min_by_key(|(_, session)| session.ends_ms);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                sessions.remove(&oldest);
            }
        }
        sessions.insert(KeyHash::of(&secret), session);
        Ok((id, secret))
    }

    /// The visitor with this secret.
    pub(super) fn visitor(self: &Arc<Self>, secret: &str) -> Option<Visitor> {
        let id = KeyHash::of(secret);
        let mut state = self.lock();
        self.forget_ended(&mut state);
        let session = state.sessions.get_mut(&id)?;
        session.seen_ms = clock::unix_ms();
        Some(Visitor {
            sessions: Arc::clone(self),
            id,
            token: self.access.with_hash(session.token)?,
            form_token: Arc::clone(&session.form_token),
        })
    }

    /// Everybody who is signed in, the newest first.
    pub fn list(&self) -> Vec<SignedIn> {
        let mut state = self.lock();
        self.forget_ended(&mut state);
        let sessions = state.sessions.values();
        let mut all: Vec<_> = sessions.filter_map(|it| self.shown(it)).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.id));
        all
    }

    /// Ends a session: what it was. None: there is no such session.
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
        let left_ms = session.ends_ms.saturating_sub(clock::lived_ms());
        let ends_ms = clock::unix_ms() + left_ms;
        Some(SignedIn {
            id: session.id,
            client: session.client,
            since_ms: session.since_ms,
            seen_ms: session.seen_ms,
            ends_ms: token.expires_ms.map_or(ends_ms, |end| end.min(ends_ms)),
            token,
        })
    }

    fn forget_ended(&self, state: &mut State) {
        let now_ms = clock::lived_ms();
        let goes_on = |session: &Session| {
            now_ms < session.ends_ms && self.access.with_hash(session.token).is_some()
        };
        state.sessions.retain(|_, session| goes_on(session));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visitor {
    /// Who is signed in, on pages behind a session.
    pub(super) fn of(depot: &Depot) -> Option<&Self> {
        depot.get_typed::<Self>().ok()
    }

    /// Ends the session: what it was, if it was there still.
    pub(super) fn sign_out(&self) -> Option<SignedIn> {
        let session = self.sessions.lock().sessions.remove(&self.id)?;
        self.sessions.shown(&session)
    }

    /// What others call the session.
    pub(super) fn session(&self) -> Option<Uuid> {
        let state = self.sessions.lock();
        state.sessions.get(&self.id).map(|session| session.id)
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
    use crate::config::{Admin, AdminToken, Role, Secret};

    fn viewer() -> Admin {
        let token = AdminToken {
            name: "screen".to_owned(),
            role: Role::Viewer,
            secret: Some(Secret::new("of the screen")),
            ..AdminToken::default()
        };
        Admin {
            tokens: vec![token],
            ..Admin::default()
        }
    }

    fn sessions() -> Arc<Sessions> {
        let access = Access::new("of the tests", &viewer());
        Arc::new(Sessions::new(&Arc::new(access)))
    }

    /// Somebody signs in with the admin token.
    fn begin(sessions: &Sessions) -> String {
        begin_with(sessions, &sessions.access.main()).1
    }

    fn begin_with(sessions: &Sessions, token: &Token) -> (Uuid, String) {
        sessions.begin(token, Client::Unix).expect("random numbers")
    }

    #[test]
    fn an_invitation_works_once_and_the_last_one_only() {
        let sessions = sessions();
        let invite = || {
            sessions
                .invite(&sessions.access.main())
                .expect("random numbers")
                .secret
        };
        let (first, second) = (invite(), invite());
        assert_eq!(sessions.accept_invitation(&first), None);
        assert_eq!(sessions.accept_invitation("once_"), None);
        let main = Some(sessions.access.main());
        assert_eq!(sessions.accept_invitation(&second), main);
        assert_eq!(sessions.accept_invitation(&second), None);
    }

    #[test]
    fn an_invitation_and_a_session_end_with_their_time() {
        let sessions = sessions();
        let invitation = sessions
            .invite(&sessions.access.main())
            .expect("random numbers")
            .secret;
        let secret = begin(&sessions);
        assert!(sessions.visitor(&secret).is_some());
        {
            let mut state = sessions.lock();
            for (_, ends_ms) in state.invitations.values_mut() {
                *ends_ms = clock::lived_ms();
            }
            for session in state.sessions.values_mut() {
                session.ends_ms = clock::lived_ms();
            }
        }
        assert_eq!(sessions.accept_invitation(&invitation), None);
        assert!(sessions.visitor(&secret).is_none());
        assert!(sessions.lock().sessions.is_empty());
    }

    #[test]
    fn a_session_and_a_link_have_the_role_of_their_token_and_end_with_it() {
        let sessions = sessions();
        let token = sessions.access.token("of the screen").expect("declared");
        let (id, secret) = begin_with(&sessions, &token);
        let invitation = sessions.invite(&token).expect("random numbers").secret;
        let admin = begin(&sessions);
        let role = |secret: &str| sessions.visitor(secret).map(|it| it.token.role);
        assert_eq!(role(&secret), Some(Role::Viewer));
        let listed = sessions.list();
        assert_eq!((listed.len(), listed[1].id), (2, id));
        assert_eq!(&*listed[1].token.name, "screen");
        let mut changed = viewer();
        changed.tokens[0].role = Role::Operator;
        sessions.access.renew(&changed);
        assert_eq!(role(&secret), Some(Role::Operator));
        sessions.access.renew(&Admin::default());
        assert_eq!(role(&secret), None);
        assert_eq!(sessions.accept_invitation(&invitation), None);
        assert_eq!(role(&admin), Some(Role::Admin));
        assert_eq!(sessions.list().len(), 1);
    }

    #[test]
    fn a_session_is_ended_by_its_id_once() {
        let sessions = sessions();
        let (id, secret) = begin_with(&sessions, &sessions.access.main());
        let ended = sessions.end(id).expect("it is there");
        assert_eq!((ended.id, ended.client), (id, Client::Unix));
        assert!(sessions.end(id).is_none());
        assert!(sessions.visitor(&secret).is_none());
    }

    #[test]
    fn there_are_so_many_sessions_and_no_more() {
        let sessions = sessions();
        let secrets: Vec<String> = (0..SESSIONS_MAX + 5).map(|_| begin(&sessions)).collect();
        assert_eq!(sessions.lock().sessions.len(), SESSIONS_MAX);
        let last = secrets.last().and_then(|last| sessions.visitor(last));
        let out = last.expect("the newest stays").sign_out();
        assert!(out.is_some());
        assert_eq!(sessions.lock().sessions.len(), SESSIONS_MAX - 1);
    }

    #[test]
    fn an_issued_key_is_given_once_to_its_page_and_visitor_while_it_is_new() {
        let sessions = sessions();
        let [one, other] = [(); 2].map(|()| {
            let secret = begin(&sessions);
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
        let sessions = sessions();
        let [one, other] = [(); 2].map(|()| {
            let secret = begin(&sessions);
            sessions.visitor(&secret).expect("it has begun")
        });
        one.set_flash("done".to_owned());
        assert_eq!(other.take_flash(), None);
        assert_eq!(one.take_flash().as_deref(), Some("done"));
        assert_eq!(one.take_flash(), None);
    }
}
