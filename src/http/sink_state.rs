//! How a sink stands to a request, for callers and for operators.
//!
//! **Invariant**: it is what the cursors, retries and dead letters of the sink say at the moment.

use salvo_oapi::ToSchema;
use serde::Serialize;

use base::clock;
use pool::SinkState;

/// How one sink stands to a request.
#[derive(Debug, Serialize, ToSchema)]
pub struct SinkStateData {
    /// Name of the sink.
    name: String,
    /// `waiting`, `done`, `retrying`, `failed`, or `discarded`: an operator discarded items that the sink had given up.
    state: &'static str,
    /// When it was done or discarded, where that is still known.
    at: Option<String>,
}

impl From<&(String, SinkState)> for SinkStateData {
    fn from((name, state): &(String, SinkState)) -> Self {
        let (state, at) = match state {
            SinkState::Waiting => ("waiting", None),
            SinkState::Done(at) => ("done", at.map(clock::rfc3339)),
            SinkState::Stale { at, .. } => ("stale", at.map(clock::rfc3339)),
            SinkState::Retrying => ("retrying", None),
            SinkState::Failed => ("failed", None),
            SinkState::Discarded(at) => ("discarded", Some(clock::rfc3339(*at))),
        };
        Self {
            name: name.clone(),
            state,
            at,
        }
    }
}
