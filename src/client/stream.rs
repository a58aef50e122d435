//! `headgate stream`: the streams of a running daemon.
//!
//! Called by the command line; calls the admin API.
//!
//! **Invariant**: a setting that was not given is not sent, so it stays unchanged.

use super::acts;
use super::client::AdminArgs;
use super::error::CliError;
use super::output::{plain, when};
use super::record::{NEW_STREAM, STREAM, Settings};
use super::resource::{Column, ListArgs, Resource, declared};
use crate::Running;
use settings::Stream;
use wire::StreamData;

/// Arguments of `headgate stream`.
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
    /// Hold a stream: screens keep showing its items, and changes wait
    #[command(after_help = "\
Examples:
  headgate stream hold scores
  headgate stream hold scores --key m1 --until 900")]
    Hold(acts::HoldArgs),
    /// Show the waiting changes, and keep the hold
    #[command(after_help = "\
Example:
  headgate stream take scores")]
    Take(acts::StreamActArgs),
    /// End a hold and show the waiting changes
    #[command(after_help = "\
Example:
  headgate stream resume scores")]
    Resume(acts::StreamActArgs),
    /// Release all overrides
    #[command(after_help = "\
Example:
  headgate stream release scores")]
    Release(acts::ReleaseAllArgs),
    /// Undo your newest act in the stream
    #[command(after_help = "\
Example:
  headgate stream undo scores")]
    Undo(acts::UndoArgs),
}

/// Arguments of `headgate stream create`.
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

/// Arguments of `headgate stream change`.
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

/// Arguments of `headgate stream delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate stream delete orders --items")]
struct DeleteArgs {
    /// Its name
    name: String,
    /// Delete it even if keys name it; their requests then get 404
    #[arg(long)]
    force: bool,
    /// Remove its items too
    #[arg(long)]
    items: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

const COLUMNS: &[Column<StreamData>] = &[
    setting("NAME", "name"),
    setting("ON UPDATE", "on_update"),
    setting("STALE AFTER", "stale_after_seconds"),
    Column::new("ITEMS", |one| plain(&one.items)),
    setting("ITEMS MAX", "items_max"),
    Column::new("BYTES", |one| plain(&one.bytes)),
    setting("BYTES MAX", "bytes_max"),
    Column::new("DECLARED", |one| declared(one.declared)),
    Column::new("CREATED", |one| when(&one.created_at)),
    setting("DESCRIPTION", "description"),
];

/// A column with a setting.
const fn setting(heading: &'static str, name: &str) -> Column<StreamData> {
    Column::setting(heading, Stream::FIELDS, name, |one| &one.settings)
}

pub fn run(args: StreamArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: StreamArgs) -> Result<(), CliError> {
    let streams = |admin| Resource::new(admin, "stream", "/api/admin/streams");
    match args.command {
        StreamCommand::List(args) => {
            let none = "no streams; create one with `headgate stream create NAME`";
            streams(&args.admin)?.list(args.output, none, COLUMNS).await
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
        StreamCommand::Hold(args) => acts::hold(&args).await,
        StreamCommand::Take(args) => acts::take(&args).await,
        StreamCommand::Resume(args) => acts::resume(&args).await,
        StreamCommand::Release(args) => acts::release_all(&args).await,
        StreamCommand::Undo(args) => acts::undo(&args).await,
    }
}
