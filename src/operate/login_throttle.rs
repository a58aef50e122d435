//! Wrong admin tokens: which clients send them, how often, and how long each must wait.
//!
//! The admin API and the sign-in page call it before they respond. The right token is always accepted: it cannot be
//! guessed, and an unauthenticated client at the same address or behind the same proxy must not lock an operator out.
//!
//! **Invariant**: a wrong token is stored nowhere; rejections are logged once per minute, with a count.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;

use super::{By, Operator};
use base::clock::{self, Lived};
use catalog::{AuditChange, ResourceKind};
use journal::log::Client;
use settings::party;

/// Wrong tokens of a client before it must wait.
const FREE: u32 = 5;
/// Wrong tokens are forgotten this long after the last one and its pause.
const FORGOTTEN: Duration = Duration::from_mins(1);
/// The longest pause, in seconds.
const PAUSE_MAX: u64 = 300;
/// Maximum number of clients that are remembered. Otherwise an unauthenticated client with many addresses could fill
/// the memory.
const CLIENTS_MAX: usize = 10_000;
/// Minimum time between two removals of forgotten clients. A removal reads the whole table, and a flood must not cause
/// one with each rejection.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Minimum time between two log entries about a client.
const LOGGED_EVERY: Duration = Duration::from_mins(1);
/// Wrong tokens within that time that are a problem.
const PROBLEM_MIN: u64 = 20;

/// Maximum clients that are logged in that time, so that unauthenticated clients cannot fill the audit log.
const LOGGED_MAX: u32 = 10;

/// Wrong tokens of the last minutes.
#[derive(Debug, Default)]
pub struct LoginThrottle(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    clients: HashMap<Client, Failures>,
    /// Time of the last removal of forgotten clients.
    swept_at: Lived,
    /// Start of the current interval, and the number of logged clients.
    logged: (Lived, u32),
}

/// Wrong tokens of one client.
#[derive(Debug, Default)]
struct Failures {
    /// Wrong tokens with less than a minute between two.
    count: u32,
    last_at: Lived,
    wait_until: Lived,
    logged_at: Option<Lived>,
    unlogged: u64,
}

/// Response to a wrong token.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// Seconds that the client must wait.
    pause: Option<u64>,
    /// Number of rejections to log now.
    to_log: Option<u64>,
}

impl LoginThrottle {
    fn note(&self, client: Client, now: Lived) -> Verdict {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State {
            clients,
            swept_at,
            logged,
        } = &mut *state;
        if clients.len() >= CLIENTS_MAX && now - *swept_at >= SWEEP_EVERY {
            *swept_at = now;
            clients.retain(|_, failures| !failures.is_over(now));
        }
        // Until a sweep makes room, all others are as one, and wait as one: the table does not grow.
        let client = match clients.len() < CLIENTS_MAX || clients.contains_key(&client) {
            true => client,
            false => Client::Many,
        };
        let failures = clients.entry(client).or_default();
        if failures.is_over(now) {
            failures.count = 0;
        }
        failures.last_at = now;
        failures.unlogged += 1;
        if now - logged.0 >= LOGGED_EVERY {
            *logged = (now, 0);
        }
        let is_due = (failures.logged_at).is_none_or(|logged_at| now - logged_at >= LOGGED_EVERY);
        let to_log = (is_due && logged.1 < LOGGED_MAX).then(|| {
            logged.1 += 1;
            failures.logged_at = Some(now);
            std::mem::take(&mut failures.unlogged)
        });
        let left = clock::millis(failures.wait_until - now);
        if left > 0 {
            let pause = Some(left.div_ceil(1_000));
            return Verdict { pause, to_log };
        }
        failures.count += 1;
        let beyond = failures.count.saturating_sub(FREE);
        let pause = (beyond > 0).then(|| {
            let seconds = 1_u64 << (beyond - 1).min(16);
            seconds.min(PAUSE_MAX)
        });
        failures.wait_until = now + Duration::from_secs(pause.unwrap_or(0));
        Verdict { pause, to_log }
    }

    /// The clients with many wrong tokens lately.
    pub(super) fn busy(&self) -> Vec<String> {
        let now = Lived::now();
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let many = state.clients.iter().filter(|(_, failures)| {
            !failures.is_over(now) && u64::from(failures.count) + failures.unlogged >= PROBLEM_MIN
        });
        many.map(|(client, _)| named(*client)).collect()
    }
}

impl Failures {
    fn is_over(&self, now: Lived) -> bool {
        now - self.last_at.max(self.wait_until) >= FORGOTTEN
    }
}

/// The identity of a client: of IPv6, a whole network, because one machine has all addresses of its network.
fn counted(client: Client) -> Client {
    match client {
        Client::Address(address) => Client::Address(party(address)),
        other => other,
    }
}

fn named(client: Client) -> String {
    match client {
        Client::Many => "somebody".to_owned(),
        client => client.to_string(),
    }
}

impl Operator {
    /// Records a wrong admin token. Returns the seconds that the client must wait, if any.
    pub async fn wrong_token(&self, by: By) -> Option<u64> {
        self.metrics.admin_refused.inc();
        let client = counted(by.client);
        let Verdict { pause, to_log } = self.login_throttle.note(client, Lived::now());
        if let Some(count) = to_log {
            let from = named(client);
            tracing::warn!(client = %from, count, "invalid admin tokens rejected");
            let change = AuditChange::done(
                "sign_in_refused",
                ResourceKind::Session,
                from,
                json!({"refused": count}),
            );
            self.record(by, change).await;
        }
        pause
    }
}

#[cfg(test)]
mod tests;
