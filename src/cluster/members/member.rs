//! What a node says of itself.
//!
//! **Invariant**: it says nothing that it has to ask the database for.

use std::time::Duration;

use uuid::Uuid;

/// What a node is, from its start to its end.
#[derive(Debug, Clone)]
pub struct Member {
    /// Of one life of the process.
    pub id: Uuid,
    /// Its name in the cluster.
    pub name: String,
    /// Of Headgate.
    pub version: String,
    /// Where it listens.
    pub address: String,
    /// It may run the sinks, if it is its turn.
    pub may_run_sinks: bool,
    /// The newest format of the log that it knows.
    pub format: i32,
}

/// How a node is at the moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Said {
    /// Newest entry of the log that its copies have.
    pub place: u64,
    /// Newest entry that changed `catalog.db`.
    pub catalog: u64,
    /// How far its copies are behind the log.
    pub delay: Duration,
    pub renderers: u64,
    /// Digest of the declared configuration.
    pub config: [u8; 16],
    /// Digest of the plugins of its sinks.
    pub plugins: [u8; 16],
    /// Digest of the admin tokens that it accepts; `None`: it does not know yet.
    pub tokens: Option<[u8; 16]>,
}
