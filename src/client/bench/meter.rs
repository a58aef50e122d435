//! Resource use while requests are sent: the cores of this machine, the bench itself, the journal of the daemon.
//!
//! The bench reads it before and after each step.
//!
//! **Invariant**: a value that cannot be measured here, such as the cores of another machine, is absent and never zero.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::client::Client;

/// Resource use of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Used {
    /// Duration of the step.
    pub(super) seconds: f64,
    /// Busy share of all cores of this machine, 0 to 1; `None`: the daemon runs on another machine.
    pub(super) cores_busy: Option<f64>,
    /// Share of one core that the bench used.
    pub(super) bench_core: f64,
    /// Commits of the journal per second, each with one flush.
    pub(super) commits_per_second: Option<f64>,
    /// Share of the time in which the journal was committing.
    pub(super) journal_busy: Option<f64>,
}

/// The counters at the start of a step.
pub(super) struct Meter<'a> {
    admin: &'a Client,
    local: bool,
    begun: Reading,
}

struct Reading {
    at: Instant,
    machine: Option<Machine>,
    own: Duration,
    journal: Option<Journal>,
}

/// Time of all cores since the machine started, in ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Machine {
    idle: f64,
    total: f64,
}

/// Commits since the daemon started.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Journal {
    commits: f64,
    seconds: f64,
}

impl<'a> Meter<'a> {
    pub(super) async fn begin(admin: &'a Client, local: bool) -> Self {
        let begun = Reading::now(admin, local).await;
        Self {
            admin,
            local,
            begun,
        }
    }

    /// The resource use since the start.
    pub(super) async fn end(self) -> Used {
        // The time ends before the counters are requested.
        let seconds = self.begun.at.elapsed().as_secs_f64();
        let ended = Reading::now(self.admin, self.local).await;
        used(&self.begun, &ended, seconds)
    }
}

impl Reading {
    async fn now(admin: &Client, local: bool) -> Self {
        let metrics = admin.call(Method::GET, "/metrics", HeaderMap::new(), Bytes::new());
        let metrics = metrics.await.ok();
        let metrics = metrics.and_then(|answer| String::from_utf8(answer.body).ok());
        let stat = local.then(|| std::fs::read_to_string("/proc/stat").ok());
        Self {
            at: Instant::now(),
            machine: stat.flatten().as_deref().and_then(machine),
            own: own_cpu(),
            journal: metrics.as_deref().and_then(journal),
        }
    }
}

fn used(begun: &Reading, ended: &Reading, seconds: f64) -> Used {
    let seconds = seconds.max(1e-9);
    let between = ended.at.duration_since(begun.at).as_secs_f64().max(1e-9);
    let journal = begun.journal.zip(ended.journal);
    Used {
        seconds,
        cores_busy: (begun.machine.zip(ended.machine)).map(|(before, after)| {
            let total = (after.total - before.total).max(1.0);
            (1.0 - (after.idle - before.idle) / total).clamp(0.0, 1.0)
        }),
        bench_core: ended.own.saturating_sub(begun.own).as_secs_f64() / between,
        commits_per_second: journal
            .map(|(before, after)| (after.commits - before.commits).max(0.0) / seconds),
        journal_busy: journal
            .map(|(before, after)| ((after.seconds - before.seconds) / seconds).clamp(0.0, 1.0)),
    }
}

/// Whether the daemon at this URL runs on this machine, according to the URL.
pub(super) fn is_local(url: &str) -> bool {
    let host = |url: Url| {
        let host = url.host_str().unwrap_or_default().to_owned();
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    };
    url.starts_with("unix:") || Url::parse(url).is_ok_and(host)
}

/// The first line of `/proc/stat`.
fn machine(stat: &str) -> Option<Machine> {
    let ticks = stat.lines().next()?.split_ascii_whitespace().skip(1);
    // The time of guests is already included in the first two values.
    let ticks: Vec<f64> = ticks.take(8).map_while(|text| text.parse().ok()).collect();
    match ticks[..] {
        [_, _, _, idle, waiting, ..] => Some(Machine {
            idle: idle + waiting,
            total: ticks.iter().sum(),
        }),
        _ => None,
    }
}

/// The sum and the count of a histogram of the daemon's metrics.
fn journal(metrics: &str) -> Option<Journal> {
    let value = |name: &str| {
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.split(' ').next()?.parse().ok()
    };
    Some(Journal {
        commits: value("headgate_journal_commit_seconds_count")?,
        seconds: value("headgate_journal_commit_seconds_sum")?,
    })
}

/// CPU time of this process.
fn own_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
