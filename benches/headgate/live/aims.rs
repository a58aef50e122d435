//! The aims, and what the reader must know of a run before comparing anything.
//!
//! Called by the report and by the bench's main file.
//!
//! **Invariant:** an aim is compared with the median of what its rounds showed, differences and ratios taken round by
//! round; a refusal, a broken connection or a value not shown in any round becomes a note.

use super::Program;
use super::filtered;
use super::intake::{Intake, IntakeRound};
use super::polls::{self, PollRound, Polls};
use super::push::{self, PushRound};
use super::report::Results;
use super::sender::Failures;
use crate::aim::Aim;
use crate::times::median;

/// Between the 202 and the renderer, medians, ms: with up to [`FEW_RENDERERS`], and with more.
const PUSH_TO_FEW_AFTER_ACCEPTED_MS_MAX: f64 = 0.5;
const PUSH_TO_MANY_AFTER_ACCEPTED_MS_MAX: f64 = 2.5;
const FEW_RENDERERS: usize = 100;

/// Memory of an idle connection, KB of 1000 bytes.
const CONNECTION_KILOBYTES_MAX: f64 = 20.0;

/// Intake p99 with idle renderers to without.
const INTAKE_RATIO_MAX: f64 = 2.0;

/// Intake p99 with pollers to without.
const POLLED_RATIO_MAX: f64 = 1.2;

/// What they may take of a core.
const POLLS_CORE_MAX: f64 = 0.05;

/// Less of the wanted rate than this is noted.
const RATE_SHARE_MIN: f64 = 0.9;

/// If other programs take more than this share of the cores, the times are theirs too.
const OTHERS_SHARE_MAX: f64 = 0.1;

impl Aim {
    /// Says nothing if requests were refused in any of the rounds that it stands on.
    pub(super) fn unless<'a>(mut self, mut failures: impl Iterator<Item = &'a Failures>) -> Self {
        if failures.any(|failures| !failures.is_empty()) {
            self.reached = None;
            self.measured += " (requests were refused)";
        }
        self
    }
}

impl PushRound {
    fn missing(&self) -> u64 {
        self.expected.saturating_sub(self.delivered)
    }
}

impl Intake {
    fn rounds(&self) -> impl Iterator<Item = &IntakeRound> {
        self.without.iter().chain(&self.with)
    }

    /// p99 with to p99 without, round by round.
    fn ratio(&self) -> f64 {
        let pairs = self.with.iter().zip(&self.without);
        let ratios: Vec<f64> = pairs
            .map(|(with, without)| with.accepted_ms.p99 / without.accepted_ms.p99)
            .collect();
        median(&ratios)
    }
}

impl Polls {
    fn rounds(&self) -> impl Iterator<Item = &PollRound> {
        self.without.iter().chain(&self.with)
    }

    /// Round by round, the median.
    fn median(&self, value: impl Fn(&PollRound, &PollRound) -> f64) -> f64 {
        let pairs = self.with.iter().zip(&self.without);
        let values: Vec<f64> = pairs.map(|(with, without)| value(with, without)).collect();
        median(&values)
    }

    fn aims(&self) -> [Aim; 2] {
        let ratio = self.median(|with, without| with.accepted_ms.p99 / without.accepted_ms.p99);
        let core = self.median(|with, without| with.server_core - without.server_core);
        let count = polls::POLLS_PER_SECOND;
        [
            Aim::at_most(
                format!("intake p99, {count} polls/s / none"),
                ratio,
                POLLED_RATIO_MAX,
                "",
            ),
            Aim::at_most(
                format!("CPU of {count} polls/s, of a core"),
                core,
                POLLS_CORE_MAX,
                "",
            ),
        ]
        .map(|aim| aim.unless(self.rounds().map(|round| &round.failures)))
    }
}

impl Results {
    /// The aims that this run can tell something about; they are the daemon's only.
    pub(crate) fn aims(&self) -> Vec<Aim> {
        let mut aims = Vec::new();
        for case in &self.push {
            if case.program == Program::Headgate && case.renderers > 0 {
                let name = format!(
                    "{}, {}: renderer p50 after 202 p50",
                    case.server,
                    case.title()
                );
                let value = case.after_accepted_ms();
                let limit = match case.renderers {
                    ..=FEW_RENDERERS => PUSH_TO_FEW_AFTER_ACCEPTED_MS_MAX,
                    _ => PUSH_TO_MANY_AFTER_ACCEPTED_MS_MAX,
                };
                let aim = Aim::at_most(name, value, limit, " ms");
                aims.push(aim.unless(case.rounds.iter().map(|round| &round.failures)));
            }
        }
        if self.pushes().next().is_some() {
            let missing: u64 = self.pushes().map(PushRound::missing).sum();
            let name = format!("versions not shown at {} updates/s", push::PER_SECOND);
            aims.push(Aim::at_most(name, missing as f64, 0.0, ""));
        }
        for case in &self.memory {
            for step in &case.steps {
                if case.program == Program::Headgate {
                    let (count, title) = (step.connections, case.transport.title());
                    let name = format!("RSS of an idle connection, {count} {title}");
                    let value = step.each.rss / 1e3;
                    aims.push(Aim::at_most(name, value, CONNECTION_KILOBYTES_MAX, " KB"));
                }
            }
        }
        if let Some(intake) = &self.intake {
            let name = format!("intake p99, {} idle renderers / none", intake.connections);
            let aim = Aim::at_most(name, intake.ratio(), INTAKE_RATIO_MAX, "");
            aims.push(aim.unless(intake.rounds().map(|round| &round.failures)));
        }
        aims.extend(self.polls.iter().flat_map(Polls::aims));
        aims.extend(filtered::aims(&self.filtered));
        if !self.conflation.is_empty() {
            let stale: usize = self.conflation.iter().map(|step| step.stale_ends).sum();
            let name = "renderers that did not end with the newest value".to_owned();
            let aim = Aim::at_most(name, stale as f64, 0.0, "");
            aims.push(aim.unless(self.conflation.iter().map(|step| &step.failures)));
        }
        aims
    }

    /// The daemon's rounds with renderers.
    fn pushes(&self) -> impl Iterator<Item = &PushRound> {
        self.push
            .iter()
            .filter(|case| case.program == Program::Headgate && case.renderers > 0)
            .flat_map(|case| &case.rounds)
    }

    /// Adds notes on rounds that are not to be compared.
    pub(crate) fn note_failures(&mut self) {
        let mut notes = Vec::new();
        for case in &self.push {
            for round in &case.rounds {
                let title = format!("push, {}, {}", case.server, case.title());
                notes.extend(refusals(&title, &round.failures));
                let missing = round.missing();
                if missing > 0 {
                    notes.push(format!("{title}: {missing} versions were not shown"));
                }
                if round.late > 0 {
                    let late = round.late;
                    notes.push(format!(
                        "{title}: {late} requests waited for the answer before theirs"
                    ));
                }
            }
        }
        for round in self.intake.iter().flat_map(Intake::rounds) {
            notes.extend(refusals("intake", &round.failures));
        }
        for round in self.polls.iter().flat_map(Polls::rounds) {
            notes.extend(refusals("polls", &round.failures));
            if round.polls_failed > 0 {
                let failed = round.polls_failed;
                notes.push(format!("polls: {failed} were not answered with a feed"));
            }
        }
        for case in &self.filtered {
            for round in &case.rounds {
                let title = format!("filtered, {}", case.title);
                notes.extend(refusals(&title, &round.failures));
                if round.delivered != round.expected {
                    let (delivered, expected) = (round.delivered, round.expected);
                    notes.push(format!(
                        "{title}: {delivered} versions of {expected} were shown"
                    ));
                }
            }
        }
        for step in &self.conflation {
            notes.extend(refusals("conflation", &step.failures));
            if step.accepted_per_second < RATE_SHARE_MIN * step.wanted_per_second {
                notes.push(format!(
                    "conflation: {} updates/s of a key were asked for, {:.0} were accepted",
                    step.wanted_per_second, step.accepted_per_second
                ));
            }
        }
        let of_push = self.push.iter().flat_map(|case| &case.rounds);
        let of_intake = self.intake.iter().flat_map(Intake::rounds);
        let of_polls = self.polls.iter().flat_map(Polls::rounds);
        let of_filtered = self.filtered.iter().flat_map(|case| &case.rounds);
        let others: Vec<f64> = of_push
            .map(|round| round.others)
            .chain(of_intake.map(|round| round.others))
            .chain(of_polls.map(|round| round.others))
            .chain(of_filtered.map(|round| round.others))
            .collect();
        let others = median(&others);
        if others > OTHERS_SHARE_MAX {
            let percent = others * 100.0;
            notes.push(format!(
                "other programs took {percent:.0} % of the cores: compare no times with those of another run"
            ));
        }
        self.notes.extend(notes);
    }
}

fn refusals(title: &str, failures: &Failures) -> Option<String> {
    let Failures { refused, broken } = failures;
    (!failures.is_empty()).then(|| {
        format!("{title}: refused {refused:?}, broken {broken}: a round is not comparable")
    })
}
