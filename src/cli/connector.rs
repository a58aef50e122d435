//! `headgate connector`: the connectors of a running daemon.
//!
//! Called by the command line; asks the admin API.
//!
//! **Invariant**: a connector goes with its keys, so it is not deleted without a yes.

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{ListOutput, Table, confirmed, note, plain, print, print_list, shown};
use super::stream::number_or;
use crate::text::percent_encoded;

const CONNECTORS: &str = "/api/admin/connectors";

/// What `headgate connector` is told.
#[derive(Debug, clap::Args)]
pub struct ConnectorArgs {
    #[command(subcommand)]
    command: ConnectorCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ConnectorCommand {
    /// List the connectors and how many keys they have
    List(ListArgs),
    /// Create a connector
    Create(CreateArgs),
    /// Change a connector, from the next request on
    Change(ChangeArgs),
    /// Delete a connector and its keys
    Delete(DeleteArgs),
}

/// What `headgate connector list` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate connector list --output json")]
struct ListArgs {
    /// How to print them; only JSON has the keys
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminArgs,
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
    fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
        let may_delete = self.may_delete.as_deref().map(|answer| match answer {
            "yes" => json!(true),
            "no" => json!(false),
            _ => Value::Null,
        });
        for (name, value) in [
            ("kind", text(&self.kind)),
            ("item_key", text(&self.item_key)),
            ("may_delete", may_delete),
            ("requests_per_second", self.rate.clone()),
            ("burst", self.burst.clone()),
        ] {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        }
        body
    }
}

/// Runs the verb.
pub async fn run(args: ConnectorArgs) -> Result<(), CliError> {
    match args.command {
        ConnectorCommand::List(args) => list(&args).await,
        ConnectorCommand::Create(args) => create(&args).await,
        ConnectorCommand::Change(args) => change(&args).await,
        ConnectorCommand::Delete(args) => delete(&args).await,
    }
}

async fn list(args: &ListArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let connectors = client.list(CONNECTORS, "", usize::MAX).await?;
    let none = "there are no connectors; create one with `headgate connector create NAME`";
    print_list(args.output, &connectors, none, |connectors| {
        let mut table = Table::new(&[
            "NAME",
            "KIND",
            "ITEM KEY",
            "MAY DELETE",
            "RATE",
            "BURST",
            "KEYS",
            "DECLARED",
        ]);
        for connector in connectors {
            let cell = |name: &str| plain(&connector[name]);
            let keys = connector["keys"].as_array().map_or(0, Vec::len);
            table.row(&[
                &cell("name"),
                &cell("kind"),
                &cell("item_key"),
                &cell("may_delete"),
                &cell("requests_per_second"),
                &cell("burst"),
                &keys.to_string(),
                &cell("declared"),
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
        .change(Method::POST, CONNECTORS, Some(&Value::Object(body)))
        .await?;
    print(&format!("connector {} created\n", shown(&args.name)))?;
    note(&format!(
        "give it a key: headgate key create {} main --stream STREAM",
        shown(&args.name)
    ));
    Ok(())
}

async fn change(args: &ChangeArgs) -> Result<(), CliError> {
    let mut body = args.settings.body();
    if args.no_item_key {
        body.insert("item_key".to_owned(), Value::Null);
    }
    if body.is_empty() {
        return Err(CliError::wrong_use(
            "say what to change: --kind, --item-key, --no-item-key, --may-delete, --rate, --burst",
        ));
    }
    let client = args.admin.client()?;
    let path = format!("{CONNECTORS}/{}", percent_encoded(&args.name));
    client
        .change(Method::PATCH, &path, Some(&Value::Object(body)))
        .await?;
    print(&format!("connector {} changed\n", shown(&args.name)))
}

async fn delete(args: &DeleteArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let name = shown(&args.name);
    let question = format!("Delete the connector {name} and all its keys?");
    if !args.yes && !confirmed(&question, "delete")? {
        return Err(CliError::failed("nothing was deleted"));
    }
    let path = format!("{CONNECTORS}/{}", percent_encoded(&args.name));
    client.change(Method::DELETE, &path, None).await?;
    print(&format!("connector {name} deleted\n"))
}
