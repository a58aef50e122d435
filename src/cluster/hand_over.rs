//! Giving the sinks to another node while both run.
//!
//! An operator names the node. Who runs the sinks then waits, which stops the lanes, and gives up the claim when none runs.
//!
//! **Invariant**: the claim goes to the other node after the last lane has stopped, or after the lease has run out.

use std::sync::Arc;

use tokio::sync::watch;
use uuid::Uuid;

/// Whom the sinks of this node are given to. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct HandOver(Arc<HandOverState>);

#[derive(Debug, Default)]
struct HandOverState {
    to: watch::Sender<Option<Uuid>>,
    lanes_run: watch::Sender<bool>,
}

impl HandOver {
    /// Gives the sinks to this node, if this one runs them; returns when it does no longer.
    pub async fn give_to(&self, node: Uuid) {
        let mut to = self.0.to.subscribe();
        self.0.to.send_replace(Some(node));
        let _ = to.wait_for(Option::is_none).await;
    }

    /// Whether lanes of this node may run.
    pub fn set_lanes_run(&self, run: bool) {
        self.0.lanes_run.send_replace(run);
    }

    /// Waits until the sinks are to be given to a node.
    pub(crate) async fn wanted(&self) -> Uuid {
        let mut to = self.0.to.subscribe();
        let wanted = to.wait_for(Option::is_some).await.map(|to| *to);
        match wanted {
            Ok(Some(to)) => to,
            _ => std::future::pending().await,
        }
    }

    /// Waits until no lane of this node runs.
    pub(crate) async fn lanes_stopped(&self) {
        let mut run = self.0.lanes_run.subscribe();
        let _ = run.wait_for(|run| !run).await;
    }

    /// The other node has them, or nothing came of it.
    pub(crate) fn end(&self) {
        self.0.to.send_replace(None);
    }
}
