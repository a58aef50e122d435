//! The sessions and invitations of a cluster, in its database.
//!
//! **Invariant**: every request asks the database, so that a session that ended on one node is over on all. While the
//! database does not answer, a session that this node has seen within [`TRUSTED`] may read, and nothing else.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use super::invitation::INVITATION;
use super::{SESSION, SESSIONS_MAX, SessionError, SignedIn};
use base::clock::{Unix, since_boot};
use catalog::KeyHash;
use journal::log::Client;
use operate::access::{Access, Token};
use postgres::{AccessTables, DatabaseError, NewSession, SessionRow, VisitRow};

/// So long a session that was seen may read without the database.
pub(super) const TRUSTED: Duration = Duration::from_mins(5);

/// The sessions of all nodes.
#[derive(Debug)]
pub(super) struct SharedSessions {
    pub(super) tables: AccessTables,
    /// So pages can be read while the database is away, which is when operators need them.
    seen: Mutex<HashMap<KeyHash, Seen>>,
}

/// A session that the database has confirmed.
#[derive(Debug, Clone, Copy)]
struct Seen {
    id: Uuid,
    token: KeyHash,
    /// When, by [`since_boot`].
    at: Duration,
}

impl SharedSessions {
    /// Those in these tables.
    pub(super) fn new(tables: AccessTables) -> Self {
        Self {
            tables,
            seen: Mutex::default(),
        }
    }

    /// Adds a session.
    pub(super) async fn begin(
        &self,
        id: Uuid,
        token: &Token,
        client: Client,
        secret: &str,
    ) -> Result<(), DatabaseError> {
        let new = NewSession {
            sha256: *KeyHash::of(secret).as_bytes(),
            id,
            token: *token.hash().as_bytes(),
            client: client.to_string(),
        };
        let beginning = self.tables.begin_session(&new, SESSION, SESSIONS_MAX);
        beginning.await
    }

    /// The session with this secret at a request of its. `reads`: the request changes nothing.
    pub(super) async fn visit(
        &self,
        secret: KeyHash,
        reads: bool,
    ) -> Result<Option<VisitRow>, DatabaseError> {
        let visit = self.tables.visit(*secret.as_bytes()).await;
        match &visit {
            Ok(Some(visit)) => self.note(secret, visit),
            Ok(None) => self.forget(|_, other| other == secret),
            Err(_) if reads => {
                if let Some(seen) = self.trusted(secret) {
                    return Ok(Some(VisitRow {
                        id: seen.id,
                        token: *seen.token.as_bytes(),
                        has_flash: false,
                        issued_for: None,
                    }));
                }
            }
            Err(_) => {}
        }
        visit
    }

    /// All sessions of tokens that are valid here, the newest first.
    pub(super) async fn list(&self, access: &Access) -> Result<Vec<SignedIn>, SessionError> {
        let rows = self.tables.sessions(&access.digests()).await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| shown(row, access))
            .collect())
    }

    /// Removes the session with this ID.
    pub(super) async fn end(
        &self,
        id: Uuid,
        access: &Access,
    ) -> Result<Option<SignedIn>, SessionError> {
        let row = self.tables.end_session(id, &access.digests()).await?;
        self.forget(|seen, _| seen.id == id);
        Ok(row.and_then(|row| shown(row, access)))
    }

    /// Adds an invitation; returns its expiry.
    pub(super) async fn invite(
        &self,
        token: &Token,
        invitation: KeyHash,
    ) -> Result<Unix, DatabaseError> {
        let (token, invitation) = (token.hash(), invitation.as_bytes());
        let inviting = self
            .tables
            .invite(*token.as_bytes(), *invitation, INVITATION);
        inviting.await
    }

    /// Removes an invitation; returns the digest of its token.
    pub(super) async fn accept_invitation(
        &self,
        invitation: KeyHash,
    ) -> Result<Option<KeyHash>, DatabaseError> {
        let token = self.tables.accept_invitation(*invitation.as_bytes());
        Ok(token.await?.map(KeyHash::from_bytes))
    }

    /// The database has confirmed it.
    fn note(&self, secret: KeyHash, visit: &VisitRow) {
        let now = since_boot();
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // All but the newest few are of no use any more.
        all.retain(|_, seen| now < seen.at + TRUSTED);
        let seen = Seen {
            id: visit.id,
            token: KeyHash::from_bytes(visit.token),
            at: now,
        };
        all.insert(secret, seen);
    }

    fn trusted(&self, secret: KeyHash) -> Option<Seen> {
        let all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = all.get(&secret).copied();
        seen.filter(|seen| since_boot() < seen.at + TRUSTED)
    }

    fn forget(&self, is_over: impl Fn(&Seen, KeyHash) -> bool) {
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|secret, seen| !is_over(seen, *secret));
    }

    /// As if the database had confirmed all of them so long ago.
    #[cfg(test)]
    pub(super) fn age(&self, by: Duration) {
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for seen in all.values_mut() {
            seen.at = seen.at.saturating_sub(by);
        }
    }
}

fn shown(row: SessionRow, access: &Access) -> Option<SignedIn> {
    let shown = SignedIn {
        id: row.id,
        token: access.with_hash(KeyHash::from_bytes(row.token))?,
        client: row.client,
        since: row.since,
        seen_at: row.seen,
        ends_at: row.ends,
    };
    Some(shown.within_token())
}
