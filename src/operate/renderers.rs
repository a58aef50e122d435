//! The renderers that are connected.
//!
//! **Invariant**: `lag` is 0 exactly when the renderer was sent every change of its streams.

use std::sync::Arc;

use super::Operator;
use live::Renderer;
use pool::Position;

/// A renderer and how far behind it is.
#[derive(Debug)]
pub struct Connected {
    pub renderer: Arc<Renderer>,
    /// The position that it was told last.
    pub position: Position,
    /// By how many numbers it is behind; an upper bound of the changes that wait for it.
    pub lag: u64,
}

impl Operator {
    /// The renderers that are connected.
    pub fn renderers(&self) -> Vec<Connected> {
        let changes = self.pool.changes();
        let newest = self.live.position();
        let connected = |renderer: Arc<Renderer>| {
            let told = renderer.position();
            let mut streams = renderer.streams.iter();
            let behind = streams
                .any(|stream| !changes.has_nothing_after(stream, renderer.keys.as_deref(), told));
            Connected {
                position: Position {
                    seq: told,
                    ..newest
                },
                lag: match behind {
                    true => newest.seq - told,
                    false => 0,
                },
                renderer,
            }
        };
        self.live.renderers().into_iter().map(connected).collect()
    }
}
