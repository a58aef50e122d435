//! `headgate stream`: the streams of a running daemon.
//!
//! Called by the command line; asks the admin API.
//!
//! **Invariant**: what was not given is not sent, so a change leaves it as it is.

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{ListOutput, Table, plain, print, print_list, shown};
use crate::text::percent_encoded;

const STREAMS: &str = "/api/admin/streams";

/// What `headgate stream` is told.
#[derive(Debug, clap::Args)]
pub struct StreamArgs {
    #[command(subcommand)]
    command: StreamCommand,
}

#[derive(Debug, clap::Subcommand)]
enum StreamCommand {
    /// List the streams
    List(ListArgs),
    /// Create a stream
    Create(CreateArgs),
    /// Change a stream
    Change(ChangeArgs),
    /// Delete a stream; its items stay in the data pool
    Delete(DeleteArgs),
}

/// What `headgate stream list` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate stream list --output json")]
struct ListArgs {
    /// How to print them
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminArgs,
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
    /// What an update does to the fields that it does not name: they go, or stay
    #[arg(long, value_name = "HOW", value_parser = ["replace", "merge"])]
    on_update: Option<String>,
    /// After so many seconds without data renderers are told that it is stale; or `never`
    #[arg(long, value_name = "SECONDS", value_parser = number_or("never"))]
    stale_after: Option<Value>,
}

impl Settings {
    fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        if let Some(how) = &self.on_update {
            body.insert("on_update".to_owned(), json!(how));
        }
        if let Some(seconds) = &self.stale_after {
            body.insert("stale_after_seconds".to_owned(), seconds.clone());
        }
        body
    }
}

/// Reads a number, or the word that stands for none.
pub(super) fn number_or(
    none: &'static str,
) -> impl Fn(&str) -> Result<Value, String> + Clone + Send + Sync + 'static {
    move |text| match text.parse::<u32>() {
        Ok(number) => Ok(json!(number)),
        Err(_) if text == none => Ok(Value::Null),
        Err(_) => Err(format!("give a whole number, or {none}")),
    }
}

/// Runs the verb.
pub async fn run(args: StreamArgs) -> Result<(), CliError> {
    match args.command {
        StreamCommand::List(args) => list(&args).await,
        StreamCommand::Create(args) => create(&args).await,
        StreamCommand::Change(args) => change(&args).await,
        StreamCommand::Delete(args) => delete(&args).await,
    }
}

async fn list(args: &ListArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let streams = client.list(STREAMS, "", usize::MAX).await?;
    let none = "there are no streams; create one with `headgate stream create NAME`";
    print_list(args.output, &streams, none, |streams| {
        let mut table = Table::new(&["NAME", "ON UPDATE", "STALE AFTER", "DECLARED", "CREATED"]);
        for stream in streams {
            let cell = |name: &str| plain(&stream[name]);
            table.row(&[
                &cell("name"),
                &cell("on_update"),
                &cell("stale_after_seconds"),
                &cell("declared"),
                &cell("created_at"),
            ]);
        }
        table
    })
}

async fn create(args: &CreateArgs) -> Result<(), CliError> {
    let mut body = args.settings.body();
    body.insert("name".to_owned(), json!(args.name));
    let client = args.admin.client()?;
    client
        .change(Method::POST, STREAMS, Some(&Value::Object(body)))
        .await?;
    print(&format!("stream {} created\n", shown(&args.name)))
}

async fn change(args: &ChangeArgs) -> Result<(), CliError> {
    let body = args.settings.body();
    if body.is_empty() {
        return Err(CliError::wrong_use(
            "say what to change: --on-update, --stale-after",
        ));
    }
    let client = args.admin.client()?;
    let path = format!("{STREAMS}/{}", percent_encoded(&args.name));
    client
        .change(Method::PATCH, &path, Some(&Value::Object(body)))
        .await?;
    print(&format!("stream {} changed\n", shown(&args.name)))
}

async fn delete(args: &DeleteArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let force = if args.force { "?force=true" } else { "" };
    let path = format!("{STREAMS}/{}{force}", percent_encoded(&args.name));
    client.change(Method::DELETE, &path, None).await?;
    print(&format!("stream {} deleted\n", shown(&args.name)))
}
