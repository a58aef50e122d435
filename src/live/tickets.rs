//! Tickets: they replace a read key in a URL, once, for 30 seconds.
//!
//! `http` issues them to clients with a read key and redeems them when a connection is opened.
//!
//! **Invariant**: a ticket opens one connection at most, never from an origin other than the one it is bound to, and
//! never to streams that its key cannot read. Only its digest is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::clock::{self, Lived, Unix};
use base::text::hex;
use catalog::{KeyHash, Reader};

/// How long a ticket is valid.
const TICKET: Duration = Duration::from_secs(30);
/// Maximum number of tickets, of all keys and of one key; a new one replaces the oldest.
const TICKETS_MAX: usize = 50_000;
const TICKETS_OF_KEY_MAX: usize = 1_000;
/// Prefix of a ticket.
pub const PREFIX: &str = "tk_";

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
#[derive(Debug, Default)]
pub struct Tickets(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    /// Each with its expiry.
    grants: HashMap<KeyHash, (Lived, Grant)>,
    /// In the order of their expiry, which is the order of their issue. Some are used.
    order: Queue,
    /// The tickets of each read key, by its name.
    keys: HashMap<Box<str>, Queue>,
}

type Queue = VecDeque<(Lived, KeyHash)>;

impl Given {
    fn put(&mut self, ticket: KeyHash, ends_at: Lived, now: Lived, grant: Grant) {
        let Self {
            grants,
            order,
            keys,
        } = self;
        let key = grant.reader.name.clone();
        let own = keys.entry(key).or_default();
        for (queue, max) in [(&mut *own, TICKETS_OF_KEY_MAX), (&mut *order, TICKETS_MAX)] {
            while let Some((ends_at, first)) = queue.front()
                && (queue.len() >= max || *ends_at <= now)
            {
                grants.remove(first);
                queue.pop_front();
            }
            queue.push_back((ends_at, ticket));
        }
        grants.insert(ticket, (ends_at, grant));
        // Nothing is kept of keys that no longer exist.
        if keys.len() > order.len() {
            keys.retain(|_, queue| queue.back().is_some_and(|(ends_at, _)| *ends_at > now));
        }
    }
}

impl Tickets {
    /// Issues a ticket; returns it and its expiry.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn give(&self, grant: Grant) -> Result<(String, Unix), getrandom::Error> {
        let mut secret = [0; 20];
        getrandom::fill(&mut secret)?;
        let ticket = [PREFIX, &hex(&secret)].concat();
        let now = Lived::now();
        let ends_at = now + TICKET;
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.put(KeyHash::of(&ticket), ends_at, now, grant);
        Ok((ticket, clock::unix_of_lived(ends_at)))
    }

    /// Redeems a ticket. `None` if it is unknown, used, expired, bound to an origin that `comes_from` does not accept,
    /// or of a key that is no longer valid.
    pub fn take(&self, ticket: &str, comes_from: impl FnOnce(&str) -> bool) -> Option<Grant> {
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (ends_at, grant) = tickets.grants.remove(&KeyHash::of(ticket))?;
        drop(tickets);
        let in_time = Lived::now() < ends_at;
        let at_home = grant.origin.as_deref().is_none_or(comes_from);
        let valid = grant.reader.is_valid_at(Unix::now());
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
        let (ticket, ends_at) = tickets.give(grant(None)).expect("random numbers");
        assert!(ends_at > Unix::now() + Duration::from_secs(20));
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
    fn a_key_gives_way_to_itself_and_to_nobody_else() {
        let tickets = Tickets::default();
        let (screen, _) = tickets.give(grant(None)).expect("random numbers");
        let greedy = || Grant {
            reader: Arc::new(Reader::new("greedy", Vec::new())),
            streams: Vec::new(),
            origin: None,
        };
        let mut given = Vec::new();
        for _ in 0..TICKETS_OF_KEY_MAX + 10 {
            given.push(tickets.give(greedy()).expect("random numbers").0);
        }
        for (number, ticket) in given.iter().enumerate() {
            let is_there = tickets.take(ticket, |_| true).is_some();
            assert_eq!(is_there, number >= 10, "{number}");
        }
        assert!(tickets.take(&screen, |_| true).is_some());
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
