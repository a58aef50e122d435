//! What operators see of a cluster on each of its nodes.
//!
//! The node that runs the sinks has their lanes. The others show the sinks of the catalog with the state `elsewhere`.
//!
//! **Invariant**: what is shown here costs no question to the database, so it is shown while the database is away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::asks::Task;
use super::problem::{Found, ProblemKind};
use super::{By, OperateError, Operator, in_background};
use ::cluster::{ClusterStatus, NodeStatus, RemoveError};
use base::clock::{Unix, rfc3339};
use catalog::{AuditChange, ResourceKind};
use pool::PoolError;
use serde_json::json;

/// A node that is given the sinks has them after this time.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// Why a node does not run the sinks that an operator wants to run them.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("there is no node {0} in the cluster; `headgate cluster status` lists the nodes")]
    Unknown(String),
    #[error("node {0} cannot run the sinks: {1}")]
    CannotRun(String, String),
    #[error(
        "node {0} was given the sinks and does not run them yet; look at `headgate cluster status`"
    )]
    NotTaken(String),
    /// Nobody can be given the sinks without the database.
    #[error(
        "the database of the cluster does not answer, so no node can be given the sinks; retry when it is back"
    )]
    Away,
    /// The node that runs them was not asked, or did not answer.
    #[error(transparent)]
    Asked(#[from] OperateError),
}

/// Whether [`Operator::claim_sinks`] can have this node run the sinks, which it does not do now.
pub fn can_take_sinks(node: &NodeStatus) -> bool {
    !node.runs_sinks && why_not(node).is_none()
}

/// Why a node cannot run the sinks.
fn why_not(node: &NodeStatus) -> Option<String> {
    if !node.is_live {
        return Some("it is away; start it".to_owned());
    }
    if !node.may_run_sinks {
        return Some("cluster.sinks is false in its configuration".to_owned());
    }
    node.problems.first().cloned()
}

impl Operator {
    /// Reads again how far the sinks are that run on another node. The daemon of a cluster calls it every second.
    ///
    /// # Errors
    /// The pool cannot be read; what was known before still is.
    pub async fn see_elsewhere(&self) -> Result<(), PoolError> {
        let Some(cluster) = &self.cluster else {
            return Ok(());
        };
        let reason = where_sinks_run(&cluster.read());
        let sinks = self.catalog.sinks();
        self.delivery.stand_in(&sinks, &reason).await
    }

    /// Whether this is a node of a cluster whose database does not answer.
    pub fn database_is_away(&self) -> bool {
        let known = self.cluster.as_ref();
        known.is_some_and(::cluster::Status::database_is_away)
    }

    /// The name of this node, if it is one of a cluster.
    pub fn node(&self) -> Option<&str> {
        self.cluster.as_ref().map(|_| &*self.about.node)
    }

    /// The node that runs the sinks; `None`: none does now, or this is no node of a cluster.
    pub fn sinks_owner(&self) -> Option<String> {
        let cluster = self.cluster.as_ref()?.read();
        // Without the database, this one may have lost them: nobody knows who has them.
        let known = cluster.database.reachable.then(|| cluster.runs_sinks());
        known.flatten().map(str::to_owned)
    }

    /// Renderers that are connected to other live nodes of the cluster.
    pub fn renderers_elsewhere(&self) -> u64 {
        let nodes = self.cluster.as_ref().map(|cluster| cluster.read().nodes);
        let others = nodes.iter().flatten();
        let others = others.filter(|node| node.is_live && !node.is_this);
        others.map(|node| node.renderers).sum()
    }

    /// This daemon as the only node, outside a cluster.
    pub fn only_node(&self) -> NodeStatus {
        NodeStatus {
            name: self.about.node.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            is_this: true,
            is_live: true,
            runs_sinks: true,
            entry: self.pool.changes().head().get(),
            seen: Unix::now(),
            renderers: self.live.renderers().len() as u64,
            ..NodeStatus::default()
        }
    }

    /// Sets the gauges of the cluster, as this node knows it. While the database is away, this node does not count as
    /// the one that runs the sinks, because another may have them.
    pub(super) fn measure_cluster(&self) {
        let Some(known) = self.cluster.as_ref().map(::cluster::Status::read) else {
            return;
        };
        let live = known.nodes.iter().filter(|node| node.is_live).count();
        let own = known.nodes.iter().find(|node| node.is_this);
        let metrics = &self.metrics;
        metrics
            .cluster_nodes
            .set(i64::try_from(live).unwrap_or(i64::MAX));
        let runs_sinks = own.is_some_and(|node| node.runs_sinks && known.database.reachable);
        metrics.runs_sinks.set(runs_sinks.into());
    }

    /// Gives up the name of a node that is gone.
    ///
    /// # Errors
    /// See [`RemoveError`]; outside a cluster there is no other node.
    pub async fn remove_node(&self, name: &str, by: By) -> Result<(), RemoveError> {
        match (&self.cluster, &self.database) {
            (Some(cluster), Some(database)) => {
                ::cluster::remove(database, cluster, name).await?;
            }
            _ if name == self.about.node => return Err(RemoveError::Live(name.to_owned())),
            _ => return Err(RemoveError::Unknown(name.to_owned())),
        }
        let change = AuditChange::done("delete", ResourceKind::Node, name, json!({}));
        self.record(by, change).await;
        Ok(())
    }

    /// Has the sinks run on the node of this name; returns when they do. Of several nodes with the name, the live one
    /// is taken, then the newest: a node has a new ID after each start.
    ///
    /// # Errors
    /// See [`ClaimError`].
    pub async fn claim_sinks(&self, name: &str, by: By) -> Result<(), ClaimError> {
        let Some(cluster) = &self.cluster else {
            return match name == self.about.node {
                true => Ok(()),
                false => Err(ClaimError::Unknown(name.to_owned())),
            };
        };
        let known = cluster.read();
        let named = known.nodes.iter().filter(|node| node.name == name);
        let node = named.max_by_key(|node| (node.is_live, node.id));
        let node = node.ok_or_else(|| ClaimError::Unknown(name.to_owned()))?;
        if !known.database.reachable {
            return Err(ClaimError::Away);
        }
        if node.runs_sinks && node.is_live {
            return Ok(());
        }
        if let Some(why) = why_not(node) {
            return Err(ClaimError::CannotRun(name.to_owned(), why));
        }
        let before = known.runs_sinks().map(str::to_owned);
        match self.runs_sinks() {
            true => cluster.hand_over.give_to(node.id).await,
            false => {
                self.ask("", Task::HandOver(node.id.to_string()), &by)
                    .await?
            }
        }
        self.taken_by(cluster, name).await?;
        let change =
            AuditChange::done("claim", ResourceKind::Node, name, json!({ "from": before }));
        self.record(by, change).await;
        Ok(())
    }

    /// Waits until the node of this name runs the sinks.
    async fn taken_by(&self, cluster: &::cluster::Status, name: &str) -> Result<(), ClaimError> {
        let until = Instant::now() + TAKEN_WITHIN;
        while cluster.read().runs_sinks() != Some(name) {
            if Instant::now() >= until {
                return Err(ClaimError::NotTaken(name.to_owned()));
            }
            tokio::time::sleep(LOOKS_EVERY).await;
        }
        Ok(())
    }

    /// Waits until the node that runs the sinks has deleted what is kept for one that an operator has deleted here.
    /// What takes longer is deleted later; until then nobody can use the name, because another sink of this name must
    /// not begin with that.
    pub(super) async fn deleted_elsewhere(&self, sink: &str) {
        let until = Instant::now() + TAKEN_WITHIN;
        while !self.runs_sinks() && self.sinks_owner().is_some() && Instant::now() < until {
            let (catalog, name) = (Arc::clone(&self.catalog), sink.to_owned());
            if !in_background(move || catalog.sinks_to_delete().contains(&name)).await {
                return;
            }
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }

    /// Whether a sink of the catalog has no lane because this is a node of a cluster.
    pub(super) fn is_elsewhere(&self, sink: &str) -> bool {
        let known = self.cluster.is_some() && self.catalog.sink(sink).is_some();
        known && self.delivery.lane(sink).is_none()
    }

    /// Whether this node of a cluster runs the sinks.
    pub(super) fn runs_sinks(&self) -> bool {
        let known = self.cluster.as_ref().map(::cluster::Status::read);
        let mut nodes = known.iter().flat_map(|known| &known.nodes);
        nodes.any(|node| node.is_this && node.runs_sinks)
    }

    /// Why a sink has no lane.
    pub(super) fn no_lane(&self, sink: &str) -> OperateError {
        match self.is_elsewhere(sink) {
            true => self.elsewhere(),
            false => OperateError::NoSink,
        }
    }

    pub(super) fn of_cluster(&self, problems: &mut Found) {
        let Some(cluster) = &self.cluster else {
            return;
        };
        let ClusterStatus {
            database,
            nodes,
            copy_problem,
            ..
        } = cluster.read();
        let mut push = |sentence| problems.push(sentence, ProblemKind::Cluster);
        if !database.reachable {
            let why = database.problem.as_deref().unwrap_or("it does not answer");
            push(format!(
                "the database of the cluster has not been reachable since {}, so requests are answered 503, nothing expires, and screens show the last state: {why}",
                rfc3339(database.since)
            ));
        }
        if let Some(why) = database.asynchronous {
            push(format!("accepted requests are on no standby: {why}"));
        }
        for sentence in database.transactions {
            push(format!("the server of the cluster is held up: {sentence}"));
        }
        if let Some(why) = copy_problem {
            push(format!(
                "this node cannot follow what other nodes write, so its pages and screens show an older state: {why}"
            ));
        }
        for node in nodes {
            for why in node.problems.into_iter().chain(node.token_problem) {
                push(format!(
                    "node {} does not fit the other nodes: {why}",
                    node.name
                ));
            }
        }
    }
}

/// Where the sinks run that do not run here, as a sentence.
fn where_sinks_run(cluster: &ClusterStatus) -> String {
    match cluster.runs_sinks() {
        _ if !cluster.database.reachable => {
            "the database of the cluster does not answer; a node that reaches it runs the sinks"
                .to_owned()
        }
        Some(node) => format!("node {node} runs the sinks"),
        None => "no node runs the sinks now".to_owned(),
    }
}
