//! The loss of the node that runs the sinks: the time until another one runs them, and until screens get what is new.
//!
//! The bench calls it last, because a node is gone afterwards.
//!
//! **Invariant**: both times begin with the kill, and are measured at the same time, on nodes that live.

use serde::Serialize;
use tokio::time::Instant;

use super::{AGAIN_MAX, BenchNode, LOOK_PAUSE, Parts, STREAM, owner};
use crate::bench::load::{item, post};
use crate::bench::push::{Renderer, Seen};
use crate::error::CliError;

const ITEM_BYTES: usize = 200;

/// One loss of a node.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Takeover {
    /// From the kill until another node runs the sinks.
    pub(super) sinks_ms: f64,
    /// From the kill until a renderer has the first item that was accepted after it.
    pub(super) renderer_ms: f64,
}

/// Kills the node with this name, which runs the sinks, and waits for both.
pub(super) async fn of(
    parts: &Parts<'_>,
    killed: &str,
    kill: impl FnOnce(&str) -> Result<(), CliError>,
) -> Result<Takeover, CliError> {
    let shows = parts.shows();
    let mut left = parts.0.iter().filter(|node| node.name != killed);
    // With two nodes, the one that shows accepts, too.
    let accepts = left.next_back().copied().unwrap_or(shows);
    let seen = Seen::default();
    let mut renderer = Renderer::open(&shows.reader, STREAM, &seen).await?;
    let begun = Instant::now();
    kill(killed)?;
    let sinks = async {
        owner(shows, killed).await?;
        Ok::<_, CliError>(begun.elapsed())
    };
    let shown = async {
        show(accepts, &mut renderer).await?;
        Ok::<_, CliError>(begun.elapsed())
    };
    let (sinks, shown) = tokio::try_join!(sinks, shown)?;
    Ok(Takeover {
        sinks_ms: sinks.as_secs_f64() * 1e3,
        renderer_ms: shown.as_secs_f64() * 1e3,
    })
}

/// Sends an item until it is accepted, and waits until the renderer has it.
async fn show(accepts: &BenchNode, renderer: &mut Renderer<'_>) -> Result<(), CliError> {
    let (number, body) = item(ITEM_BYTES);
    let showing = async {
        // A node can answer 503 meanwhile, or not at all.
        while !(post(&accepts.sender, body.clone()).await).is_ok_and(|answer| answer.status == 202)
        {
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        renderer.until_seen(number).await
    };
    let shown = tokio::time::timeout(AGAIN_MAX, showing).await;
    shown.map_err(|_| {
        CliError::failed(format!(
            "no item reached a renderer within {} s after the loss of a node; run the command again on a machine with \
             less load",
            AGAIN_MAX.as_secs()
        ))
    })?
}
