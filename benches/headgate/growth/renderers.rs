//! What a delivery costs with so many renderers.
//!
//! Called by the bench's main file.
//!
//! **Invariant:** the cost of a delivery includes its share of the request, so that it is never the difference of two
//! figures of which each is larger than it.

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
    let with = push::round(&server, (Transport::Sse, count), per_second, time, None)
        .map_err(|error| server.explain(error))?;
    if with.delivered < with.expected {
        let (delivered, expected) = (with.delivered, with.expected);
        return Err(
            format!("{delivered} of {expected} changes were shown to {x} renderers").into(),
        );
    }
    Ok(Point {
        x,
        cpu_micros: with.cpu_micros / with.delivered as f64,
        ms: with.pushed_ms,
        per_second: per_second * x as f64,
        start_ms: None,
        ratio: 1.0,
    })
}
