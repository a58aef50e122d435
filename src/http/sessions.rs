//! Sessions of the admin pages.
//!
//! The sign-in page creates sessions, and every page requires one. The command line and the admin API create
//! invitations, and list and end sessions. A daemon alone keeps them in memory. Nodes of a cluster keep them in its
//! database, so that a session is valid on every node and ends on all of them at once.
//!
//! **Invariant**: only the digest of the secret of a session or invitation is kept. A token has at most `SESSIONS_MAX`
//! sessions. Each ends at sign-out, after [`SESSION`], with its token, or with the process of a daemon alone, and has the
//! current role of its token. A new key is kept for the page that shows it, for at most `visitor::ISSUED_KEPT`, and is
//! returned once; in a database it can be read only with the secret of the session.

mod invitation;
mod issued;
mod memory;
mod sealed;
mod shared;
mod visitor;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;
use uuid::Uuid;

use base::clock::{self, Unix};
use base::text::hex;
use catalog::{AuditChange, KeyHash, ResourceKind};
pub use invitation::Invitation;
pub use issued::IssuedKey;
use journal::log::Client;
use memory::State;
use operate::access::{Access, Token};
use postgres::{AccessTables, DatabaseError};
use shared::SharedSessions;
pub use visitor::Visitor;

/// Maximum duration of a session.
pub const SESSION: Duration = Duration::from_hours(12);
/// Maximum sessions of a token; one more ends the oldest.
const SESSIONS_MAX: usize = 100;

/// Why a session or an invitation can be neither made nor looked up.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The system has no random numbers.
    #[error("the system has no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// Nobody knows the sessions while the database of the cluster does not answer.
    #[error("{0}")]
    Database(#[from] DatabaseError),
}

/// The sessions and the invitations of a daemon, or of all nodes of a cluster.
#[derive(Debug)]
pub struct Sessions {
    access: Arc<Access>,
    kept: Kept,
}

/// Where they are kept.
#[derive(Debug)]
enum Kept {
    Here(Mutex<State>),
    InDatabase(SharedSessions),
}

/// A session, as lists show it.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// Its ID, which grants no access. So a list can be shown, and a session ended, without its secret.
    pub id: Uuid,
    /// The token of the sign-in.
    pub token: Arc<Token>,
    /// The client of the sign-in.
    pub client: String,
    /// Time of the sign-in.
    pub since: Unix,
    /// Time of the last request for a page; in a cluster, about a minute ago at most.
    pub seen_at: Unix,
    /// Its expiry.
    pub ends_at: Unix,
}

impl SignedIn {
    /// The entry in the audit log for a session that ended early.
    pub fn signed_out(&self) -> AuditChange {
        let was = json!({
            "token": &*self.token.name,
            "client": self.client,
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

    /// It ends with its token at the latest.
    fn within_token(self) -> Self {
        let ends_at = self.token.expires_at;
        Self {
            ends_at: ends_at.map_or(self.ends_at, |end| end.min(self.ends_at)),
            ..self
        }
    }
}

impl Sessions {
    /// Without sessions, of a daemon alone; `access` has the tokens.
    pub fn new(access: &Arc<Access>) -> Self {
        Self {
            access: Arc::clone(access),
            kept: Kept::Here(Mutex::default()),
        }
    }

    /// Those of a cluster.
    pub fn of_cluster(access: &Arc<Access>, tables: AccessTables) -> Self {
        Self {
            access: Arc::clone(access),
            kept: Kept::InDatabase(SharedSessions::new(tables)),
        }
    }

    /// Whether all nodes of a cluster have them.
    pub fn are_shared(&self) -> bool {
        matches!(self.kept, Kept::InDatabase(_))
    }

    /// Creates a session with this token; returns its ID and its secret.
    ///
    /// # Errors
    /// The system has no random numbers, or the database does not answer.
    pub async fn begin(
        &self,
        token: &Token,
        client: Client,
    ) -> Result<(Uuid, String), SessionError> {
        let secret = random()?;
        let id = Uuid::now_v7();
        match &self.kept {
            Kept::Here(state) => {
                let session = memory::Session::new(id, token, client, &secret);
                memory::lock(state).begin(KeyHash::of(&secret), session, &self.access);
            }
            Kept::InDatabase(shared) => shared.begin(id, token, client, &secret).await?,
        }
        Ok((id, secret))
    }

    /// All sessions, the newest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list(&self) -> Result<Vec<SignedIn>, SessionError> {
        match &self.kept {
            Kept::Here(state) => Ok(memory::lock(state).list(&self.access)),
            Kept::InDatabase(shared) => shared.list(&self.access).await,
        }
    }

    /// Ends a session and returns it; `None`: there is no such session.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn end(&self, id: Uuid) -> Result<Option<SignedIn>, SessionError> {
        match &self.kept {
            Kept::Here(state) => Ok(memory::lock(state).end(id, &self.access)),
            Kept::InDatabase(shared) => shared.end(id, &self.access).await,
        }
    }
}

/// Returns 256 random bits as hexadecimal digits.
fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}
