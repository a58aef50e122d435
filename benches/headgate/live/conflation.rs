//! From which rate on renderers are shown fewer versions than were accepted, and whether the last one always comes.
//!
//! Called by the bench's main file.
//!
//! **Invariant:** the versions of a key are sent over one connection, each after the answer to the one before, so
//! the newest accepted one is known and is what every renderer must end with.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::Options;
use super::daemon::{self, Durability};
use super::item::{STREAM, Versions};
use super::renderers::{Renderers, Wanted};
use super::sender::{self, Failures};
use super::server::{Server, Transport};
use crate::Result;
use crate::step;

/// Keys that are updated, each over a connection of its own.
pub(crate) const KEYS: usize = 4;

/// Renderers that watch.
pub(crate) const RENDERERS: usize = 10;

/// Updates a second of each key; the default `max_rate` is 60.
const PER_SECOND: [f64; 8] = [30.0, 45.0, 55.0, 65.0, 80.0, 120.0, 250.0, 500.0];

/// Below this share of the versions, some were left out.
pub(crate) const ALL_SHARE: f64 = 0.99;

/// No delivery for this long: what is still missing was left out.
const QUIET: Duration = Duration::from_millis(700);

/// One rate.
#[derive(Debug, Serialize)]
pub(crate) struct ConflationStep {
    /// Updates a second of each key that were asked for.
    pub(crate) wanted_per_second: f64,
    /// Those of each key that were accepted.
    pub(crate) accepted_per_second: f64,
    /// Versions accepted.
    pub(crate) accepted: u64,
    /// Share of them that a renderer was shown, in the mean.
    pub(crate) shown_share: f64,
    /// Messages a second to each renderer.
    pub(crate) messages_per_second: f64,
    /// Pairs of renderer and key that did not end with the newest version.
    pub(crate) stale_ends: usize,
    /// Requests that were not accepted.
    pub(crate) failures: Failures,
}

impl ConflationStep {
    /// Whether versions were left out.
    pub(crate) fn conflated(&self) -> bool {
        self.shown_share < ALL_SHARE
    }
}

/// Raises the rate step by step.
pub(crate) fn measure(options: &Options, folder: &Path) -> Result<Vec<ConflationStep>> {
    let server = daemon::start(folder, "conflation", Durability::Os)?;
    let duration = options.rounds.window.time / 2;
    PER_SECOND
        .iter()
        .map(|&per_second| {
            step(&format!("conflation: {per_second} updates/s of each key"));
            one(&server, per_second, duration).map_err(|error| server.explain(error))
        })
        .collect()
}

fn one(server: &Server, per_second: f64, duration: Duration) -> Result<ConflationStep> {
    let rate = per_second * KEYS as f64;
    let count = (rate * duration.as_secs_f64()).ceil() as usize;
    let versions = Arc::new(Versions::new(count, KEYS as u64, 0));
    let wanted = Wanted {
        transport: Transport::Sse,
        count: RENDERERS,
        asks: |_| STREAM.to_owned(),
    };
    let renderers = Renderers::connect(server, &wanted, Some(Arc::clone(&versions)))?;
    let answers = sender::send(server, &versions, rate, KEYS)?;
    renderers.settle(answers.accepted * RENDERERS as u64, QUIET);
    let deliveries = renderers.finish()?;
    let stale_ends = deliveries
        .newest
        .iter()
        .flat_map(|shown| {
            let accepted = answers.newest.iter();
            accepted.filter(|(key, index)| shown.get(key) != Some(index))
        })
        .count();
    let seconds = answers.took.as_secs_f64();
    Ok(ConflationStep {
        wanted_per_second: per_second,
        accepted_per_second: answers.accepted as f64 / seconds / KEYS as f64,
        accepted: answers.accepted,
        shown_share: deliveries.versions as f64 / (answers.accepted as f64 * RENDERERS as f64),
        messages_per_second: deliveries.messages as f64 / seconds / RENDERERS as f64,
        stale_ends,
        failures: answers.failures,
    })
}
