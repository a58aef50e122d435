//! The limit of an installation, in one sentence.
//!
//! The report determines it at the end.
//!
//! **Invariant**: the verdict follows from measured values. If no resource was exhausted, it says so.

use serde::Serialize;

use super::load::Step;

/// Shares of a core or of all cores, and of the journal's time, that count as exhausted.
const CORES_USED_UP: f64 = 0.9;
const JOURNAL_USED_UP: f64 = 0.7;
/// Share of responses from which rejections are the limit.
const REFUSED_SHARE: f64 = 0.01;
/// Share of the round trip in the time of a single request from which the network is the limit.
const WAY_SHARE: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Limit {
    /// The rate limit of a key.
    KeyRate,
    /// The limit of the backlog, or the free disk space: 503.
    Full,
    Cpu,
    /// The bench's own thread.
    Bench,
    /// Flushes of the journal to the disk.
    Disk,
    /// The network between the bench and the daemon.
    Network,
    None,
}

/// The limit, and an explanation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Verdict {
    pub(super) limit: Limit,
    /// The limit as text, with what to do about it.
    pub(super) sentence: String,
}

/// Values in addition to the steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// The key has the default rate limit.
    pub(super) keep_rate: bool,
    /// A 202 waits for a flush of the disk.
    pub(super) is_durable: bool,
    /// Median of an empty request.
    pub(super) round_trip_ms: f64,
    /// Median of a flush; `None`: not measured.
    pub(super) fsync_ms: Option<f64>,
    pub(super) cores: usize,
}

impl Verdict {
    /// The verdict from the step with the most requests per second.
    pub(super) fn of(steps: &[Step], facts: Facts) -> Self {
        let fastest = steps
            .iter()
            .max_by(|a, b| a.requests_per_second.total_cmp(&b.requests_per_second));
        let Some(step) = fastest else {
            return Self {
                limit: Limit::None,
                sentence: "no requests were measured".to_owned(),
            };
        };
        // If requests are rejected, the fastest step may be an earlier one.
        let refusing = |status| {
            let refusing = |step: &&Step| refused_share(step, status) > REFUSED_SHARE;
            steps.iter().find(refusing)
        };
        let alone = steps.iter().find(|other| other.connections == 1);
        let way = alone.map_or(0.0, |alone| {
            facts.round_trip_ms / alone.accepted.p50_ms.max(1e-9)
        });
        let limit = if refusing(429).is_some() {
            Limit::KeyRate
        } else if refusing(503).is_some() {
            Limit::Full
        } else if step
            .used
            .cores_busy
            .is_some_and(|busy| busy >= CORES_USED_UP)
        {
            Limit::Cpu
        } else if step.used.bench_core >= CORES_USED_UP {
            Limit::Bench
        } else if step
            .used
            .journal_busy
            .is_some_and(|busy| busy >= JOURNAL_USED_UP)
        {
            Limit::Disk
        } else if way >= WAY_SHARE {
            Limit::Network
        } else {
            Limit::None
        };
        Self {
            limit,
            sentence: sentence(limit, step, facts),
        }
    }
}

fn refused_share(step: &Step, status: u16) -> f64 {
    let refused: u64 = step.refused.values().sum();
    let all = step.accepted.count as u64 + refused;
    let count = step.refused.get(&status).copied().unwrap_or_default();
    count as f64 / all.max(1) as f64
}

fn sentence(limit: Limit, step: &Step, facts: Facts) -> String {
    let rate = format!("{:.0} requests/s", step.requests_per_second);
    let percent = |share: Option<f64>| (share.unwrap_or_default() * 100.0).round();
    let used = &step.used;
    match limit {
        Limit::KeyRate if facts.keep_rate => format!(
            "the limit is the rate of the key, {rate}: raise limits.requests_per_second and limits.burst, or give the \
             connector its own, or spread the load over several keys"
        ),
        Limit::KeyRate => format!(
            "the limit is a rate limit, {rate}: the daemon answers 429 although the key has none; its request log has the reason"
        ),
        Limit::Full => format!(
            "the limit is what may wait, {rate}: the daemon answers 503; see `problems` of its status, \
             limits.max_pending_bytes and the free space of the disk"
        ),
        Limit::Cpu => format!(
            "the limit is the CPU, {rate}: {:.0} % of {} cores are busy, the bench itself takes {:.0} % of one; more or \
             faster cores take more",
            percent(used.cores_busy),
            facts.cores,
            percent(Some(used.bench_core)),
        ),
        Limit::Bench => format!(
            "the limit is the bench itself, {rate}: its thread takes {:.0} % of a core; run it on several machines at once \
             to see more",
            percent(Some(used.bench_core)),
        ),
        Limit::Disk => format!(
            "the limit is {}, {rate}: the journal commits {:.0} % of the time, {:.0} groups per second{}; {}",
            match facts.is_durable {
                true => "the disk's flushes",
                false => "the journal",
            },
            percent(used.journal_busy),
            used.commits_per_second.unwrap_or_default(),
            facts.fsync_ms.map_or(String::new(), |ms| format!(
                ", and a flush takes {ms:.2} ms"
            )),
            match facts.is_durable {
                true =>
                    "more requests at once share a flush, and a disk with a protected cache flushes faster",
                false => "larger batches in fewer requests cost it less",
            },
        ),
        Limit::Network => format!(
            "the limit is the way to the daemon, {rate}: an empty request takes {:.2} ms of it; send more requests at once, \
             or from nearer",
            facts.round_trip_ms,
        ),
        Limit::None => {
            format!("no bottleneck found at {rate}: more concurrent requests may increase the rate")
        }
    }
}

#[cfg(test)]
mod tests;
