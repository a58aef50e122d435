//! `headgate stream`: the streams of a running daemon.
//!
//! Called by the command line; asks the admin API.
//!
//! **Invariant**: what was not given is not sent, so a change leaves it as it is.

use serde_json::{Map, Value};

use super::client::AdminArgs;
use super::error::CliError;
use super::resource::{
    Column, DESCRIPTION, ListArgs, Resource, delete_when, given, number_or, text_or_none,
};

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
    settings: Settings,
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
    settings: Settings,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate stream delete` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate stream delete orders")]
struct DeleteArgs {
    /// Its name
    name: String,
    /// Also when keys name it; what they submit or ask for is then answered 404
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What can be set of a stream.
#[derive(Debug, clap::Args)]
struct Settings {
    /// What it is for, in at most 200 characters; empty: nothing is said any more
    #[arg(long, value_name = "TEXT", value_parser = text_or_none)]
    description: Option<Value>,
    /// What an update does to the fields that it does not name: they go, or stay
    #[arg(long, value_name = "HOW", value_parser = ["replace", "merge"])]
    on_update: Option<String>,
    /// After so many seconds without data renderers are told that it is stale; or `never`
    #[arg(long, value_name = "SECONDS", value_parser = number_or("never"))]
    stale_after: Option<Value>,
    /// The field that says how new an item is, a number or a time; empty: the order of acceptance decides
    #[arg(long, value_name = "FIELD", value_parser = text_or_none)]
    version_field: Option<Value>,
    /// Which items are removals, such as _event=orders/delete,orders/cancelled; empty: none
    #[arg(long, value_name = "FIELD=VALUES", value_parser = delete_when)]
    delete_when: Option<Value>,
    /// After so many seconds without another update an item is removed from the data pool; or `never`
    #[arg(long, value_name = "SECONDS", value_parser = number_or("never"))]
    expire_after: Option<Value>,
    /// Items that it may have in the data pool, after which it takes no new ones; or `any`
    #[arg(long, value_name = "N", value_parser = number_or("any"))]
    items_max: Option<Value>,
    /// The same by the bytes of their keys and fields; or `any`
    #[arg(long, value_name = "BYTES", value_parser = number_or("any"))]
    bytes_max: Option<Value>,
}

impl Settings {
    fn body(self) -> Map<String, Value> {
        given([
            ("description", self.description),
            ("on_update", self.on_update.map(Value::from)),
            ("stale_after_seconds", self.stale_after),
            ("version", self.version_field),
            ("delete_when", self.delete_when),
            ("expire_after_seconds", self.expire_after),
            ("items_max", self.items_max),
            ("bytes_max", self.bytes_max),
        ])
    }
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
            streams.create(&args.name, args.settings.body()).await
        }
        StreamCommand::Change(args) => {
            let streams = streams(&args.admin)?;
            let options = "--description, --on-update, --stale-after, --version-field, --delete-when, --expire-after, --items-max, --bytes-max";
            let body = args.settings.body();
            streams.change(&args.name, body, options).await
        }
        StreamCommand::Delete(args) => {
            let force = if args.force { "?force=true" } else { "" };
            streams(&args.admin)?.delete(&args.name, force).await
        }
    }
}
