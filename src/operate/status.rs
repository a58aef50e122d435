//! The problems of the status, as sentences, each of a kind that metrics count.
//!
//! **Invariant**: a problem is named, not only colored: there is no problem exactly when everything works.

mod sink;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Operator;
use super::condition::Condition;
use super::problem::{About, Found, Problem, ProblemKind, ProblemSubject};
use base::clock::{Unix, rfc3339};
use catalog::shadowed_sink;
use observe::lines;
use observe::metrics::Minute;
use pool::acts::ActCounts;
use repair::report;
use sink::of_sink;
use sqlite::readers;

/// A sink with a lag for this time is a problem.
const LAG_MAX: Duration = Duration::from_mins(1);
/// A write-ahead log of this size is a problem: it is checkpointed long before, unless a reader blocks it.
const WAL_BYTES_MAX: u64 = 256 << 20;
/// Rejected requests are a problem from this number in this many minutes, if they are this share of all. Without the
/// first limit, one rejected request of a quiet connector would be one.
const REFUSED_MIN: u64 = 10;
const REFUSED_MINUTES: usize = 5;
const REFUSED_PERCENT: u64 = 20;
/// How long a request with an ended key is a problem.
const REFUSED_KEY_AGE: Duration = Duration::from_hours(1);
/// This many deliveries in a row with a wrong time, all on the same side, are a problem.
const CLOCK_REFUSALS: u32 = 10;

impl Operator {
    pub fn problems(&self, condition: &Condition) -> Vec<Problem> {
        self.found(condition).all()
    }

    pub(super) fn found(&self, condition: &Condition) -> Found {
        let data_dir = Path::new(&self.about.data_dir);
        let mut problems = Found::default();
        // Named once, as a problem of the cluster: what follows from it is left out, and nothing else.
        let is_outage = self.database_is_away();
        if let Err(error) = self.gate.check()
            && !(is_outage && self.gate.is_closed_by_database())
        {
            problems.push(
                format!("{error}; nothing expires meanwhile"),
                ProblemKind::Intake,
            );
        }
        self.of_cluster(&mut problems);
        problems.extend(self.configuration.problem(), ProblemKind::Configuration);
        let shadows = self.catalog.sinks().into_iter().filter(|sink| sink.shadows);
        for sink in shadows {
            let mut problems = problems.about(ProblemSubject::Sink(sink.name().to_owned()));
            problems.push(shadowed_sink(sink.name()), ProblemKind::Configuration);
        }
        problems.extend(self.certificates.problems(), ProblemKind::Certificate);
        problems.extend(self.delivery.gaps(&self.catalog), ProblemKind::NoSink);
        problems.extend(report::problems(data_dir), ProblemKind::Repair);
        problems.extend(
            condition.unreadable(is_outage).map(str::to_owned),
            ProblemKind::Unreadable,
        );
        for sink in &condition.sinks {
            let subject = ProblemSubject::Sink(sink.name.to_string());
            of_sink(sink, is_outage, &mut problems.about(subject));
        }
        for acts in &condition.acts {
            let subject = ProblemSubject::Stream(acts.stream.to_string());
            held_before(acts, &mut problems.about(subject));
        }
        self.crowded(&mut problems);
        for (subject, sentence) in self.used_up() {
            problems.about(subject).push(sentence, ProblemKind::Limit);
        }
        self.setup_mistakes(&mut problems);
        self.missing_screens(&mut problems);
        self.refused_lately(&mut problems);
        if let Some(count @ 1..) = condition.quarantined {
            problems.push(format!(
                "{} could not be read and are in the table quarantine of journal.db; their items are dead letters",
                counted(count, "payload")
            ), ProblemKind::Quarantine);
        }
        self.unchecked_logs(condition, &mut problems);
        problems.extend(lines::problem(), ProblemKind::Log);
        problems
    }

    /// Write-ahead logs that are not checkpointed.
    fn unchecked_logs(&self, condition: &Condition, problems: &mut Found) {
        let data_dir = Path::new(&self.about.data_dir);
        for (name, bytes) in &condition.files {
            if name.ends_with("-wal") && *bytes >= WAL_BYTES_MAX {
                let programs = readers::of(&data_dir.join(name.trim_end_matches("-wal")));
                let who = match programs.is_empty() {
                    true => "a long read transaction".to_owned(),
                    false => format!("the read transaction of {}", programs.join(", ")),
                };
                problems.push(format!(
                    "{name} has grown to {} MiB because {who} blocks checkpoints; end that transaction",
                    bytes >> 20
                ), ProblemKind::Wal);
            }
        }
    }

    /// Listeners that have reached a limit of connections.
    fn crowded(&self, problems: &mut Found) {
        let listeners = &self.metrics.listeners;
        for connections in [&listeners.service, &listeners.admin] {
            let listener = connections.listener;
            if let Some(max) = connections.at_max() {
                problems.push(format!(
                    "the {listener} listener has reached its limit of {max} connections; new clients wait until one closes"
                ), ProblemKind::Connections);
            }
            if let Some(client) = connections.crowded_by() {
                problems.push(format!(
                    "client {client} reached the limit of connections to the {} listener (server.connections_per_address_max); its further connections were closed",
                    connections.listener
                ), ProblemKind::Connections);
            }
            if let Some(reason) = connections.failure() {
                problems.push(format!(
                    "the {listener} listener failed to accept connections in the last minute: {reason}"
                ), ProblemKind::Connections);
            }
        }
    }

    /// Connectors with many recently rejected requests, and requests of unauthenticated clients.
    fn refused_lately(&self, problems: &mut Found) {
        let now = Unix::now();
        let lately = |connector: Option<&str>| {
            let hour = self.metrics.recent.hour(connector, now);
            let minutes = hour.into_iter().rev().take(REFUSED_MINUTES);
            minutes.sum()
        };
        let is_high = |errors: u64, requests: u64| {
            errors >= REFUSED_MIN && errors.saturating_mul(100) >= requests * REFUSED_PERCENT
        };
        let share = |errors: u64, requests: u64| errors.saturating_mul(100) / requests.max(1);
        let mut known = Minute::default();
        for connector in self.catalog.connectors() {
            let sum = lately(Some(&connector.name));
            known = known.and(sum);
            let subject = ProblemSubject::Connector(connector.name.to_string());
            let mut problems = problems.about(subject);
            if is_high(sum.rejected(), sum.answered()) {
                problems.push(format!(
                    "{}% of requests to connector {} were rejected in the last {REFUSED_MINUTES} minutes; see its request log",
                    share(sum.rejected(), sum.answered()),
                    connector.name
                ), ProblemKind::Refused);
            }
        }
        for key in self.catalog.connectors().iter().flat_map(|one| &one.keys) {
            let refused_at = key.refused_at().filter(|at| now - *at < REFUSED_KEY_AGE);
            if let (Some(at), Some(ended)) = (refused_at, key.ended()) {
                let subject = ProblemSubject::Connector(key.connector.to_string());
                let mut problems = problems.about(subject);
                problems.push(format!(
                    "{ended}, but requests still use it, the last on {}: give its sender another key of connector {}",
                    rfc3339(at),
                    key.connector
                ), ProblemKind::Refused);
            }
        }
        let all = lately(None);
        let unknown = all.rejected().saturating_sub(known.rejected());
        if is_high(unknown, all.answered()) {
            problems.push(format!(
                "{}% of all requests in the last {REFUSED_MINUTES} minutes had no valid key and were rejected",
                share(unknown, all.answered())
            ), ProblemKind::Unauthenticated);
        }
    }
}

impl Operator {
    /// Mistakes in the setup of connectors and screens that requests reveal.
    fn setup_mistakes(&self, problems: &mut Found) {
        for connector in self.catalog.connectors() {
            let name = &connector.name;
            let mut problems = problems.about(ProblemSubject::Connector(name.to_string()));
            if connector.signs.unidentified.load(Ordering::Relaxed) {
                problems.push(format!(
                    "connector {name} has no item key, so each request overwrites the last; set item_key"
                ), ProblemKind::ItemKey);
            }
            let clock = connector.signs.clock.load(Ordering::Relaxed);
            if clock.unsigned_abs() >= CLOCK_REFUSALS {
                let side = if clock > 0 { "behind" } else { "ahead of" };
                problems.push(format!(
                    "the clock of this machine may be {side} the correct time: the last {} deliveries to connector {name} were rejected for their timestamps; check the clock, then the connector's log",
                    clock.unsigned_abs()
                ), ProblemKind::Clock);
            }
        }
        for client in self.login_throttle.busy() {
            let mut problems = problems.about(ProblemSubject::Client(client.to_string()));
            problems.push(
                format!("{client} keeps sending invalid admin tokens; see the audit log"),
                ProblemKind::WrongTokens,
            );
        }
        for (key, why) in self.live.at_capacity() {
            let mut problems = problems.about(ProblemSubject::ReadKey(key.to_string()));
            problems.push(
                format!("screens with the read key {key} were rejected: {why}"),
                ProblemKind::Renderers,
            );
        }
    }
}

/// Holds from before a restore.
fn held_before(acts: &ActCounts, problems: &mut About<'_>) {
    let stream = &acts.stream;
    let whole = acts.held.as_ref().filter(|_| acts.restored);
    let whole = whole.map(|held| {
        let since = rfc3339(held.since);
        format!("stream {stream} has been held since {since} by {}", held.by)
    });
    let keys = match acts.restored_keys {
        0 => None,
        1 => Some(format!("1 key of stream {stream} is held")),
        keys => Some(format!("{keys} keys of stream {stream} are held")),
    };
    for what in whole.into_iter().chain(keys) {
        problems.push(format!(
            "{what}, restored from a backup: screens show the data of that time; resume it, or resume it and hold it again"
        ), ProblemKind::HoldRestored);
    }
}

fn counted(number: u64, thing: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{end}")
}
