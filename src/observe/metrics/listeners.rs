//! The connections of the two listeners: how many are open, and whether new ones can be accepted.
//!
//! `http` counts them; operators are told when a listener takes no more.
//!
//! **Invariant**: a connection is counted from when it was accepted until it is closed, whatever became of it meanwhile.

use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::row::metrics;

type ByListener<T> = Family<[(&'static str, &'static str); 1], T>;

/// How long a failure is told, and for how long one line of the log stands for all.
const FAILURE_TIME: Duration = Duration::from_secs(60);

const LISTENER: &[(&str, &[&str])] = &[("listener", &["service", "admin"])];

metrics! {
    /// Both listeners.
    pub struct ListenerMetrics of registry {
        /// Open connections.
        pub connections: ByListener<Gauge>, "connections", labels: LISTENER;
        /// Connections that could not be accepted, for example at the limit of open files.
        pub accept_failures: ByListener<Counter>, "connections", labels: LISTENER;
        /// Connections closed immediately, because their client had reached its limit.
        pub connections_refused: ByListener<Counter>, "connections", labels: LISTENER;
    } beside {
        /// Ingest, live data, items.
        pub service: Connections = Connections::of("service", &connections, &accept_failures, &connections_refused);
        /// Pages and admin API.
        pub admin: Connections = Connections::of("admin", &connections, &accept_failures, &connections_refused);
    }
}

/// The connections of one listener.
#[derive(Debug)]
pub struct Connections {
    /// `service` or `admin`.
    pub listener: &'static str,
    /// Those that are open.
    pub open: Gauge,
    /// How often one could not be accepted.
    pub failures: Counter,
    /// How often one was closed at once because its client had as many as it may.
    pub refusals: Counter,
    max: AtomicI64,
    failed: Mutex<Option<Failure>>,
    crowding: Mutex<Option<Failure>>,
}

/// What happens again and again, of which people hear once a minute.
#[derive(Debug)]
struct Failure {
    reason: String,
    at: Instant,
    /// When the log had it last.
    logged: Option<Instant>,
    /// How often since.
    count: u64,
}

impl Connections {
    fn of(
        listener: &'static str,
        open: &ByListener<Gauge>,
        failures: &ByListener<Counter>,
        refusals: &ByListener<Counter>,
    ) -> Self {
        let label = [("listener", listener)];
        Self {
            listener,
            open: open.get_or_create_owned(&label),
            failures: failures.get_or_create_owned(&label),
            refusals: refusals.get_or_create_owned(&label),
            max: AtomicI64::new(i64::MAX),
            failed: Mutex::default(),
            crowding: Mutex::default(),
        }
    }

    /// How many may be open at once from now on.
    pub fn set_max(&self, max: usize) {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        self.max.store(max, Ordering::Relaxed);
    }

    /// The most that may be open.
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed).unsigned_abs()
    }

    /// The most that may be open, if so many are.
    pub fn at_max(&self) -> Option<i64> {
        let max = self.max.load(Ordering::Relaxed);
        (self.open.get() >= max).then_some(max)
    }

    /// One could not be accepted. How often that was since it was logged last, if it is time to log it: at once, and
    /// then once a minute.
    pub fn failed(&self, reason: &dyn std::fmt::Display) -> Option<u64> {
        self.failures.inc();
        note(&self.failed, reason.to_string())
    }

    /// One was closed at once, because this client has as many as it may. The count, if it is time to log it.
    pub fn refused(&self, client: Option<IpAddr>) -> Option<u64> {
        self.refusals.inc();
        let client = client.map(|client| client.to_string());
        note(&self.crowding, client.unwrap_or_default())
    }

    /// A client that had more than it may in the last minute.
    pub fn crowded_by(&self) -> Option<String> {
        recent(&self.crowding)
    }

    /// Why one could not be accepted in the last minute.
    pub fn failure(&self) -> Option<String> {
        recent(&self.failed)
    }
}

/// Takes note of one. How often that was since it was logged last, if it is time to log it.
fn note(failed: &Mutex<Option<Failure>>, reason: String) -> Option<u64> {
    let now = Instant::now();
    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
    let failure = failed.get_or_insert_with(|| Failure {
        reason: String::new(),
        at: now,
        logged: None,
        count: 0,
    });
    failure.reason = reason;
    failure.at = now;
    failure.count += 1;
    let is_logged = |at: Instant| now.duration_since(at) < FAILURE_TIME;
    if failure.logged.is_some_and(is_logged) {
        return None;
    }
    failure.logged = Some(now);
    Some(std::mem::take(&mut failure.count))
}

/// The reason of the last one, if that was within a minute.
fn recent(failed: &Mutex<Option<Failure>>) -> Option<String> {
    let failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
    let recent = |failure: &&Failure| failure.at.elapsed() < FAILURE_TIME;
    failed.as_ref().filter(recent).map(|one| one.reason.clone())
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn failures_in_a_row_are_one_line_of_the_log_and_all_are_counted() {
        let mut registry = Registry::default();
        let metrics = ListenerMetrics::register(&mut registry);
        let service = &metrics.service;
        assert_eq!(service.failure(), None);
        assert_eq!(service.failed(&"too many open files"), Some(1));
        for _ in 0..500 {
            assert_eq!(service.failed(&"too many open files"), None);
        }
        assert_eq!(service.failures.get(), 501);
        assert_eq!(service.failure().as_deref(), Some("too many open files"));
        assert_eq!(metrics.admin.failure(), None);
        // A minute later.
        let mut failed = service.failed.lock().expect("no panic");
        let failure = failed.as_mut().expect("a failure");
        failure.logged = None;
        drop(failed);
        assert_eq!(service.failed(&"too many open files"), Some(501));
    }

    #[test]
    fn a_listener_is_at_its_limit_when_so_many_are_open() {
        let mut registry = Registry::default();
        let metrics = ListenerMetrics::register(&mut registry);
        metrics.service.set_max(2);
        metrics.service.open.inc();
        assert_eq!(metrics.service.at_max(), None);
        metrics.service.open.inc();
        assert_eq!(metrics.service.at_max(), Some(2));
        assert_eq!(metrics.admin.at_max(), None);
    }
}
