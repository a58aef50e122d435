//! `headgate stream`: the streams of a running daemon.
//!
//! Called by the command line; asks the admin API.
//!
//! **Invariant**: what was not given is not sent, so a change leaves it as it is.

use super::client::AdminArgs;
use super::error::CliError;
use super::record::{NEW_STREAM, STREAM, Settings};
use super::resource::{Column, DESCRIPTION, ListArgs, Resource};

/// What `headgate stream` is told.
#[derive(Debug, clap::Args)]
pub struct StreamArgs {
    #[command(subcommand)]
    command: StreamCommand,
}

#[derive(Debug, clap::Subcommand)]
enum StreamCommand {
    /// List the streams
    #[command(after_help = "\
Example:
  headgate stream list --output json")]
    List(ListArgs),
    /// Create a stream
    Create(CreateArgs),
    /// Change a stream
    Change(ChangeArgs),
    /// Delete a stream; its items stay in the data pool
    Delete(DeleteArgs),
}

/// What `headgate stream create` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate stream create orders --on-update merge --stale-after 300")]
struct CreateArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    settings: Settings<NEW_STREAM>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate stream change` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate stream change orders --stale-after never")]
struct ChangeArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    settings: Settings<STREAM>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate stream delete` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate stream delete orders --items")]
struct DeleteArgs {
    /// Its name
    name: String,
    /// Also when keys name it; what they submit or ask for is then answered 404
    #[arg(long)]
    force: bool,
    /// Remove its items, too; otherwise they stay in the data pool
    #[arg(long)]
    items: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

const COLUMNS: &[Column] = &[
    Column::field("NAME", "name"),
    Column::field("ON UPDATE", "on_update"),
    Column::field("STALE AFTER", "stale_after_seconds"),
    Column::field("ITEMS", "items"),
    Column::field("ITEMS MAX", "items_max"),
    Column::field("BYTES", "bytes"),
    Column::field("BYTES MAX", "bytes_max"),
    Column::field("DECLARED", "declared"),
    Column::field("CREATED", "created_at"),
    DESCRIPTION,
];

/// Runs the verb.
pub async fn run(args: StreamArgs) -> Result<(), CliError> {
    let streams = |admin| Resource::new(admin, "stream", "/api/admin/streams");
    match args.command {
        StreamCommand::List(args) => {
            let none = "there are no streams; create one with `headgate stream create NAME`";
            let streams = streams(&args.admin)?;
            streams.list(usize::MAX, args.output, none, COLUMNS).await
        }
        StreamCommand::Create(args) => {
            let streams = streams(&args.admin)?;
            streams.create(&args.name, args.settings.0).await
        }
        StreamCommand::Change(args) => {
            let streams = streams(&args.admin)?;
            let options = Settings::<STREAM>::options();
            let body = args.settings.0;
            streams.change(&args.name, body, &options).await
        }
        StreamCommand::Delete(args) => {
            let query = format!("?force={}&items={}", args.force, args.items);
            streams(&args.admin)?.delete(&args.name, &query).await
        }
    }
}
