//! What a server had acknowledged and no longer has when it is killed in the middle of load.
//!
//! Called for each server after its rounds, with a folder of its own.
//!
//! **Invariant:** every request has a key that no other one has, so what was acknowledged is there or is lost; the kill
//! counts only if it broke a connection.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::peer::Peer;
use super::running::Running;
use crate::ingest::load::{Load, Source};
use crate::ingest::payload::{Keys, Revisions, Shape};
use crate::{Result, step};

/// Keys of each connection: together no more than fit into the six digits of a key.
const KEYS_EACH: u64 = 15_000;

/// What a kill left.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Killed {
    /// Requests that were answered as accepted before it.
    pub(crate) acknowledged: u64,
    /// Of those, what was not there after the next start.
    pub(crate) lost: u64,
}

/// Kills it with half of the time over, starts it again and looks.
pub(crate) fn measure(time: Duration, parent: &Path, peer: Peer) -> Result<Killed> {
    let shape = Shape::Small;
    let name = peer.name();
    step(&format!("{name}: kill -9 in the middle of load"));
    let folder = parent.join(format!("{name}-killed"));
    let running = Running::start(peer, &folder)?;
    let revisions = Revisions::new();
    let firsts = (0..shape.connections() as u64).map(|sender| sender * KEYS_EACH);
    let sources = firsts
        .clone()
        .map(|next| {
            let keys = Keys::Cycle {
                next,
                count: u64::MAX,
            };
            Source::Fresh(Box::new(running.requests(shape, keys, &revisions)))
        })
        .collect();
    let load = Load {
        requests_max: KEYS_EACH,
        ..running.load(time)
    };
    let outcomes = std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(time / 2);
            drop(running);
        });
        load.run_each(sources)
    })?;
    if outcomes.iter().any(|outcome| !outcome.refused.is_empty()) {
        return Err("other answers than it promises before it was killed".into());
    }
    if outcomes.iter().all(|outcome| outcome.broken == 0) {
        return Err("there was nothing to do when it was killed".into());
    }
    let running = Running::start(peer, &folder)?;
    let store = running.store().map_err(|error| running.explain(error))?;
    let counts = outcomes.iter().map(|outcome| outcome.accepted);
    let acknowledged = counts.clone().sum();
    let keys = firsts
        .zip(counts)
        .flat_map(|(first, count)| first..first + count);
    Ok(Killed {
        acknowledged,
        lost: store.lost(shape, keys)?,
    })
}
