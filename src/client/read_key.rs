//! `headgate read-key`: the read keys of a running daemon.
//!
//! Called by the command line; asks the admin API.
//!
//! **Invariant**: the key is printed once, on standard output, alone on its line, and kept nowhere.

use reqwest::Method;
use serde_json::Value;

use super::client::AdminArgs;
use super::error::CliError;
use super::key::{MadeOutput, networks, print_made};
use super::output::{cut, plain};
use super::resource::{
    Column, DESCRIPTION, ListArgs, Resource, given, number_or, text_or_none, time_or_never,
};

/// What `headgate read-key` is told.
#[derive(Debug, clap::Args)]
pub struct ReadKeyArgs {
    #[command(subcommand)]
    command: ReadKeyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ReadKeyCommand {
    /// List the read keys
    #[command(after_help = "\
Example:
  headgate read-key list --output json")]
    List(ListArgs),
    /// Create a read key and print it once
    Create(CreateArgs),
    /// Change a read key; its connections end and may come again
    Change(ChangeArgs),
    /// Revoke a read key, for good; its connections end
    #[command(after_help = "\
Example:
  headgate read-key revoke lobby-screen")]
    Revoke(Named),
    /// Delete a read key: it is refused from now on, and no longer listed
    #[command(after_help = "\
Example:
  headgate read-key delete lobby-screen")]
    Delete(Named),
}

/// What `headgate read-key create` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate read-key create lobby-screen --stream orders --stream news")]
struct CreateArgs {
    /// Its name: letters, digits, `_`, `.` or `-`
    name: String,
    /// Who has it, or where it is used, in at most 200 characters
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A stream that it may read; may be repeated
    #[arg(long, value_name = "STREAM", required = true)]
    stream: Vec<String>,
    /// When it ends, such as 2030-01-31T00:00:00Z
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// It may stand in a URL, for programs that can neither set headers nor run a script
    #[arg(long)]
    allow_in_url: bool,
    /// A network such as 10.0.0.0/8 from which it is taken, an address, or `unix`; may be repeated
    #[arg(long, value_name = "NETWORK")]
    network: Vec<String>,
    /// How many feeds it may ask for in a second, if not 50
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// An origin whose pages may read with it, beside those of [live], or `null` for pages in files; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    origin: Vec<String>,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    output: MadeOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate read-key change` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate read-key change lobby-screen --stream orders --expires never")]
struct ChangeArgs {
    #[command(flatten)]
    key: Named,
    /// Who has it, or where it is used, in at most 200 characters; empty: nothing is said any more
    #[arg(long, value_name = "TEXT", value_parser = text_or_none)]
    description: Option<Value>,
    /// A stream that it may read from now on, instead of those so far; may be repeated
    #[arg(long, value_name = "STREAM")]
    stream: Vec<String>,
    /// When it ends, such as 2030-01-31T00:00:00Z; or `never`
    #[arg(long, value_name = "TIME", value_parser = time_or_never)]
    expires: Option<Value>,
    /// Whether it may stand in a URL
    #[arg(long, value_name = "BOOL")]
    allow_in_url: Option<bool>,
    /// A network from which it is taken from now on, instead of those so far; may be repeated; empty: from everywhere
    #[arg(long, value_name = "NETWORK")]
    network: Vec<String>,
    /// How many feeds it may ask for in a second; or `default`
    #[arg(long, value_name = "N", value_parser = number_or("default"))]
    rate: Option<Value>,
    /// An origin whose pages may read with it from now on, instead of those so far; may be repeated; empty: none
    #[arg(long, value_name = "ORIGIN")]
    origin: Vec<String>,
}

/// Which key.
#[derive(Debug, clap::Args)]
struct Named {
    /// Its name
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

const COLUMNS: &[Column] = &[
    Column::field("NAME", "name"),
    Column::field("PREFIX", "prefix"),
    Column::of("STREAMS", |key| {
        let streams = key["streams"].as_array().into_iter().flatten();
        cut(streams.map(plain).collect::<Vec<_>>().join(", "))
    }),
    Column::field("STATE", "state"),
    Column::field("EXPIRES", "expires_at"),
    Column::field("DECLARED", "declared"),
    DESCRIPTION,
];

/// Runs the verb.
pub async fn run(args: ReadKeyArgs) -> Result<(), CliError> {
    let keys = |admin| Resource::new(admin, "read key", "/api/admin/read-keys");
    match args.command {
        ReadKeyCommand::List(args) => {
            let none = "there are no read keys; create one with `headgate read-key create NAME --stream STREAM`";
            let keys = keys(&args.admin)?;
            keys.list(usize::MAX, args.output, none, COLUMNS).await
        }
        ReadKeyCommand::Create(args) => {
            let body = given([
                ("name", Some(args.name.into())),
                ("description", args.description.map(Value::from)),
                ("streams", Some(args.stream.into())),
                ("expires_at", args.expires.map(Value::from)),
                ("allow_in_url", Some(args.allow_in_url.into())),
                ("networks", networks(args.network)),
                ("requests_per_second", args.rate.map(Value::from)),
                ("origins", networks(args.origin)),
            ]);
            let keys = keys(&args.admin)?;
            let made = keys.call(Method::POST, "", Some(body)).await?;
            let hint = "a page that shows it: http://…/render/STREAM#KEY on the service listener";
            print_made(&keys, args.output, &made, hint)
        }
        ReadKeyCommand::Change(args) => {
            let streams = Some(args.stream).filter(|streams| !streams.is_empty());
            let body = given([
                ("description", args.description),
                ("streams", streams.map(Value::from)),
                ("expires_at", args.expires),
                ("allow_in_url", args.allow_in_url.map(Value::from)),
                ("networks", networks(args.network)),
                ("requests_per_second", args.rate),
                ("origins", networks(args.origin)),
            ]);
            let options =
                "--description, --stream, --expires, --allow-in-url, --network, --rate, --origin";
            let keys = keys(&args.key.admin)?;
            keys.change(&args.key.name, body, options).await
        }
        ReadKeyCommand::Revoke(key) => keys(&key.admin)?.revoke(&key.name).await,
        ReadKeyCommand::Delete(key) => keys(&key.admin)?.delete(&key.name, "").await,
    }
}
