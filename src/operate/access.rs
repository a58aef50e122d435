//! Authorization on the admin listener: tokens, and the role of each.
//!
//! The admin API and the pages look up the token of a request or a session here (`http`). `daemon` creates the tokens
//! from the configuration, and replaces them when it changes.
//!
//! **Invariant**: only the digest of a token is kept. A token that has expired, or is no longer in the configuration,
//! is invalid, and so are its sessions. Rejections of a token are logged once per minute, with a count.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{By, Operator};
use base::clock::{self, Lived, Unix};
use catalog::{AuditChange, KeyHash, ResourceKind};
use settings::{ADMIN, AdminToken, Role};

/// Minimum time between two log entries about rejections of a token. Otherwise a client that repeats a request would
/// fill the log and the audit log.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// A token of the admin listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub name: Arc<str>,
    pub role: Role,
    pub expires_at: Option<Unix>,
    hash: KeyHash,
}

impl Token {
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// The actor of its calls in the audit log.
    pub fn who(&self) -> Arc<str> {
        self.said("admin token", "token")
    }

    /// The actor of its sessions in the audit log.
    pub fn who_on_page(&self) -> Arc<str> {
        self.said("admin page", "page of token")
    }

    /// The actor of a sign-in by its link in the audit log.
    pub fn who_with_link(&self) -> Arc<str> {
        self.said("link", "link of token")
    }

    fn said(&self, of_main: &str, of_other: &str) -> Arc<str> {
        match &*self.name {
            ADMIN => of_main.into(),
            name => format!("{of_other} {name}").into(),
        }
    }

    fn is_valid(&self) -> bool {
        let expires = self.expires_at;
        expires.is_none_or(|expires_at| Unix::now() < expires_at)
    }
}

impl From<&AdminToken> for Token {
    fn from(declared: &AdminToken) -> Self {
        let expires = declared.expires_at.as_deref();
        Self {
            name: declared.name.as_str().into(),
            role: declared.role,
            expires_at: expires.and_then(clock::parse_rfc3339),
            // Always there once the configuration was checked.
            hash: declared.digest().map_or(KeyHash::NONE, KeyHash::from_bytes),
        }
    }
}

/// The tokens of a daemon.
#[derive(Debug)]
pub struct Access {
    main: Arc<Token>,
    declared: RwLock<Vec<Arc<Token>>>,
    refusals: Mutex<HashMap<Arc<str>, Refusals>>,
}

/// The rejections of one token.
#[derive(Debug, Default)]
struct Refusals {
    logged_at: Option<Lived>,
    unlogged: u64,
}

impl Access {
    /// The admin token `main`, and the tokens in the configuration.
    pub fn new(main: &str, settings: &settings::Admin) -> Self {
        Self::of_digest(KeyHash::of(main), settings)
    }

    /// The same, if only the digest of the admin token is known, as on a node that did not make the token itself.
    pub fn of_digest(main: KeyHash, settings: &settings::Admin) -> Self {
        let main = Token {
            name: ADMIN.into(),
            role: Role::Admin,
            expires_at: None,
            hash: main,
        };
        let access = Self {
            main: Arc::new(main),
            declared: RwLock::default(),
            refusals: Mutex::default(),
        };
        access.renew(settings);
        access
    }

    /// A digest of all tokens, in any order; the same on nodes of a cluster that accept the same tokens. Nodes compare
    /// it: with different tokens, the answer to a call would depend on its node.
    pub fn digest(&self) -> [u8; 16] {
        let declared = self.declared.read().unwrap_or_else(PoisonError::into_inner);
        let line = |token: &Arc<Token>| {
            let expires = token.expires_at.map(clock::rfc3339);
            let role = token.role.as_str();
            format!("{} {role} {expires:?} {}", token.name, token.hash)
        };
        let mut lines: Vec<String> = declared.iter().chain([&self.main]).map(line).collect();
        lines.sort_unstable();
        let digest = Sha256::digest(lines.join("\n"));
        let mut short = [0; 16];
        let bytes = short.len();
        short.copy_from_slice(&digest[..bytes]);
        short
    }

    /// Replaces the tokens after a change of the configuration. The admin token stays as it was at the start. Counts of
    /// removed tokens go, so that the table has at most one entry for each token.
    pub fn renew(&self, settings: &settings::Admin) {
        let tokens = settings.tokens.iter().map(|token| Arc::new(token.into()));
        let tokens = tokens.collect();
        *self
            .declared
            .write()
            .unwrap_or_else(PoisonError::into_inner) = tokens;
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |name: &str| settings.tokens.iter().any(|token| token.name == name);
        refusals.retain(|name, _| is_there(name));
    }

    pub fn main(&self) -> Arc<Token> {
        Arc::clone(&self.main)
    }

    /// Digests of all tokens that are valid now.
    pub fn digests(&self) -> Vec<[u8; 32]> {
        let declared = self.declared.read().unwrap_or_else(PoisonError::into_inner);
        let all = std::iter::once(&self.main).chain(&*declared);
        let valid = all.filter(|token| token.is_valid());
        valid.map(|token| *token.hash.as_bytes()).collect()
    }

    /// The token with this text, if it is valid now.
    pub fn token(&self, text: &str) -> Option<Arc<Token>> {
        // Comparing digests takes the same time for every wrong token that somebody can choose.
        self.with_hash(KeyHash::of(text))
    }

    /// The token with this digest, as it is in the configuration now, if it is valid. Sessions look up their token here
    /// at each use, so that they end with it.
    pub fn with_hash(&self, hash: KeyHash) -> Option<Arc<Token>> {
        let declared = self.declared.read().unwrap_or_else(PoisonError::into_inner);
        let mut all = std::iter::once(&self.main).chain(&*declared);
        let found = all.find(|token| token.hash == hash && token.is_valid());
        found.cloned()
    }

    /// Counts a rejection of a token because of its role; returns how many rejections to log now, if any.
    fn note_refusal(&self, token: &Token, now: Lived) -> Option<u64> {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let refusals = refusals.entry(Arc::clone(&token.name)).or_default();
        refusals.unlogged += 1;
        let last = refusals.logged_at;
        if last.is_some_and(|logged_at| now - logged_at < LOGGED_EVERY) {
            return None;
        }
        refusals.logged_at = Some(now);
        Some(std::mem::take(&mut refusals.unlogged))
    }
}

impl Operator {
    /// Records that `token` does not have the role `needed` for the act `what`. Returns the sentence for the client.
    pub async fn refuse_role(&self, token: &Token, needed: Role, what: &str, by: By) -> String {
        let (has, needed) = (token.role.as_str(), needed.as_str());
        if let Some(count) = self.access.note_refusal(token, Lived::now()) {
            tracing::warn!(
                token = &*token.name,
                role = has,
                needed,
                count,
                "rejected: the role of the token does not allow it"
            );
            let details = json!({"refused": count, "role": has, "needed": needed, "last": what});
            let change =
                AuditChange::done("role_refused", ResourceKind::Session, &*token.name, details);
            self.record(by, change).await;
        }
        format!(
            "this needs the role {needed}, and the token {} has the role {has}; use another token, or change its role in [[admin.tokens]] of the configuration",
            token.name
        )
    }
}

#[cfg(test)]
mod tests;
