//! The state of a request in a sink, for senders and operators.
//!
//! **Invariant**: the state follows from the current cursors, retries and dead letters of the sink.

use base::clock;
use pool::SinkState;
use wire::SinkStateData;

/// The state of a request in one sink.
pub fn data((name, state): &(String, SinkState)) -> SinkStateData {
    let (state, at) = match state {
        SinkState::Waiting => ("waiting", None),
        SinkState::Done(at) => ("done", at.map(clock::rfc3339)),
        SinkState::Stale { at, .. } => ("stale", at.map(clock::rfc3339)),
        SinkState::Retrying => ("retrying", None),
        SinkState::Failed => ("failed", None),
        SinkState::Discarded(at) => ("discarded", Some(clock::rfc3339(*at))),
    };
    SinkStateData {
        name: name.clone(),
        state: state.to_owned(),
        at,
    }
}
