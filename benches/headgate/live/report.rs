//! The results of a whole run, and the tables that are printed of them.
//!
//! Called by the bench's main file when everything is measured.
//!
//! **Invariant:** every figure in the tables is the median over the rounds of one case; differences and ratios are
//! taken round by round before that.

use serde::Serialize;

use super::Program;
use super::conflation::{self, ConflationStep};
use super::filtered::{self, FilteredCase};
use super::idle::IdleCase;
use super::intake::{self, Intake, IntakeRound};
use super::nchan;
use super::polls::{self, PollRound, Polls};
use super::push::{self, PushCase, PushRound};
use crate::aim;
use crate::table::Table;
use crate::times::{median, median_of};

/// Fewer than this, and the CPU of one delivery is lost in that of the requests.
const RENDERERS_FOR_CPU: usize = 100;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    /// Cores that the bench may use.
    pub(crate) cores: usize,
    /// Seconds of load in one round.
    pub(crate) round_seconds: f64,
    /// Append 4 KiB and fdatasync on the data folder's disk, median, ms.
    pub(crate) fsync_ms: f64,
    /// The version of nginx, if it was measured.
    pub(crate) nchan: Option<String>,
    /// Times and CPU.
    pub(crate) push: Vec<PushCase>,
    /// Memory of idle connections.
    pub(crate) memory: Vec<IdleCase>,
    /// Intake beside idle connections.
    pub(crate) intake: Option<Intake>,
    /// Intake beside those who poll.
    pub(crate) polls: Option<Polls>,
    /// Renderers with filters.
    pub(crate) filtered: Vec<FilteredCase>,
    /// Versions left out.
    pub(crate) conflation: Vec<ConflationStep>,
    /// What the reader must know about this run.
    pub(crate) notes: Vec<String>,
}

impl PushCase {
    /// Its renderers, for tables and notes.
    pub(crate) fn title(&self) -> String {
        match self.renderers {
            0 => "none".to_owned(),
            count => format!("{count} {}", self.transport.title()),
        }
    }

    fn median(&self, value: fn(&PushRound) -> f64) -> f64 {
        median_of(&self.rounds, value)
    }

    /// From the 202 to the renderer, of the medians, ms.
    pub(crate) fn after_accepted_ms(&self) -> f64 {
        self.median(|round| round.pushed_ms.p50 - round.accepted_ms.p50)
    }

    fn row(&self) -> Vec<String> {
        let of = |value: fn(&PushRound) -> f64| format!("{:.2}", self.median(value));
        let mut row = vec![
            self.server.to_owned(),
            self.title(),
            of(|round| round.accepted_ms.p50),
            of(|round| round.accepted_ms.p99),
        ];
        if self.renderers == 0 {
            row.extend(vec![String::new(); 7]);
            row.push(of(|round| round.cpu_micros_each));
        } else {
            let share = self.median(|round| round.delivered as f64 / round.expected as f64);
            row.extend([
                of(|round| round.pushed_ms.p50),
                of(|round| round.pushed_ms.p99),
                format!("{:.2}", self.after_accepted_ms()),
                of(|round| round.last_at.p50),
                of(|round| round.last_at.p99),
                format!("{:.1} %", share * 100.0),
                String::new(),
            ]);
            if self.renderers >= RENDERERS_FOR_CPU {
                row[10] = of(|round| round.cpu_micros_each);
            }
            row.push(String::new());
        }
        row.push(format!("{:.0} %", self.median(|round| round.busy) * 100.0));
        row
    }
}

impl Results {
    /// Prints everything.
    pub(crate) fn print(&self) {
        println!(
            "\n{} cores, senders and renderers beside the server on them; rounds of {} s; fsync (append 4 KiB + \
             fdatasync, p50) {:.3} ms",
            self.cores, self.round_seconds, self.fsync_ms
        );
        if let Some(version) = &self.nchan {
            println!("{version} with {}", nchan::ABOUT);
        }
        self.print_push();
        self.print_memory();
        self.print_intake();
        self.print_polls();
        filtered::print(&self.filtered);
        self.print_conflation();
        let aims = self.aims();
        if !aims.is_empty() {
            aim::print(&aims);
        }
        for note in &self.notes {
            println!("note: {note}");
        }
    }

    fn print_push(&self) {
        if self.push.is_empty() {
            return;
        }
        println!(
            "\npush, {} requests/s of 200 B; times in ms from sending the request; medians of {} rounds",
            push::PER_SECOND,
            self.push[0].rounds.len()
        );
        let mut table = Table::new(&[
            "server",
            "renderers",
            "202 p50",
            "p99",
            "renderer p50",
            "p99",
            "after 202",
            "last p50",
            "p99",
            "delivered",
            "CPU us/delivery",
            "CPU us/request",
            "cores used",
        ]);
        for case in &self.push {
            table.row(case.row());
        }
        table.print();
        for (case, peer) in self.pairs() {
            let ratio = |value: fn(&PushRound) -> f64| {
                let pairs = case.rounds.iter().zip(&peer.rounds);
                let ratios: Vec<f64> = pairs.map(|(ours, its)| value(ours) / value(its)).collect();
                median(&ratios)
            };
            println!(
                "{}, {}, to nchan: renderer p50 {:.2}, p99 {:.2}, CPU of a delivery {:.2} times",
                case.server,
                case.title(),
                ratio(|round| round.pushed_ms.p50),
                ratio(|round| round.pushed_ms.p99),
                ratio(|round| round.cpu_micros_each),
            );
        }
    }

    /// The daemon's cases with many renderers, each with the same of nchan.
    fn pairs(&self) -> impl Iterator<Item = (&PushCase, &PushCase)> {
        let of = |program| self.push.iter().filter(move |case| case.program == program);
        of(Program::Headgate)
            .filter(|case| case.renderers >= RENDERERS_FOR_CPU)
            .filter_map(move |case| {
                let same = |peer: &&PushCase| {
                    (peer.renderers, peer.transport) == (case.renderers, case.transport)
                };
                Some((case, of(Program::Nchan).find(same)?))
            })
    }

    fn print_memory(&self) {
        if self.memory.is_empty() {
            return;
        }
        println!("\nmemory of idle connections, without what the kernel has for their sockets");
        let mut table = Table::new(&[
            "server",
            "transport",
            "connections",
            "RSS MB before",
            "RSS MB",
            "RSS KB each",
            "PSS KB each",
        ]);
        for case in &self.memory {
            for step in &case.steps {
                table.row([
                    case.server.to_owned(),
                    case.transport.title().to_owned(),
                    step.connections.to_string(),
                    format!("{:.1}", case.before.rss / 1e6),
                    format!("{:.1}", step.memory.rss / 1e6),
                    format!("{:.1}", step.each.rss / 1e3),
                    format!("{:.1}", step.each.pss / 1e3),
                ]);
            }
        }
        table.print();
    }

    fn print_intake(&self) {
        let Some(intake) = &self.intake else {
            return;
        };
        println!(
            "\nintake, {} requests/s, 202 in ms; medians of {} rounds",
            intake::PER_SECOND,
            intake.with.len()
        );
        let mut table = Table::new(&[
            "idle renderers",
            "p50",
            "p99",
            "CPU us/request",
            "cores used",
        ]);
        for (connections, rounds) in [(0, &intake.without), (intake.connections, &intake.with)] {
            let of = |value: fn(&IntakeRound) -> f64| median_of(rounds, value);
            table.row([
                connections.to_string(),
                format!("{:.2}", of(|round| round.accepted_ms.p50)),
                format!("{:.2}", of(|round| round.accepted_ms.p99)),
                format!("{:.1}", of(|round| round.cpu_micros_per_request)),
                format!("{:.0} %", of(|round| round.busy) * 100.0),
            ]);
        }
        table.print();
    }

    fn print_polls(&self) {
        let Some(polls) = &self.polls else {
            return;
        };
        println!(
            "\npolls of a feed of {} rows while {} requests/s change it, times in ms; medians of {} rounds",
            polls::ROWS,
            intake::PER_SECOND,
            polls.with.len()
        );
        let mut table = Table::new(&[
            "polls/s",
            "202 p50",
            "p99",
            "feed p50",
            "p99",
            "server, of a core",
        ]);
        for (count, rounds) in [(0, &polls.without), (polls::POLLS_PER_SECOND, &polls.with)] {
            let of = |value: fn(&PollRound) -> f64| format!("{:.2}", median_of(rounds, value));
            let fed = |value: fn(&PollRound) -> f64| match count {
                0 => String::new(),
                _ => of(value),
            };
            table.row([
                count.to_string(),
                of(|round| round.accepted_ms.p50),
                of(|round| round.accepted_ms.p99),
                fed(|round| round.polled_ms.p50),
                fed(|round| round.polled_ms.p99),
                format!(
                    "{:.1} %",
                    median_of(rounds, |round| round.server_core) * 100.0
                ),
            ]);
        }
        table.print();
    }

    fn print_conflation(&self) {
        if self.conflation.is_empty() {
            return;
        }
        println!(
            "\nconflation, {} keys, {} renderers at the default max_rate",
            conflation::KEYS,
            conflation::RENDERERS
        );
        let mut table = Table::new(&[
            "updates/s of a key",
            "accepted/s of a key",
            "accepted",
            "shown",
            "messages/s",
            "stale ends",
        ]);
        for step in &self.conflation {
            table.row([
                format!("{}", step.wanted_per_second),
                format!("{:.1}", step.accepted_per_second),
                step.accepted.to_string(),
                format!("{:.1} %", step.shown_share * 100.0),
                format!("{:.1}", step.messages_per_second),
                step.stale_ends.to_string(),
            ]);
        }
        table.print();
        match self.conflation.iter().find(|step| step.conflated()) {
            Some(step) => println!(
                "versions are left out from {:.0} updates/s of a key, {:.0} of all keys",
                step.accepted_per_second,
                step.accepted_per_second * conflation::KEYS as f64
            ),
            None => println!("every version was shown at every rate"),
        }
    }
}
