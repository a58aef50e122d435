//! What nodes accept, show and survive that the bench itself has started.
//!
//! `headgate bench --nodes` calls it with the addresses of its daemons; it starts and kills them itself. The load, the renderer
//! and the disk are measured as those of a running daemon are.
//!
//! **Invariant**: only the given nodes are called. With several nodes, the renderer is connected to another node than the one
//! that accepts, and which node has which part depends on who runs the sinks, not on chance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde::Serialize;
use tokio::time::Instant;

use super::BenchLoad;
use super::load;
use super::push::{self, Push};
use super::site::{LOOK_PAUSE, POOL_MAX, settled};
use super::times::Times;
use crate::client::Client;
use crate::error::CliError;
use base::key::{KeyKind, generate};
use takeover::Takeover;
use wire::ClusterData;

pub use report::NodesReport;

mod report;
mod takeover;

/// The name of the stream, the connector and the read key in the configuration of the nodes.
pub const STREAM: &str = "bench";
/// Maximum time until a node runs the sinks, and until a renderer has an item again. Usually it is seconds.
const AGAIN_MAX: Duration = Duration::from_mins(3);
/// How much longer than the load the data pool may take.
const POOL_TIMES: u32 = 20;

/// The secrets of the nodes, in their configuration and in the bench.
pub struct BenchKeys {
    /// Of the one ingest key.
    pub ingest: String,
    /// Of the one read key.
    pub read: String,
    pub admin: String,
}

impl BenchKeys {
    /// New ones.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub fn new() -> Result<Self, CliError> {
        let secret = |kind| {
            let key = generate(kind);
            let failed =
                |error| CliError::failed(format!("the system gives no randomness: {error}"));
            Ok::<_, CliError>(key.map_err(failed)?.expose().to_owned())
        };
        Ok(Self {
            ingest: secret(KeyKind::Ingest)?,
            read: secret(KeyKind::Read)?,
            // A token can have any form.
            admin: secret(KeyKind::Operate)?,
        })
    }
}

pub struct BenchNode {
    name: String,
    sender: Arc<Client>,
    reader: Client,
    admin: Client,
}

impl BenchNode {
    /// The node with this name at these addresses: `http://host:port`.
    ///
    /// # Errors
    /// An address is invalid, or the system's certificates cannot be read.
    pub fn new(name: &str, service: &str, admin: &str, keys: &BenchKeys) -> Result<Self, CliError> {
        Ok(Self {
            name: name.to_owned(),
            sender: Arc::new(Client::new(service, &keys.ingest)?),
            reader: Client::new(service, &keys.read)?,
            admin: Client::new(admin, &keys.admin)?,
        })
    }

    /// Whether it says that it can accept requests.
    pub async fn is_ready(&self) -> bool {
        let asked = (self.reader).call(Method::GET, "/readyz", HeaderMap::new(), Bytes::new());
        asked.await.is_ok_and(|answer| answer.status == 200)
    }
}

#[derive(Debug, Serialize)]
pub struct MeasuredNodes {
    nodes: usize,
    /// 202 responses per second, on all connections.
    requests_per_second: f64,
    /// Items of these requests per second.
    items_per_second: f64,
    /// Times from sending to the 202, on all connections.
    accepted: Times,
    /// Other responses, by status.
    refused: BTreeMap<u16, u64>,
    /// Requests without a response.
    broken: u64,
    /// CPU time of all nodes for a request until it is in the data pool, in µs; `None`: the system does not report it.
    cpu_micros_per_request: Option<f64>,
    /// Items per second from the first request until a renderer's node has all of them in its data pool.
    settled_items_per_second: f64,
    /// One request after the other: times until the 202, and until a renderer has the change.
    alone: Push,
    /// The loss of the node that ran the sinks; `None`: there is no other node.
    takeover: Option<Takeover>,
}

impl MeasuredNodes {
    /// Responses other than 202, and requests without one.
    fn not_accepted(&self) -> u64 {
        self.refused.values().sum::<u64>() + self.broken
    }
}

/// The nodes in the order of their parts: those that do not run the sinks are first.
struct Parts<'a>(Vec<&'a BenchNode>);

impl<'a> Parts<'a> {
    async fn of(nodes: &'a [BenchNode]) -> Result<Self, CliError> {
        let first = nodes
            .first()
            .ok_or_else(|| CliError::failed("there is no node"))?;
        let owner = owner(first, "").await?;
        let mut parts: Vec<&BenchNode> = nodes.iter().collect();
        parts.sort_by_key(|node| node.name == owner);
        Ok(Self(parts))
    }

    /// The renderer is connected to this node.
    fn shows(&self) -> &'a BenchNode {
        self.0[0]
    }

    /// This node accepts what is shown: another one, if there is one.
    fn accepts(&self) -> &'a BenchNode {
        self.0[1 % self.0.len()]
    }

    /// The node that runs the sinks, if there is another one.
    fn runs_sinks(&self) -> Option<&'a BenchNode> {
        self.0.last().copied().filter(|_| self.0.len() > 1)
    }
}

/// The name of the live node that runs the sinks, as this node has it, and which is not `not`. It waits until there is one.
async fn owner(asked: &BenchNode, not: &str) -> Result<String, CliError> {
    let begun = Instant::now();
    while begun.elapsed() < AGAIN_MAX {
        let cluster: ClusterData = asked.admin.get("/api/admin/cluster").await?;
        let mut nodes = cluster.nodes.into_iter();
        if let Some(node) = nodes.find(|node| node.runs_sinks && node.live && node.name != not) {
            return Ok(node.name);
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    Err(CliError::failed(format!(
        "no node ran the sinks within {} s; run the command again on a machine with less load",
        AGAIN_MAX.as_secs()
    )))
}

/// Measures what nodes do that are ready. `cpu_micros` is the CPU time of all of them so far; `kill` ends the node with a name
/// as `SIGKILL` does. With several nodes, one of them is killed at the end.
///
/// # Errors
/// A node does not answer, accepts nothing, or does not apply what it has accepted.
pub async fn measure(
    nodes: &[BenchNode],
    load: BenchLoad,
    cpu_micros: impl Fn() -> Option<f64>,
    kill: impl FnOnce(&str) -> Result<(), CliError>,
) -> Result<MeasuredNodes, CliError> {
    // The nodes of the embedded engine have the name of the host, and there is one.
    let parts = match nodes {
        [one] => Parts(vec![one]),
        _ => Parts::of(nodes).await?,
    };
    let senders: Vec<Arc<Client>> = nodes.iter().map(|node| Arc::clone(&node.sender)).collect();
    let (begun, cpu_begun) = (Instant::now(), cpu_micros());
    let answers = load::run(&senders, load).await?;
    let loaded = begun.elapsed().as_secs_f64().max(1e-9);
    settle(&parts, load).await?;
    let all = begun.elapsed().as_secs_f64().max(1e-9);
    let cpu_used = cpu_begun.zip(cpu_micros());
    let requests = answers.accepted.len() as u64 + answers.untimed;
    let items = requests as f64 * load.items as f64;
    let accepts = &parts.accepts().sender;
    let alone = push::run(&parts.shows().reader, accepts, STREAM, load.time).await?;
    let takeover = match parts.runs_sinks() {
        Some(owner) => Some(takeover::of(&parts, &owner.name, kill).await?),
        None => None,
    };
    Ok(MeasuredNodes {
        nodes: nodes.len(),
        requests_per_second: requests as f64 / loaded,
        items_per_second: items / loaded,
        accepted: Times::of(answers.accepted),
        refused: answers.refused,
        broken: answers.broken,
        cpu_micros_per_request: (cpu_used)
            .map(|(before, after)| (after - before).max(0.0) / requests.max(1) as f64),
        settled_items_per_second: items / all,
        alone,
        takeover,
    })
}

/// Waits until the node that shows has everything that was accepted.
async fn settle(parts: &Parts<'_>, load: BenchLoad) -> Result<(), CliError> {
    let time_max = POOL_MAX + load.time * POOL_TIMES;
    let (sender, reader) = (&parts.accepts().sender, &parts.shows().reader);
    match settled(sender, reader, STREAM, time_max).await? {
        Some(_) => Ok(()),
        None => Err(CliError::failed(format!(
            "the accepted requests were not in the data pool after {} s; use fewer --connections",
            time_max.as_secs()
        ))),
    }
}
