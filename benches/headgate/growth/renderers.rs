//! What a delivery costs with so many renderers.
//!
//! Called by the bench's main file.
//!
//! **Invariant:** the cost of a delivery is what the same requests cost more than without renderers.

use std::path::Path;
use std::time::Duration;

use super::curve::Point;
use crate::Result;
use crate::live::daemon::{self, Durability};
use crate::live::push::{self, PER_SECOND};
use crate::live::server::Transport;

/// Deliveries in a second that leave the cores time to breathe; fewer requests a second the more renderers there are.
const DELIVERIES_PER_SECOND: f64 = 10_000.0;

/// The point with so many.
pub(super) fn point(folder: &Path, x: u64, time: Duration) -> Result<Point> {
    let count = usize::try_from(x)?;
    let per_second = (DELIVERIES_PER_SECOND / x as f64).min(PER_SECOND);
    let server = daemon::start(folder, "live", Durability::Fsync)?;
    let round = |count, alone| {
        push::round(&server, (Transport::Sse, count), per_second, time, alone)
            .map_err(|error| server.explain(error))
    };
    let alone = round(0, None)?;
    let with = round(count, Some(alone.cpu_micros))?;
    if with.delivered < with.expected {
        let (delivered, expected) = (with.delivered, with.expected);
        return Err(
            format!("{delivered} of {expected} changes were shown to {x} renderers").into(),
        );
    }
    Ok(Point {
        x,
        cpu_micros: with.cpu_micros_each,
        ms: with.pushed_ms,
        per_second: per_second * x as f64,
        start_ms: None,
        ratio: 1.0,
    })
}
