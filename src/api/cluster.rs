//! The cluster: its database and its nodes.
//!
//! **Invariant**: an answer costs no question to the database, so there is one while it is away.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};

use super::{by, param};
use base::clock;
use cluster::{ClusterStatus, DatabaseStatus, NodeStatus};
use http::envelope::{self, Success};
use http::error::ApiError;
use operate::Operator;
use wire::{ClusterData, ClusterDatabaseData, ClusterNodeData, RemovedNodeData, SinksOwnerData};

/// The cluster.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("cluster")
        .oapi_tag("status")
        .get(GetCluster(operator.clone()))
        .push(
            Router::with_path("nodes/{name}")
                .delete(RemoveNode(operator.clone()))
                .push(Router::with_path("claim").post(ClaimSinks(operator.clone()))),
        )
}

struct GetCluster(Operator);

/// The nodes that share one database.
///
/// With the engine `file`, the daemon is the only node.
#[endpoint(
    operation_id = "cluster",
    responses((
        status_code = 200, body = Success<ClusterData>, description = "The database and the nodes.",
        example = json!({"success": true, "data": {
            "engine": "postgres", "durability": "standby", "generation": 7,
            "database": {"reachable": true, "version": "15.20", "standby": "b", "since": "2026-01-31T12:00:00.000Z", "problem": null},
            "nodes": [{
                "name": "a", "version": "0.2.0", "this": true, "live": true, "runs_sinks": true, "catalog": 41,
                "pool": 90213, "delay_ms": 4, "seen": "2026-01-31T12:34:56.000Z", "renderers": 12, "problems": []
            }]
        }}),
    )),
)]
impl GetCluster {
    async fn handle(&self) -> Success<ClusterData> {
        let operator = &self.0;
        envelope::ok(match &operator.cluster {
            Some(cluster) => ClusterData {
                durability: Some(operator.about.durability.to_owned()),
                ..of_cluster(cluster.read())
            },
            None => ClusterData {
                engine: "file".to_owned(),
                nodes: vec![ClusterNodeData {
                    catalog: None,
                    ..node_data(operator.only_node())
                }],
                ..ClusterData::default()
            },
        })
    }
}

struct RemoveNode(Operator);

/// Remove a node that is gone.
///
/// A node that stops in order removes itself. A node that is gone for good keeps its name until it is removed.
#[endpoint(
    operation_id = "remove_node",
    parameters(("name" = String, Path, description = "Name of the node.")),
    responses(
        (status_code = 200, body = Success<RemovedNodeData>, description = "The node that was removed."),
        (status_code = 404, description = "No such node."),
        (status_code = 409, description = "The node is running."),
        (status_code = 503, description = "The database cannot be reached."),
    ),
)]
impl RemoveNode {
    async fn handle(&self, req: &mut Request) -> Result<Success<RemovedNodeData>, ApiError> {
        let name = param(req, "name");
        self.0.remove_node(&name, by(req)).await?;
        Ok(envelope::ok(RemovedNodeData { name }))
    }
}

struct ClaimSinks(Operator);

/// Have a node run the sinks.
///
/// The node that runs them stops them and gives them to this one. Calls to receivers that are in progress end before.
#[endpoint(
    operation_id = "claim_sinks",
    parameters(("name" = String, Path, description = "Name of the node.")),
    responses(
        (status_code = 200, body = Success<SinksOwnerData>, description = "The node runs the sinks."),
        (status_code = 404, description = "No such node."),
        (status_code = 409, description = "The node is away, its configuration excludes it, or it differs from the others."),
        (status_code = 503, description = "The node that runs the sinks did not answer, or no node does."),
    ),
)]
impl ClaimSinks {
    async fn handle(&self, req: &mut Request) -> Result<Success<SinksOwnerData>, ApiError> {
        let name = param(req, "name");
        self.0.claim_sinks(&name, by(req)).await?;
        Ok(envelope::ok(SinksOwnerData { name }))
    }
}

fn of_cluster(cluster: ClusterStatus) -> ClusterData {
    ClusterData {
        engine: "postgres".to_owned(),
        durability: None,
        generation: Some(cluster.generation),
        database: Some(database_data(cluster.database)),
        nodes: cluster.nodes.into_iter().map(node_data).collect(),
    }
}

fn database_data(database: DatabaseStatus) -> ClusterDatabaseData {
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    ClusterDatabaseData {
        reachable: database.reachable,
        version: some(database.version),
        standby: some(database.standbys.join(", ")),
        since: clock::rfc3339(database.since),
        problem: database.problem,
    }
}

fn node_data(node: NodeStatus) -> ClusterNodeData {
    ClusterNodeData {
        name: node.name,
        version: node.version,
        this: node.is_this,
        live: node.is_live,
        runs_sinks: node.runs_sinks,
        catalog: Some(node.catalog),
        pool: node.entry,
        delay: u64::try_from(node.delay.as_millis()).unwrap_or(u64::MAX),
        seen: clock::rfc3339(node.seen),
        renderers: node.renderers,
        problems: (node.problems.into_iter())
            .chain(node.token_problem)
            .collect(),
    }
}
