//! Tickets: what stands for a read key in a URL, once and for half a minute.
//!
//! `http` gives them to who has a read key and takes them back when a connection is opened.
//!
//! **Invariant**: a ticket opens one connection at most, never from another origin than it is bound to,
//! and never to streams that its key could not read. Only its digest is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::clock::{self, Lived, Unix};
use base::text::hex;
use catalog::{KeyHash, Reader};

/// How long a ticket is good.
const TICKET: Duration = Duration::from_secs(30);
/// Tickets at once, of all keys and of one; the oldest give way.
const TICKETS_MAX: usize = 50_000;
const TICKETS_OF_KEY_MAX: usize = 1_000;
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

/// The tickets that were given out and not used.
#[derive(Debug, Default)]
pub struct Tickets(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    /// Each with its end.
    grants: HashMap<KeyHash, (Lived, Grant)>,
    /// In the order of their ends, which is that of their making. Some are used.
    order: Queue,
    /// The same by the name of a read key.
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
        // Of keys that are gone nothing is kept.
        if keys.len() > order.len() {
            keys.retain(|_, queue| queue.back().is_some_and(|(ends_at, _)| *ends_at > now));
        }
    }
}

impl Tickets {
    /// A new ticket and when it ends.
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

    /// Uses a ticket up. `None` if it is unknown, used, too old, bound to another origin than
    /// `comes_from` accepts, or of a key that has ended.
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
