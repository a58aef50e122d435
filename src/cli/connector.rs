//! `headgate connector`: the connectors of a running daemon.
//!
//! Called by the command line; asks the admin API.
//!
//! **Invariant**: a connector goes with its keys, so it is not deleted without a yes.

use serde_json::{Map, Value};

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{confirmed, note, shown};
use super::resource::{Column, DESCRIPTION, ListArgs, Resource, given, number_or, text_or_none};

/// What `headgate connector` is told.
#[derive(Debug, clap::Args)]
pub struct ConnectorArgs {
    #[command(subcommand)]
    command: ConnectorCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ConnectorCommand {
    /// List the connectors and how many keys they have
    #[command(after_help = "\
Example:
  headgate connector list --output json",
              mut_arg("output", |arg| arg.help("How to print them; only JSON has the keys")))]
    List(ListArgs),
    /// Create a connector
    Create(CreateArgs),
    /// Change a connector, from the next request on
    Change(ChangeArgs),
    /// Delete a connector and its keys
    Delete(DeleteArgs),
}

/// What `headgate connector create` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate connector create shop --kind webhook --item-key order.id --rate 50")]
struct CreateArgs {
    /// Its name: letters, digits, `_`, `.` or `-`
    name: String,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate connector change` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate connector change shop --rate default --item-key id")]
struct ChangeArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    settings: Settings,
    /// Identify items by position again
    #[arg(long, conflicts_with = "item_key")]
    no_item_key: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate connector delete` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate connector delete shop --yes")]
struct DeleteArgs {
    /// Its name
    name: String,
    /// Do not ask; needed where there is no terminal to ask on
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What can be set of a connector.
#[derive(Debug, clap::Args)]
struct Settings {
    /// What it is for, in at most 200 characters; empty: nothing is said any more
    #[arg(long, value_name = "TEXT", value_parser = text_or_none)]
    description: Option<Value>,
    /// How requests come: `ingest` for programs, `webhook` for tools that are given a URL
    #[arg(long, value_parser = ["ingest", "webhook"])]
    kind: Option<String>,
    /// The field that identifies items when a request does not name one, such as order.id
    #[arg(long, value_name = "FIELD")]
    item_key: Option<String>,
    /// Whether its keys may remove items: yes, no; or `default`, which is yes for `ingest` and no for `webhook`
    #[arg(long, value_name = "ANSWER", value_parser = ["yes", "no", "default"])]
    may_delete: Option<String>,
    /// Requests a second of each key; or `default`
    #[arg(long, value_name = "N", value_parser = number_or("default"))]
    rate: Option<Value>,
    /// Requests at once of each key; or `default`
    #[arg(long, value_name = "N", value_parser = number_or("default"))]
    burst: Option<Value>,
}

impl Settings {
    fn body(self) -> Map<String, Value> {
        let may_delete = self.may_delete.map(|answer| match answer.as_str() {
            "yes" => Value::Bool(true),
            "no" => Value::Bool(false),
            _ => Value::Null,
        });
        given([
            ("description", self.description),
            ("kind", self.kind.map(Value::from)),
            ("item_key", self.item_key.map(Value::from)),
            ("may_delete", may_delete),
            ("requests_per_second", self.rate),
            ("burst", self.burst),
        ])
    }
}

const COLUMNS: &[Column] = &[
    Column::field("NAME", "name"),
    Column::field("KIND", "kind"),
    Column::field("ITEM KEY", "item_key"),
    Column::field("MAY DELETE", "may_delete"),
    Column::field("RATE", "requests_per_second"),
    Column::field("BURST", "burst"),
    Column::of("KEYS", |connector| {
        let keys = connector["keys"].as_array();
        keys.map_or(0, Vec::len).to_string()
    }),
    Column::field("DECLARED", "declared"),
    DESCRIPTION,
];

/// Runs the verb.
pub async fn run(args: ConnectorArgs) -> Result<(), CliError> {
    let connectors = |admin| Resource::new(admin, "connector", "/api/admin/connectors");
    match args.command {
        ConnectorCommand::List(args) => {
            let none = "there are no connectors; create one with `headgate connector create NAME`";
            let connectors = connectors(&args.admin)?;
            connectors
                .list(usize::MAX, args.output, none, COLUMNS)
                .await
        }
        ConnectorCommand::Create(args) => {
            let connectors = connectors(&args.admin)?;
            connectors.create(&args.name, args.settings.body()).await?;
            note(&format!(
                "give it a key: headgate key create {} main --stream STREAM",
                shown(&args.name)
            ));
            Ok(())
        }
        ConnectorCommand::Change(args) => {
            let connectors = connectors(&args.admin)?;
            let mut body = args.settings.body();
            if args.no_item_key {
                body.insert("item_key".to_owned(), Value::Null);
            }
            let options =
                "--description, --kind, --item-key, --no-item-key, --may-delete, --rate, --burst";
            connectors.change(&args.name, body, options).await
        }
        ConnectorCommand::Delete(args) => {
            let connectors = connectors(&args.admin)?;
            let name = shown(&args.name);
            let question = format!("Delete the connector {name} and all its keys?");
            if !args.yes && !confirmed(&question, "delete")? {
                return Err(CliError::failed("nothing was deleted"));
            }
            connectors.delete(&args.name, "").await
        }
    }
}
