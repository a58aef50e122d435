//! The connected renderers.
//!
//! **Invariant**: `lag` is 0 exactly when every change of its streams was sent to the renderer.

use std::sync::Arc;

use super::Operator;
use live::Renderer;
use pool::Position;
use pool::acts::{ActCounts, HeldSince};

/// A renderer and its lag.
#[derive(Debug)]
pub struct Connected {
    pub renderer: Arc<Renderer>,
    /// The position of the last message.
    pub position: Position,
    /// Its lag in sequence numbers; an upper bound of the changes that are not sent. The numbers count the changes of
    /// all streams.
    pub lag: u64,
}

impl Connected {
    /// Its streams that are held as a whole.
    pub fn held<'a>(
        &self,
        acts: &'a [ActCounts],
    ) -> impl Iterator<Item = (&'a str, &'a HeldSince)> {
        acts.iter().filter_map(|acts| {
            let follows = self.renderer.streams.contains(&acts.stream);
            let held = acts.held.as_ref().filter(|_| follows)?;
            Some((&*acts.stream, held))
        })
    }
}

impl Operator {
    pub fn renderers(&self) -> Vec<Connected> {
        let changes = self.pool.changes();
        let newest = self.live.position();
        let connected = |renderer: Arc<Renderer>| {
            let sent = renderer.position();
            let reading = changes.read();
            let mut streams = renderer.streams.iter();
            let behind = streams
                .any(|stream| !reading.has_nothing_after(stream, renderer.keys.as_deref(), sent));
            Connected {
                position: Position {
                    seq: sent,
                    ..newest
                },
                lag: match behind {
                    true => newest.seq - sent,
                    false => 0,
                },
                renderer,
            }
        };
        self.live.renderers().into_iter().map(connected).collect()
    }
}
