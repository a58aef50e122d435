//! Whether renderers that are merely there slow the intake down.
//!
//! Called by the bench's main file.
//!
//! **Invariant:** two daemons of the same configuration, one of them with the idle renderers, get the same requests
//! in turn, so a change of the machine meets both.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::Options;
use super::daemon::{self, Durability};
use super::item::{IDLE_STREAM, Versions};
use super::renderers::{Renderers, Wanted};
use super::sender::{self, Failures};
use super::server::{Server, Transport};
use super::usage::Meter;
use crate::Result;
use crate::step;
use crate::times::Times;

/// Requests a second.
pub(crate) const PER_SECOND: f64 = 200.0;

/// Connections that send them.
pub(super) const SENDERS: usize = 8;

/// Keys that they name in turn.
pub(super) const KEYS: u64 = 1_000;

/// Requests at the beginning of a round that do not count.
pub(super) const WARM_UP: usize = 40;

/// The same requests without and with idle renderers.
#[derive(Debug, Serialize)]
pub(crate) struct Intake {
    /// Idle renderers.
    pub(crate) connections: usize,
    /// Rounds without them.
    pub(crate) without: Vec<IntakeRound>,
    /// Rounds with them, each after the one without.
    pub(crate) with: Vec<IntakeRound>,
}

/// What one round showed.
#[derive(Debug, Serialize)]
pub(crate) struct IntakeRound {
    /// Request to 202.
    pub(crate) accepted_ms: Times,
    /// Server CPU time for each request, µs.
    pub(crate) cpu_micros_per_request: f64,
    /// Share of all cores that server and senders took.
    pub(crate) busy: f64,
    /// Share of all cores that everything else took.
    pub(crate) others: f64,
    /// Requests that were not accepted.
    pub(crate) failures: Failures,
}

/// Rounds without and with, in turn.
pub(crate) fn measure(options: &Options, folder: &Path) -> Result<Intake> {
    let connections = options.connections;
    step(&format!("intake: connecting {connections} idle renderers"));
    let alone = daemon::start(folder, "intake-alone", Durability::Fsync)?;
    let beside = daemon::start(folder, "intake-beside", Durability::Fsync)?;
    let wanted = Wanted {
        transport: Transport::Sse,
        count: connections,
        asks: |_| IDLE_STREAM.to_owned(),
    };
    let renderers = Renderers::connect(&beside, &wanted, None)?;
    let mut intake = Intake {
        connections,
        without: Vec::new(),
        with: Vec::new(),
    };
    for number in 1..=options.rounds.count {
        step(&format!(
            "intake: round {number} of {}",
            options.rounds.count
        ));
        intake
            .without
            .push(round(&alone, options.rounds.window.time)?);
        intake
            .with
            .push(round(&beside, options.rounds.window.time)?);
    }
    renderers.finish().map_err(|error| beside.explain(error))?;
    Ok(intake)
}

fn round(server: &Server, duration: Duration) -> Result<IntakeRound> {
    let requests = WARM_UP + (PER_SECOND * duration.as_secs_f64()).ceil() as usize;
    let versions = Versions::new(requests, KEYS, WARM_UP);
    let meter = Meter::start(server)?;
    let answers = sender::send(server, &versions, PER_SECOND, SENDERS)
        .map_err(|error| server.explain(error))?;
    let used = meter.read()?;
    Ok(IntakeRound {
        accepted_ms: Times::from_micros(answers.micros),
        cpu_micros_per_request: used.cpu_micros / answers.accepted as f64,
        busy: used.busy,
        others: used.others,
        failures: answers.failures,
    })
}
