//! What a node knows of its cluster: read by operators, written by the task that says that the node lives.
//!
//! **Invariant**: what is read here costs no question to the database, and stays what it was while the database is away.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::clock::Unix;
use tokio::sync::watch;
use uuid::Uuid;

use crate::HandOver;

/// What a node knows of its cluster. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Status {
    known: Arc<Mutex<ClusterStatus>>,
    /// Apart from the rest, so that nobody who waits for the database is woken by each beat.
    is_away: watch::Sender<bool>,
    /// What an operator wants of it.
    pub hand_over: HandOver,
}

/// The database and the nodes, as the newest answer of the database says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The generation of the journal's tables.
    pub generation: u32,
    pub database: DatabaseStatus,
    /// By name; this one is among them.
    pub nodes: Vec<NodeStatus>,
    /// The changes of other nodes cannot be followed for this reason.
    pub copy_problem: Option<String>,
}

/// The database of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatabaseStatus {
    pub reachable: bool,
    /// Since when it is so.
    pub since: Unix,
    /// As the server says it; empty: it never answered.
    pub version: String,
    /// The standbys that confirm commits, by name.
    pub standbys: Vec<String>,
    /// Why it cannot be reached.
    pub problem: Option<String>,
    /// No commit waits for a standby, although the configuration promises it: a sentence.
    pub asynchronous: Option<String>,
    /// Transactions of others that have been open for a minute, as sentences.
    pub transactions: Vec<String>,
}

/// A node, as it last said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// Of one life of the process.
    pub id: Uuid,
    pub name: String,
    /// Of Headgate.
    pub version: String,
    /// Where it listens.
    pub address: String,
    /// The newest format of the log that it knows.
    pub format: i32,
    /// It is the one that was asked.
    pub is_this: bool,
    /// It has said so within the last seconds.
    pub is_live: bool,
    pub runs_sinks: bool,
    /// `cluster.sinks` says so.
    pub may_run_sinks: bool,
    /// Newest change of `catalog.db` that its copy has.
    pub catalog: u64,
    /// Newest entry of the log that its copies have.
    pub entry: u64,
    /// How far its copies are behind the log.
    pub delay: Duration,
    /// When it last said that it lives, by the clock of the database.
    pub seen: Unix,
    pub renderers: u64,
    /// What of it differs from this node, and why it does not run the sinks; sentences.
    pub problems: Vec<String>,
    /// In what the admin tokens that it accepts differ; a sentence. It can run the sinks nevertheless.
    pub token_problem: Option<String>,
}

impl NodeStatus {
    /// For sentences that name nodes of several versions, as `b (headgate 0.2.0)`.
    pub fn name_and_version(&self) -> String {
        format!("{} (headgate {})", self.name, self.version)
    }
}

impl ClusterStatus {
    /// The name of the node that runs the sinks.
    pub fn runs_sinks(&self) -> Option<&str> {
        let mut nodes = self.nodes.iter();
        let node = nodes.find(|node| node.is_live && node.runs_sinks)?;
        Some(&node.name)
    }
}

impl Status {
    /// A copy of it, so that pages hold no lock that a beat waits for.
    pub fn read(&self) -> ClusterStatus {
        self.lock().clone()
    }

    /// Whether the database does not answer, as far as is known.
    pub fn database_is_away(&self) -> bool {
        !self.lock().database.reachable
    }

    /// The same, to wait until it is otherwise.
    pub fn watch_database(&self) -> watch::Receiver<bool> {
        self.is_away.subscribe()
    }

    pub fn change(&self, change: impl FnOnce(&mut ClusterStatus)) {
        let mut known = self.lock();
        change(&mut known);
        let is_away = !known.database.reachable;
        self.is_away
            .send_if_modified(|before| std::mem::replace(before, is_away) != is_away);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ClusterStatus> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
