//! The problems of one sink.
//!
//! **Invariant**: of a sink that an operator paused, only that is said.

use super::{LAG_MAX, counted};
use crate::condition::SinkCondition;
use crate::error::CRASHED;
use crate::problem::{About, ProblemKind};
use delivery::LaneState;

/// Problems of a sink. `is_outage`: the database of the cluster does not answer, and another problem says so.
pub(super) fn of_sink(sink: &SinkCondition, is_outage: bool, problems: &mut About<'_>) {
    let name = &sink.name;
    let Some(lane) = &sink.lane else {
        let reason = sink.reason().0.unwrap_or_default();
        problems.push(
            format!("sink {name}: {reason}"),
            ProblemKind::SinkUnconfigured,
        );
        return;
    };
    if let Some(reason) = lane.refused() {
        problems.push(
            format!(
                "sink {name} runs with its previous settings or plugin because the new ones failed: {reason}"
            ),
            ProblemKind::SinkRefused,
        );
    }
    match lane.state() {
        LaneState::Held(_) => {
            // That it is behind is meant so.
            let reason = sink.reason().0.unwrap_or_default();
            problems.push(
                format!(
                    "sink {name} waits, with {} behind it: {reason}",
                    counted(sink.lag, "request")
                ),
                ProblemKind::SinkPaused,
            );
            return;
        }
        LaneState::Paused { is_outage: of, .. } if is_outage && of => {}
        LaneState::Paused { reason, .. } => {
            problems.push(
                format!("sink {name} is paused: {reason}"),
                ProblemKind::SinkPaused,
            );
        }
        LaneState::Failing { reason } => {
            problems.push(
                format!("sink {name} misbehaves: {reason}"),
                ProblemKind::SinkFailing,
            );
        }
        LaneState::TakesNothing { reason } => {
            problems.push(
                format!("sink {name} takes nothing: {reason}"),
                ProblemKind::SinkFailing,
            );
        }
        LaneState::Crashed => {
            problems.push(format!("sink {name}: {CRASHED}"), ProblemKind::SinkCrashed);
        }
        LaneState::Starting
        | LaneState::Running
        | LaneState::Filling
        | LaneState::Elsewhere { .. } => {}
    }
    undelivered(sink, problems);
}

/// The undelivered data of a sink, and why it is not delivered, if that is known.
fn undelivered(sink: &SinkCondition, problems: &mut About<'_>) {
    let name = &sink.name;
    if let Some(waited) = sink.waited.filter(|waited| *waited >= LAG_MAX) {
        problems.push(
            format!(
                "sink {name} is {} behind; the oldest was accepted {} s ago",
                counted(sink.lag, "request"),
                waited.as_secs()
            ),
            ProblemKind::SinkBehind,
        );
    }
    let Some(undelivered) = sink.undelivered else {
        return;
    };
    if undelivered.retries > 0 {
        let why = sink.lane.as_ref().and_then(|lane| lane.last_error());
        let why = why.map(|(_, why)| format!(": {why}"));
        problems.push(
            format!(
                "sink {name} is failing; {} for a retry{}",
                waits(undelivered.retries, "batch", "batches"),
                why.unwrap_or_default()
            ),
            ProblemKind::SinkRetries,
        );
    }
    if undelivered.dead_letters > 0 {
        problems.push(
            format!(
                "sink {name} could not deliver {}; retry or discard its dead letters",
                counted(undelivered.dead_letters, "item")
            ),
            ProblemKind::SinkDeadLetters,
        );
    }
}

fn waits(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one} waits"),
        number => format!("{number} {many} wait"),
    }
}
