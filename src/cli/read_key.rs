//! `headgate read-key`: the read keys of a running daemon.
//!
//! Called by the command line; asks the admin API.
//!
//! **Invariant**: the key is printed once, on standard output, alone on its line, and kept nowhere.

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::client::AdminArgs;
use super::error::CliError;
use super::key::{MadeOutput, print_done, print_made, time_or_never};
use super::output::{ListOutput, Table, cut, plain, print_list};
use crate::text::percent_encoded;

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
    /// Change a read key; its connections end and may come again
    Change(ChangeArgs),
    /// Revoke a read key, for good; its connections end
    Revoke(RevokeArgs),
    /// Delete a read key: it is refused from now on, and no longer listed
    Delete(DeleteArgs),
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

/// What `headgate read-key change` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate read-key change lobby-screen --stream orders --expires never")]
struct ChangeArgs {
    #[command(flatten)]
    key: Named,
    /// A stream that it may read from now on, instead of those so far; may be repeated
    #[arg(long, value_name = "STREAM")]
    stream: Vec<String>,
    /// When it ends, such as 2030-01-31T00:00:00Z; or `never`
    #[arg(long, value_name = "TIME", value_parser = time_or_never)]
    expires: Option<Value>,
    /// Whether it may stand in a URL
    #[arg(long, value_name = "BOOL")]
    allow_in_url: Option<bool>,
}

/// What `headgate read-key revoke` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate read-key revoke lobby-screen")]
struct RevokeArgs {
    #[command(flatten)]
    key: Named,
}

/// What `headgate read-key delete` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate read-key delete lobby-screen")]
struct DeleteArgs {
    #[command(flatten)]
    key: Named,
}

/// Which key.
#[derive(Debug, clap::Args)]
struct Named {
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
        ReadKeyCommand::Change(args) => change(&args).await,
        ReadKeyCommand::Revoke(args) => revoke(&args).await,
        ReadKeyCommand::Delete(args) => delete(&args).await,
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

async fn change(args: &ChangeArgs) -> Result<(), CliError> {
    let mut body = Map::new();
    if !args.stream.is_empty() {
        body.insert("streams".to_owned(), json!(args.stream));
    }
    if let Some(expires) = &args.expires {
        body.insert("expires_at".to_owned(), expires.clone());
    }
    if let Some(allowed) = args.allow_in_url {
        body.insert("allow_in_url".to_owned(), json!(allowed));
    }
    if body.is_empty() {
        return Err(CliError::wrong_use(
            "say what to change: --stream, --expires, --allow-in-url",
        ));
    }
    let body = Value::Object(body);
    args.key
        .done(Method::PATCH, "", Some(&body), "changed")
        .await
}

async fn revoke(args: &RevokeArgs) -> Result<(), CliError> {
    args.key
        .done(Method::POST, "/revoke", None, "revoked")
        .await
}

async fn delete(args: &DeleteArgs) -> Result<(), CliError> {
    args.key.done(Method::DELETE, "", None, "deleted").await
}

impl Named {
    async fn done(
        &self,
        method: Method,
        action: &str,
        body: Option<&Value>,
        what: &str,
    ) -> Result<(), CliError> {
        let path = format!("{READ_KEYS}/{}{action}", percent_encoded(&self.name));
        let done = self.admin.client()?.change(method, &path, body).await?.data;
        print_done("read key", &done, what)
    }
}
