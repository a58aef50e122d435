//! `headgate cluster`: nodes that share one PostgreSQL database.
//!
//! Called by the command line.
//!
//! **Invariant**: what asks a node works on any node.

use super::error::{CliError, WRONG_USE};
use super::output::print;
use super::{ConfigArgs, load};
use crate::daemon::{DaemonError, database_of, make_tables};
use postgres::Made;
use settings::Engine;

/// Arguments of `headgate cluster`.
#[derive(Debug, clap::Args)]
pub struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ClusterCommand {
    /// Make the tables of a cluster in its database
    Init(InitArgs),
    /// Show the nodes, which of them runs the sinks, and the database
    Status(::client::cluster::StatusArgs),
    /// Have a node run the sinks
    Claim(::client::cluster::ClaimArgs),
    /// Remove a node that will not return
    Leave(::client::cluster::LeaveArgs),
}

/// Arguments of `headgate cluster init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The first node makes them, too, when it starts.

Example:
  headgate cluster init --config headgate.toml")]
struct InitArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

pub async fn run(args: ClusterArgs) -> Result<(), CliError> {
    match args.command {
        ClusterCommand::Init(args) => init(&args).await,
        ClusterCommand::Status(args) => ::client::cluster::status(args).await,
        ClusterCommand::Claim(args) => ::client::cluster::claim(args).await,
        ClusterCommand::Leave(args) => ::client::cluster::leave(args).await,
    }
}

async fn init(args: &InitArgs) -> Result<(), CliError> {
    let loaded = load(&args.config)?;
    let settings = &loaded.settings;
    if settings.storage.engine == Engine::File {
        return Err(CliError {
            code: WRONG_USE,
            message: "storage.engine is \"file\", so there is no cluster; set it to \"postgres\", and set cluster.urls".to_owned(),
        });
    }
    let schema = &settings.cluster.schema;
    let failed = |error: DaemonError| CliError {
        code: error.exit_code(),
        message: error.to_string(),
    };
    let database = database_of(settings).map_err(failed)?;
    print(&match make_tables(&database).await.map_err(failed)? {
        Made::Now => format!("the tables of the cluster are made, in the schema {schema}\n"),
        Made::Upgraded => {
            format!(
                "the tables of the cluster in the schema {schema} have the format of this version now\n"
            )
        }
        Made::Before => {
            format!("the tables of the cluster are in the schema {schema}; nothing was changed\n")
        }
    })
}
