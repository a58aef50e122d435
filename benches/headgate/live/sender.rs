//! Sends versions at a fixed rate, whatever the answers do.
//!
//! Called by the measurements with load. Blocking sockets on threads of their own: the time of an answer must not
//! wait for the thread that reads what a thousand renderers were sent.
//!
//! **Invariant:** open loop. A request that had to wait because the answer before it was late counts from when it
//! was due, so a pause of the server is seen by every request that it held up.

use std::collections::BTreeMap;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::item::Versions;
use super::server::Server;
use crate::Result;
use crate::http::Client;

/// Rest before the first request, so that all senders are waiting for it.
const LEAD: Duration = Duration::from_millis(20);

/// Requests that were not accepted: they cost less than the others, so their round is not comparable.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Failures {
    /// Answers that refused them, by status.
    pub(crate) refused: BTreeMap<u16, u64>,
    /// Broken connections.
    pub(crate) broken: u64,
}

impl Failures {
    /// Whether there were none.
    pub(crate) fn is_empty(&self) -> bool {
        self.refused.is_empty() && self.broken == 0
    }
}

/// What the senders were answered.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Request to complete answer, µs, of the accepted ones that count.
    pub(crate) micros: Vec<f64>,
    /// Accepted ones, also those that do not count.
    pub(crate) accepted: u64,
    /// The others.
    pub(crate) failures: Failures,
    /// Requests that waited for the answer before theirs.
    pub(crate) late: u64,
    /// The newest accepted version of each key.
    pub(crate) newest: BTreeMap<u64, usize>,
    /// From the first request to the last answer.
    pub(crate) took: Duration,
}

impl Answers {
    fn add(&mut self, other: Self) {
        self.micros.extend(other.micros);
        self.accepted += other.accepted;
        for (status, count) in other.failures.refused {
            *self.failures.refused.entry(status).or_default() += count;
        }
        self.failures.broken += other.failures.broken;
        self.late += other.late;
        for (key, index) in other.newest {
            let newest = self.newest.entry(key).or_default();
            *newest = index.max(*newest);
        }
        self.took = self.took.max(other.took);
    }
}

/// Sends all `versions`, `per_second` of them a second, over `senders` connections in turn. Where the number of keys
/// is a multiple of `senders`, the versions of one key go over one connection and so in order.
pub(crate) fn send(
    server: &Server,
    versions: &Versions,
    per_second: f64,
    senders: usize,
) -> Result<Answers> {
    let interval = Duration::from_secs_f64(1.0 / per_second);
    let first = Instant::now() + LEAD;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..senders)
            .map(|sender| {
                let indices = (sender..versions.count()).step_by(senders);
                let work = indices.map(move |index| (index, first + interval * index as u32));
                scope.spawn(|| send_each(server, versions, first, work))
            })
            .collect();
        let mut total = Answers::default();
        for thread in threads {
            total.add(thread.join().map_err(|_| "a sender panicked")??);
        }
        Ok(total)
    })
}

/// One sender: versions and when each is due.
fn send_each(
    server: &Server,
    versions: &Versions,
    first: Instant,
    work: impl Iterator<Item = (usize, Instant)>,
) -> io::Result<Answers> {
    let mut answers = Answers::default();
    let mut client = Client::connect(server.address)?;
    for (index, due) in work {
        let request = server.publication(versions.key(index), versions.revision(index));
        let now = Instant::now();
        let sent = if now < due {
            sleep(due - now);
            Instant::now()
        } else {
            answers.late += 1;
            due
        };
        versions.set_sent(index, sent);
        match client.exchange(&request) {
            Ok((status, _)) if server.accepts(status) => {
                answers.accepted += 1;
                answers.newest.insert(versions.key(index), index);
                if versions.counts(index) {
                    answers.micros.push(sent.elapsed().as_secs_f64() * 1e6);
                }
            }
            Ok((status, _)) => *answers.failures.refused.entry(status).or_default() += 1,
            Err(_) => {
                answers.failures.broken += 1;
                client = Client::connect(server.address)?;
            }
        }
    }
    answers.took = first.elapsed();
    Ok(answers)
}
