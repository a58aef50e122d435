//! The nodes that share one database.
//!
//! **Invariant**: every node gives the same answer but for `this`, as far as it can reach the database.

use crate::answers;

answers! {
    /// The cluster. With the engine `file` it is the daemon itself, without a database.
    pub struct ClusterData {
        /// `file`, or `postgres`.
        engine: String,
        /// Of a cluster: `standby`: what got a 202 is on a standby too; `local`: a failover can lose it.
        #[serde(skip_serializing_if = "Option::is_none")]
        durability: Option<String>,
        /// Of a cluster: the generation of the tables with accepted requests.
        #[serde(skip_serializing_if = "Option::is_none")]
        generation: Option<u32>,
        /// Of a cluster: its database.
        #[serde(skip_serializing_if = "Option::is_none")]
        database: Option<ClusterDatabaseData>,
        /// The nodes, by name.
        nodes: Vec<ClusterNodeData>,
    }

    /// The database of a cluster, as the answering node sees it.
    pub struct ClusterDatabaseData {
        /// Whether it answers.
        reachable: bool,
        /// Version of PostgreSQL; null: it never answered.
        version: Option<String>,
        /// The standbys that confirm commits; null: there is none.
        standby: Option<String>,
        /// Since when it answers, or does not, RFC 3339.
        since: String,
        /// Why it cannot be reached.
        problem: Option<String>,
    }

    /// The node that runs the sinks.
    pub struct SinksOwnerData {
        /// Its name.
        name: String,
    }

    /// A node that was removed.
    pub struct RemovedNodeData {
        /// Its name.
        name: String,
    }

    /// A node.
    pub struct ClusterNodeData {
        /// Its name.
        name: String,
        /// Version of Headgate.
        version: String,
        /// Whether it is the one that answers.
        this: bool,
        /// Whether it said within the last seconds that it lives.
        live: bool,
        /// Whether it runs the sinks.
        runs_sinks: bool,
        /// Newest entry of the log of changes with a change of streams, connectors, keys or sinks that its copies have; null with the engine `file`.
        catalog: Option<u64>,
        /// Newest entry of the log of changes that its copies have, whether or not it changed items: equal numbers mean equal copies. With the engine `file`: number of the newest change of the data pool.
        pool: u64,
        /// How far its copies are behind, in milliseconds.
        #[serde(rename = "delay_ms")]
        delay: u64,
        /// When it last said that it lives, RFC 3339.
        seen: String,
        /// Its connected renderers.
        renderers: u64,
        /// What of it differs from other nodes, and why it does not run the sinks, as sentences.
        problems: Vec<String>,
    }
}
