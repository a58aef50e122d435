//! Tickets: they replace a read key in a URL, once, for 30 seconds.
//!
//! `http` issues them to clients with a read key and redeems them when a connection is opened. A daemon alone keeps them in
//! memory. Nodes of a cluster keep them in its database, so that a ticket opens a connection to any node.
//!
//! **Invariant**: a ticket opens one connection at most, never from an origin other than the one it is bound to, and
//! never to streams that its key cannot read. Only its digest is kept.

mod given;
mod shared;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;

use base::clock::{self, Lived, Unix};
use base::text::hex;
use catalog::{Catalog, KeyHash, Reader};
use given::Given;
use postgres::{AccessTables, DatabaseError};
use shared::SharedTickets;

/// How long a ticket is valid. It is in a URL, which logs may keep, so it is short-lived and works once.
const TICKET: Duration = Duration::from_secs(30);
/// Maximum number of tickets, of all keys and of one key; a new one replaces the oldest.
pub const TICKETS_MAX: usize = 50_000;
const TICKETS_OF_KEY_MAX: usize = 1_000;
/// Prefix of a ticket.
pub const PREFIX: &str = "tk_";

/// Why a ticket is neither issued nor redeemed.
#[derive(Debug, Error)]
pub enum TicketError {
    /// The system has no random numbers.
    #[error("the system has no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// Nobody knows the tickets while the database of the cluster does not answer.
    #[error("{0}")]
    Database(#[from] DatabaseError),
}

/// What a ticket permits.
#[derive(Debug, Clone)]
pub struct Grant {
    /// Its read key.
    pub reader: Arc<Reader>,
    /// The streams that the client can follow.
    pub streams: Vec<Arc<str>>,
    /// The only origin that can use it; `None`: every origin that can read.
    pub origin: Option<String>,
}

/// Issued tickets that were not used.
#[derive(Debug)]
pub struct Tickets(Kept);

/// Where they are kept.
#[derive(Debug)]
enum Kept {
    Here(Mutex<Given>),
    InDatabase(SharedTickets),
}

impl Default for Tickets {
    /// Of a daemon alone.
    fn default() -> Self {
        Self(Kept::Here(Mutex::default()))
    }
}

impl Tickets {
    /// Of a node; the keys are those of `catalog` when a ticket is redeemed.
    pub fn of_cluster(tables: AccessTables, catalog: &Arc<Catalog>) -> Self {
        let catalog = Arc::clone(catalog);
        Self(Kept::InDatabase(SharedTickets { tables, catalog }))
    }

    /// Issues a ticket; returns it and its expiry.
    ///
    /// # Errors
    /// The system has no random numbers, or the database does not answer.
    pub async fn give(&self, grant: Grant) -> Result<(String, Unix), TicketError> {
        let mut secret = [0; 20];
        getrandom::fill(&mut secret)?;
        let ticket = [PREFIX, &hex(&secret)].concat();
        let hash = KeyHash::of(&ticket);
        let ends_at = match &self.0 {
            Kept::Here(given) => {
                let now = Lived::now();
                let ends_at = now + TICKET;
                let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
                given.put(hash, ends_at, now, grant);
                clock::unix_of_lived(ends_at)
            }
            Kept::InDatabase(shared) => shared.give(hash, &grant).await?,
        };
        Ok((ticket, ends_at))
    }

    /// Redeems a ticket. `None` if it is unknown, used, expired, bound to an origin that `comes_from` does not accept,
    /// or of a key that is no longer valid.
    ///
    /// # Errors
    /// The database does not answer: the ticket may be used up.
    pub async fn take(
        &self,
        ticket: &str,
        comes_from: impl FnOnce(&str) -> bool,
    ) -> Result<Option<Grant>, TicketError> {
        let hash = KeyHash::of(ticket);
        let grant = match &self.0 {
            Kept::Here(given) => {
                let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
                given.take(hash, Lived::now())
            }
            Kept::InDatabase(shared) => shared.take(hash).await?,
        };
        let Some(grant) = grant else {
            return Ok(None);
        };
        let at_home = grant.origin.as_deref().is_none_or(comes_from);
        let valid = grant.reader.is_valid_at(Unix::now());
        Ok((at_home && valid).then_some(grant))
    }
}
