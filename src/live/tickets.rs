//! Tickets: what stands for a read key in a URL, once and for half a minute.
//!
//! `http` gives them to who has a read key and takes them back when a connection is opened.
//!
//! **Invariant**: a ticket opens one connection at most, never from another origin than it is bound to,
//! and never to streams that its key could not read. Only its digest is kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::catalog::{KeyHash, Reader};
use crate::clock;

/// How long a ticket is good.
const TICKET_MS: u64 = 30_000;
/// Tickets at once; the oldest give way.
const TICKETS_MAX: usize = 50_000;
/// What a ticket begins with.
pub const PREFIX: &str = "tk_";

/// What a ticket is good for.
#[derive(Debug, Clone)]
pub struct Grant {
    /// Whose it is.
    pub reader: Arc<Reader>,
    /// The streams that may be followed.
    pub streams: Vec<Arc<str>>,
    /// The one origin that may use it; `None`: any that may read at all.
    pub origin: Option<String>,
}

/// The tickets that were given out and not used, each with its end in time lived.
#[derive(Debug, Default)]
pub struct Tickets(Mutex<HashMap<KeyHash, (u64, Grant)>>);

impl Tickets {
    /// A new ticket and when it ends, Unix time in milliseconds.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn give(&self, grant: Grant) -> Result<(String, u64), getrandom::Error> {
        let mut secret = [0; 20];
        getrandom::fill(&mut secret)?;
        let mut ticket = PREFIX.to_owned();
        for byte in secret {
            ticket.push_str(&format!("{byte:02x}"));
        }
        let now_ms = clock::lived_ms();
        let ends_ms = now_ms + TICKET_MS;
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() >= TICKETS_MAX {
            tickets.retain(|_, (ends_ms, _)| *ends_ms > now_ms);
        }
        if tickets.len() >= TICKETS_MAX
            && let Some(oldest) = tickets
                .iter()
                .min_by_key(|(_, (ends_ms, _))| *ends_ms)
                .map(|(hash, _)| *hash)
        {
            tickets.remove(&oldest);
        }
        tickets.insert(KeyHash::of(&ticket), (ends_ms, grant));
        Ok((ticket, clock::unix_of_lived(ends_ms)))
    }

    /// Uses a ticket up. `None` if it is unknown, used, too old, bound to another origin than
    /// `comes_from` accepts, or of a key that has ended.
    pub fn take(&self, ticket: &str, comes_from: impl FnOnce(&str) -> bool) -> Option<Grant> {
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (ends_ms, grant) = tickets.remove(&KeyHash::of(ticket))?;
        drop(tickets);
        let in_time = clock::lived_ms() < ends_ms;
        let at_home = grant.origin.as_deref().is_none_or(comes_from);
        let valid = grant.reader.is_valid_at(clock::unix_ms());
        (in_time && at_home && valid).then_some(grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(origin: Option<&str>) -> Grant {
        let streams = vec!["orders".into()];
        Grant {
            reader: Arc::new(Reader::new("screen", streams.clone())),
            streams,
            origin: origin.map(str::to_owned),
        }
    }

    #[test]
    fn a_ticket_is_good_once() {
        let tickets = Tickets::default();
        let (ticket, ends_ms) = tickets.give(grant(None)).expect("random numbers");
        assert!(ends_ms > clock::unix_ms() + 20_000);
        assert!(tickets.take("tk_another", |_| true).is_none());
        assert_eq!(
            tickets
                .take(&ticket, |_| true)
                .expect("the first time")
                .streams,
            ["orders".into()]
        );
        assert!(tickets.take(&ticket, |_| true).is_none());
    }

    #[test]
    fn a_bound_ticket_is_good_for_its_origin_only_and_used_up_by_a_try() {
        let tickets = Tickets::default();
        let bound = || {
            let grant = grant(Some("https://a.example"));
            tickets.give(grant).expect("random numbers").0
        };
        let from = |page: &'static str| move |bound: &str| bound == page;
        let (a, b) = ("https://a.example", "https://b.example");
        assert!(tickets.take(&bound(), from(a)).is_some());
        let ticket = bound();
        assert!(tickets.take(&ticket, from(b)).is_none());
        assert!(tickets.take(&ticket, from(a)).is_none());
    }
}
