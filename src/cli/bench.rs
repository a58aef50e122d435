//! `headgate bench`: measures a running daemon, or with `--nodes` daemons that it starts itself, alone and as a cluster.
//!
//! What is measured is in the package `client`. Here are the nodes (`node`), their directory and configuration (`place`), and
//! their schema (`schema`).
//!
//! **Invariant**: with `--nodes`, no other daemon and no other schema is used. Processes, directory and schema are gone at the
//! end, also after a failure or a signal. If that fails, it says what is left and how to delete it.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use super::error::CliError;
use super::output::{json_pretty, note, print, shown};
use super::signals::Signals;
use ::client::bench::nodes::{self, BenchKeys, MeasuredNodes, NodesReport};
use ::client::bench::{self as running, BenchLoad};
use base::process;

use self::node::ChildNode;
use self::place::BenchFolder;
use self::schema::BenchSchema;

mod node;
mod place;
mod schema;

/// What stands in place of a verb for a node of the bench.
pub(super) const NODE_VERB: &str = node::VERB;

/// How long each load lasts, in seconds.
const SECONDS: u32 = 10;
const ALONE: &str = "embedded";

/// Arguments of `headgate bench`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  headgate bench
  headgate bench --seconds 60 --json > bench.json
  headgate bench --url https://gate.example --admin-url http://127.0.0.1:8081 --data-dir /var/lib/headgate
  headgate bench --nodes 0 --disk-dir /var/tmp
  HEADGATE_DATABASE=postgres://headgate:secret@db1/headgate headgate bench --nodes 2

Without --nodes, it LOADS a running daemon: while it runs, other requests compete for the same disk and cores. It does
not touch other data: it creates a separate stream, connector, key and read key, and deletes them with their items at
the end, also after Ctrl-C. Entries in the request log and the audit log remain, and an empty view in pool.db. It needs
an admin token that can create streams. To measure the disk and cores too, run it on the machine of the daemon, as the
user of the daemon, who can write to the data directory. The result includes the cores that the benchmark uses: to
exclude them, run it on another machine.

With --nodes, it starts daemons on free ports of 127.0.0.1, with data directories in a temporary directory, and uses no
daemon that is running. It measures one daemon with the embedded engine. With 1 to 9 nodes, it then measures these over
a separate schema of the database, and kills the node that runs the sinks once. It deletes directory and schema at the
end, also after Ctrl-C. Its role needs the right to create a schema. Both have two parts that last --seconds each: all
connections, and one request after the other.")]
pub struct BenchVerbArgs {
    /// Start daemons and measure these: 0 is one with the embedded engine; 1 to 9 are also this number of nodes over
    /// --database
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u8).range(0..=9),
        conflicts_with_all = ["keep_rate", "all_sinks", "data_dir", "service"]
    )]
    nodes: Option<u8>,
    /// With --nodes: PostgreSQL database, as a URL for each of its servers; prefer the environment variable
    #[arg(
        long,
        value_name = "URL",
        env = "HEADGATE_DATABASE",
        hide_env_values = true
    )]
    database: Option<String>,
    /// With --nodes: the nodes ask the database for changes, as with cluster.hints = "poll"
    #[arg(long, requires = "nodes")]
    poll: bool,
    /// With --nodes: connections of the load, spread over the nodes
    #[arg(
        long,
        value_name = "N",
        requires = "nodes",
        default_value_t = 64,
        value_parser = clap::value_parser!(u16).range(1..=4_000)
    )]
    connections: u16,
    /// With --nodes: about the bytes of an item
    #[arg(
        long,
        value_name = "BYTES",
        requires = "nodes",
        default_value_t = 200,
        value_parser = clap::value_parser!(u32).range(50..=1_000_000)
    )]
    body: u32,
    /// With --nodes: items of each request
    #[arg(
        long,
        value_name = "N",
        requires = "nodes",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=1_000)
    )]
    items: u16,
    #[command(flatten)]
    running: running::BenchArgs,
}

/// Omits the URLs, which can have passwords.
impl fmt::Debug for BenchVerbArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BenchVerbArgs")
            .field("nodes", &self.nodes)
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

impl BenchVerbArgs {
    fn load(&self) -> BenchLoad {
        let seconds = self.running.seconds.unwrap_or(SECONDS);
        BenchLoad {
            connections: self.connections.into(),
            item_bytes: usize::try_from(self.body).unwrap_or(usize::MAX),
            items: self.items.into(),
            time: Duration::from_secs(seconds.into()),
        }
    }
}

/// Runs the verb.
///
/// # Errors
/// Exit code 2: the arguments or the database cannot be used; 1: something failed, or a signal arrived.
pub fn run(args: BenchVerbArgs) -> Result<(), CliError> {
    let Some(nodes) = args.nodes else {
        return super::short(running::run(args.running));
    };
    process::keep_files_private();
    process::take_open_files();
    // One thread would limit several nodes.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("cannot start: {error}")))?;
    runtime.block_on(run_nodes(&args, nodes))
}

/// Runs a node of the bench: `serve`, in a process that ends with the bench.
pub(super) fn run_node(arguments: impl Iterator<Item = OsString>) -> Result<(), CliError> {
    node::run(arguments)
}

async fn run_nodes(args: &BenchVerbArgs, nodes: u8) -> Result<(), CliError> {
    let mut signals = Signals::new()?;
    let finding = async {
        match nodes {
            0 => Ok(None),
            _ => BenchSchema::find(args.database.as_deref(), args.poll)
                .await
                .map(Some),
        }
    };
    let schema = tokio::select! {
        found = finding => found?,
        () = signals.any() => return Err(stopped()),
    };
    let folder = BenchFolder::make(args.running.disk_dir.as_deref())?;
    let measured = tokio::select! {
        measured = measure(args.load(), usize::from(nodes), &folder, schema.as_ref()) => measured,
        () = signals.any() => Err(stopped()),
    };
    let dropped = match &schema {
        None => Ok(()),
        Some(schema) => tokio::select! {
            dropped = schema.delete() => dropped,
            () = signals.any() => Err(schema.left("stopped by a second signal")),
        },
    };
    let deleted = folder.delete();
    let printed = match &measured {
        Ok(report) if args.running.json => json_pretty(report).and_then(|json| print(&json)),
        Ok(report) => print(&report.to_string()),
        Err(_) => Ok(()),
    };
    let results = [measured.map(drop), dropped, deleted, printed];
    let errors: Vec<CliError> = results.into_iter().filter_map(Result::err).collect();
    let messages: Vec<&str> = errors.iter().map(|error| &*error.message).collect();
    match errors.first() {
        None => Ok(()),
        Some(first) => Err(CliError {
            code: first.code,
            message: messages.join("\n"),
        }),
    }
}

fn stopped() -> CliError {
    CliError::failed("stopped by a signal; no measurement is complete")
}

/// Measures one daemon with the embedded engine, then the nodes of the schema.
async fn measure(
    load: BenchLoad,
    nodes: usize,
    folder: &BenchFolder,
    schema: Option<&BenchSchema>,
) -> Result<NodesReport, CliError> {
    let keys = BenchKeys::new()?;
    let durability = schema.map(BenchSchema::durability);
    let mut report = NodesReport::begin(load, folder.path(), durability).await;
    let seconds = load.time.as_secs();
    note(&format!(
        "measuring one daemon with the embedded engine, in two parts of {seconds} s; Ctrl-C stops and cleans up"
    ));
    let alone = vec![ChildNode::start(folder, ALONE, &keys, None)?];
    report.embedded = Some(measure_started(alone, &keys, load).await?);
    if let Some(schema) = schema {
        note(&format!(
            "measuring {nodes} nodes over the schema {}, in two parts of {seconds} s",
            schema.name()
        ));
        let names = ('a'..='i').take(nodes).map(String::from);
        let started = names.map(|name| ChildNode::start(folder, &name, &keys, Some(schema)));
        let started = started.collect::<Result<Vec<_>, _>>()?;
        report.cluster = Some(measure_started(started, &keys, load).await?);
    }
    report.conclude();
    Ok(report)
}

/// Measures nodes that were started, and stops them.
async fn measure_started(
    mut children: Vec<ChildNode>,
    keys: &BenchKeys,
    load: BenchLoad,
) -> Result<MeasuredNodes, CliError> {
    let mut ready = Vec::new();
    for child in &mut children {
        ready.push(child.ready(keys).await?);
    }
    let cpu_micros = || -> Option<f64> { children.iter().map(ChildNode::cpu_micros).sum() };
    let kill = |name: &str| {
        children
            .iter()
            .filter(|child| child.name() == name)
            .try_for_each(ChildNode::kill)
    };
    let measured = nodes::measure(&ready, load, cpu_micros, kill).await;
    // Screens and senders are gone first.
    drop(ready);
    match measured {
        Ok(measured) => {
            for child in &children {
                child.terminate();
            }
            for child in children {
                if let Some(left) = child.stop().await {
                    note(&shown(&left));
                }
            }
            Ok(measured)
        }
        Err(mut error) => {
            let ended = children.iter_mut().filter_map(ChildNode::explain_end);
            for explained in ended {
                error.message = format!("{}\n{explained}", error.message);
            }
            Err(error)
        }
    }
}
