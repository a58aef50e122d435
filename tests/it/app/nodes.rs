//! The daemons behind a [`TestApp`](super::TestApp): one, or with `HEADGATE_TEST_ENGINE=postgres:3` the nodes of a cluster.
//!
//! **Invariant**: who has several addresses asks another node with each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::order::Seq;
use headgate::daemon::DaemonError;
use operate::Operator;
use tokio::task::JoinHandle;

use crate::setup::Setup;
use crate::wait::eventually_async;

/// One daemon.
pub(super) struct Node {
    pub(super) setup: Setup,
    pub(super) parts: Operator,
    pub(super) service: String,
    pub(super) admin: String,
    pub(super) daemon: JoinHandle<Result<(), DaemonError>>,
}

impl Node {
    /// The sinks that its copy of the pool knows, with their cursors.
    async fn cursors(&self) -> Vec<(String, Seq)> {
        let known = self.parts.pool.known_sinks().await;
        let known = known.expect("the pool can be read").into_iter();
        known.map(|sink| (sink.name, sink.cursor)).collect()
    }

    /// Whether its own lanes have everything up to `newest` behind them.
    fn has_settled(&self, newest: Seq) -> bool {
        let lanes = self.parts.delivery.lanes();
        // A node of a cluster has none until it runs the sinks.
        let all_run =
            self.parts.node().is_none() || lanes.len() == self.parts.catalog.sinks().len();
        all_run && lanes.iter().all(|lane| lane.cursor() >= newest)
    }
}

/// Waits until the sinks have everything that was accepted, and every node has what they did.
pub(super) async fn drain(nodes: &[Node]) {
    // First: only then is the newest entry known to be the last one that was acknowledged.
    for node in nodes {
        let flushed = node.parts.journal.flush().await;
        flushed.expect("the journal is open");
    }
    let owner = eventually_async("every lane has everything behind it", async || {
        let newest = nodes
            .iter()
            .map(|node| *node.parts.journal.newest().borrow());
        let newest = newest.max().expect("a node");
        nodes.iter().find(|node| node.has_settled(newest))
    })
    .await;
    while matches!(owner.parts.pool.refresh_views(), Ok(true)) {}
    eventually_async("every node has what the sinks did", async || {
        let cursors = owner.cursors().await;
        let position = owner.parts.pool.position();
        for node in nodes.iter().filter(|node| !std::ptr::eq(*node, owner)) {
            if node.parts.pool.position() != position || node.cursors().await != cursors {
                return None;
            }
        }
        Some(())
    })
    .await;
}

/// Where the same is served. Clones take turns with each other.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    urls: Arc<[String]>,
    turn: Arc<AtomicUsize>,
}

impl Addresses {
    pub(super) fn new(urls: impl Iterator<Item = String>) -> Self {
        Self {
            urls: urls.collect(),
            turn: Arc::default(),
        }
    }

    /// Other addresses of the same nodes, with the same turns.
    pub(super) fn and(&self, urls: impl Iterator<Item = String>) -> Self {
        Self {
            urls: urls.collect(),
            turn: Arc::clone(&self.turn),
        }
    }

    /// That of the node whose turn it is.
    pub(super) fn next(&self) -> &str {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        &self.urls[turn % self.urls.len()]
    }

    /// The number of the node that was asked last.
    pub(super) fn asked(&self) -> usize {
        let turns = self.turn.load(Ordering::Relaxed);
        turns.saturating_sub(1) % self.urls.len()
    }

    pub(super) fn all(&self) -> &[String] {
        &self.urls
    }
}

impl From<&str> for Addresses {
    fn from(url: &str) -> Self {
        Self::new(std::iter::once(url.to_owned()))
    }
}

impl From<&String> for Addresses {
    fn from(url: &String) -> Self {
        Self::from(url.as_str())
    }
}
