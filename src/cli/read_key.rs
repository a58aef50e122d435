//! `headgate read-key`: the read keys of a running daemon.
//!
//! Called by the command line; asks the admin API.
//!
//! **Invariant**: the key is printed once, on standard output, alone on its line, and kept nowhere.

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{AdminArgs, encoded};
use super::error::CliError;
use super::key::{MadeOutput, print_made};
use super::output::{ListOutput, Table, cut, plain, print, print_list, shown};

const READ_KEYS: &str = "/api/admin/read-keys";

/// What `headgate read-key` is told.
#[derive(Debug, clap::Args)]
pub struct ReadKeyArgs {
    #[command(subcommand)]
    command: ReadKeyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ReadKeyCommand {
    /// List the read keys
    List(ListArgs),
    /// Create a read key and print it once
    Create(CreateArgs),
    /// Revoke a read key, for good; its connections end
    Revoke(RevokeArgs),
}

/// What `headgate read-key list` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate read-key list --output json")]
struct ListArgs {
    /// How to print them
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate read-key create` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate read-key create lobby-screen --stream orders --stream news")]
struct CreateArgs {
    /// Its name: letters, digits, `_`, `.` or `-`
    name: String,
    /// A stream that it may read; may be repeated
    #[arg(long, value_name = "STREAM", required = true)]
    stream: Vec<String>,
    /// When it ends, such as 2030-01-31T00:00:00Z
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// It may stand in a URL, for programs that can neither set headers nor run a script
    #[arg(long)]
    allow_in_url: bool,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    output: MadeOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate read-key revoke` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate read-key revoke lobby-screen")]
struct RevokeArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Runs the verb.
pub async fn run(args: ReadKeyArgs) -> Result<(), CliError> {
    match args.command {
        ReadKeyCommand::List(args) => list(&args).await,
        ReadKeyCommand::Create(args) => create(&args).await,
        ReadKeyCommand::Revoke(args) => revoke(&args).await,
    }
}

async fn list(args: &ListArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let keys = client.list(READ_KEYS, "", usize::MAX).await?;
    let none =
        "there are no read keys; create one with `headgate read-key create NAME --stream STREAM`";
    print_list(args.output, &keys, none, |keys| {
        let mut table = Table::new(&["NAME", "PREFIX", "STREAMS", "STATE", "EXPIRES", "DECLARED"]);
        for key in keys {
            let cell = |name: &str| plain(&key[name]);
            let streams = key["streams"].as_array().into_iter().flatten();
            let streams: Vec<String> = streams.map(plain).collect();
            table.row(&[
                &cell("name"),
                &cell("prefix"),
                &cut(streams.join(", ")),
                &cell("state"),
                &cell("expires_at"),
                &cell("declared"),
            ]);
        }
        table
    })
}

async fn create(args: &CreateArgs) -> Result<(), CliError> {
    let body = json!({
        "name": args.name,
        "streams": args.stream,
        "expires_at": args.expires,
        "allow_in_url": args.allow_in_url,
    });
    let client = args.admin.client()?;
    let made = client.change(Method::POST, READ_KEYS, Some(&body)).await?;
    let hint = "a page that shows it: http://…/render/STREAM#KEY on the service listener";
    print_made(&client, args.output, &made.data, hint)
}

async fn revoke(args: &RevokeArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let path = format!("{READ_KEYS}/{}/revoke", encoded(&args.name));
    let done: Value = client.change(Method::POST, &path, None).await?.data;
    let prefix = plain(&done["prefix"]);
    print(&format!(
        "read key {} ({}) revoked\n",
        shown(&args.name),
        shown(&prefix)
    ))
}
