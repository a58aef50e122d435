//! `headgate cluster status`, `claim` and `leave`: the nodes of a cluster and their database, which of them runs the sinks, and
//! removing one that is gone.
//!
//! Called by the command line; calls the admin API of one node.
//!
//! **Invariant**: any node answers the same, as far as it can reach the database.

use reqwest::Method;

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{ListOutput, json_line, json_pretty, plain, print, shown, when};
use super::resource::{Column, Resource, table};
use base::text::percent_encoded;
use wire::{ClusterData, ClusterDatabaseData, ClusterNodeData, RemovedNodeData, SinksOwnerData};

/// Arguments of `headgate cluster status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate cluster status
  headgate cluster status --output json | jq '.nodes[] | select(.runs_sinks).name'")]
pub struct StatusArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate cluster claim`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The node that runs them stops them first. Use it before you stop that node's machine for maintenance.

Example:
  headgate cluster claim b")]
pub struct ClaimArgs {
    /// Name of the node that is to run the sinks
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate cluster leave`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A node that stops in order is removed automatically.

Example:
  headgate cluster leave b")]
pub struct LeaveArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

const NODES: &[Column<ClusterNodeData>] = &[
    Column::new("NODE", |one| plain(&one.name)),
    Column::new("VERSION", |one| plain(&one.version)),
    Column::new("STATE", |one| word(one.live, "live", "away")),
    Column::new("SINKS", |one| word(one.runs_sinks, "runs them", "")),
    Column::new("DELAY MS", |one| plain(&one.delay)),
    Column::new("SEEN", |one| when(&one.seen)),
    Column::new("SCREENS", |one| plain(&one.renderers)),
    Column::new("", |one| word(one.this, "this one", "")),
];

fn word(is_so: bool, yes: &str, no: &str) -> String {
    let word = if is_so { yes } else { no };
    word.to_owned()
}

/// Runs the verb.
///
/// # Errors
/// The daemon does not answer.
pub async fn status(args: StatusArgs) -> Result<(), CliError> {
    let cluster: ClusterData = args.admin.client()?.get("/api/admin/cluster").await?;
    print(&match args.output {
        ListOutput::Json => json_pretty(&cluster)?,
        ListOutput::Ndjson => json_line(&cluster)?,
        ListOutput::Table => described(&cluster),
    })
}

/// Runs the verb.
///
/// # Errors
/// The daemon does not answer, there is no such node, or it cannot run the sinks.
pub async fn claim(args: ClaimArgs) -> Result<(), CliError> {
    let nodes = Resource::new(&args.admin, "node", "/api/admin/cluster/nodes")?;
    let below = format!("/{}/claim", percent_encoded(&args.name));
    let owner: SinksOwnerData = nodes.call(Method::POST, &below, None).await?;
    print(&format!("node {} runs the sinks\n", shown(&owner.name)))
}

/// Runs the verb.
///
/// # Errors
/// The daemon does not answer, there is no such node, or it is running.
pub async fn leave(args: LeaveArgs) -> Result<(), CliError> {
    let nodes = Resource::new(&args.admin, "node", "/api/admin/cluster/nodes")?;
    let below = format!("/{}", percent_encoded(&args.name));
    let removed: RemovedNodeData = nodes.call(Method::DELETE, &below, None).await?;
    print(&format!("node {} removed\n", shown(&removed.name)))
}

/// Text output: the database, the nodes, and what is wrong with nodes.
fn described(cluster: &ClusterData) -> String {
    let database = match &cluster.database {
        Some(database) => of_database(database),
        None => "The engine is `file`: this daemon is the only node.\n".to_owned(),
    };
    let durability = match cluster.durability.as_deref() {
        None => String::new(),
        Some("local") => {
            "Durability local: a failover can lose acknowledged requests.\n".to_owned()
        }
        Some(other) => format!("Durability {}.\n", shown(other)),
    };
    let nodes = table(NODES, &cluster.nodes);
    let mut text = format!("{database}{durability}\n{nodes}");
    for node in &cluster.nodes {
        for problem in &node.problems {
            text += &format!("\n{}: {}\n", shown(&node.name), shown(problem));
        }
    }
    text
}

fn of_database(database: &ClusterDatabaseData) -> String {
    let version = database.version.as_deref();
    let version = version.map_or_else(String::new, |version| format!(" {}", shown(version)));
    let standby = database.standby.as_deref().unwrap_or("none");
    let reachable = word(database.reachable, "reachable", "not reachable");
    let why = database.problem.as_deref();
    let why = why.map_or_else(String::new, |why| format!(": {}", shown(why)));
    format!(
        "PostgreSQL{version}, {reachable} since {}{why}. Standby: {}.\n",
        shown(&when(&database.since)),
        shown(standby)
    )
}
