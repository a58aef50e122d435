//! `headgate connector`: the connectors of a running daemon.
//!
//! Called by the command line; asks the admin API.
//!
//! **Invariant**: a connector goes with its keys, so it is not deleted without a yes.

use reqwest::Method;
use serde_json::{Map, Value};

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{confirmed, note, print, shown};
use super::resource::{
    Column, DESCRIPTION, ListArgs, Resource, delete_when, given, number_or, text_or_none,
};

pub(super) mod tool;

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
    /// List the tools that are known: how they sign, and what identifies their items
    Presets(tool::PresetsArgs),
    /// Create a connector, also with a stream and a key for a tool
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
  headgate connector create shop --kind webhook --item-key order.id --rate 50
  headgate connector create shop --from shopify --stream orders --secret-file shopify.secret
  headgate connector create crm --from hmac --stream people --secret-file - --option header=X-Signature --option prefix=sha256=

With --from, the connector has a key at once, and standard error says which URL to give to the tool.")]
struct CreateArgs {
    /// Its name: letters, digits, `_`, `.` or `-`
    name: String,
    /// The tool that sends, one of `headgate connector presets`
    #[arg(long, value_name = "PRESET", requires = "stream")]
    from: Option<String>,
    /// The stream of its first key; it is created if there is none
    #[arg(long)]
    stream: Option<String>,
    #[command(flatten)]
    verify: tool::VerifyArgs,
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
    /// The tool whose habits count for requests with a key of its own; empty: none
    #[arg(long, value_name = "PRESET", value_parser = text_or_none)]
    preset: Option<Value>,
    /// The field that identifies items when a request does not name one, such as order.id; @delivery: each delivery is
    /// an item of its own
    #[arg(long, value_name = "FIELD")]
    item_key: Option<String>,
    /// Where the items are in a body, as the path of an array or an object; empty: they are the body
    #[arg(long, value_name = "PATH", value_parser = text_or_none)]
    items: Option<Value>,
    /// The field that says how new an item is, a number or a time; empty: the order of acceptance decides
    #[arg(long, value_name = "FIELD", value_parser = text_or_none)]
    version_field: Option<Value>,
    /// Which items are removals, such as _event=orders/delete,orders/cancelled; empty: none
    #[arg(long, value_name = "FIELD=VALUES", value_parser = delete_when)]
    delete_when: Option<Value>,
    /// After so many seconds without another update an item is removed from the data pool; or `never`
    #[arg(long, value_name = "SECONDS", value_parser = number_or("never"))]
    expire_after: Option<Value>,
    /// Whether its keys may remove items: yes, no; or `default`, which is yes for `ingest` and no for `webhook`
    #[arg(long, value_name = "ANSWER", value_parser = ["yes", "no", "default"])]
    may_delete: Option<String>,
    /// Requests a second of each key; or `default`
    #[arg(long, value_name = "N", value_parser = number_or("default"))]
    rate: Option<Value>,
    /// Requests at once of each key; or `default`
    #[arg(long, value_name = "N", value_parser = number_or("default"))]
    burst: Option<Value>,
    /// Bytes of bodies that each key may have stored in a second, 0 for any number; or `default`
    #[arg(long, value_name = "BYTES", value_parser = number_or("default"))]
    bytes_per_second: Option<Value>,
    /// The same in a day of UTC; or `default`
    #[arg(long, value_name = "BYTES", value_parser = number_or("default"))]
    bytes_per_day: Option<Value>,
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
            ("preset", self.preset),
            ("item_key", self.item_key.map(Value::from)),
            ("items", self.items),
            ("version", self.version_field),
            ("delete_when", self.delete_when),
            ("expire_after_seconds", self.expire_after),
            ("may_delete", may_delete),
            ("requests_per_second", self.rate),
            ("burst", self.burst),
            ("bytes_per_second", self.bytes_per_second),
            ("bytes_per_day", self.bytes_per_day),
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
        ConnectorCommand::Presets(args) => tool::presets(&args),
        ConnectorCommand::Create(args) if args.stream.is_some() || args.verify.is_told() => {
            create_with_key(args).await
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
            let options = "--description, --kind, --preset, --item-key, --no-item-key, --items, --version-field, --delete-when, --expire-after, --may-delete, --rate, --burst, --bytes-per-second, --bytes-per-day";
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

/// Makes a connector with its first key, and a stream for it if there is none.
async fn create_with_key(args: CreateArgs) -> Result<(), CliError> {
    let mut body = args.settings.body();
    body.insert("name".to_owned(), args.name.as_str().into());
    body.insert("stream".to_owned(), args.stream.into());
    let preset = args.from.as_deref().map(tool::preset).transpose()?;
    if let Some(preset) = preset {
        body.entry("kind").or_insert_with(|| "webhook".into());
        if !preset.signed() {
            body.entry("preset").or_insert_with(|| preset.name.into());
        }
        body.extend(tool::key_of(preset, &args.verify)?);
    } else if args.verify.is_told() {
        let message = "--secret-file, --verify-token-file and --option are about a tool: say which with --from";
        return Err(CliError::wrong_use(message));
    }
    let connectors = Resource::new(&args.admin, "connector", "/api/admin/connectors")?;
    let made = connectors.call(Method::POST, "", Some(body)).await?;
    match (preset, made["secret"].as_str()) {
        (Some(preset), _) => {
            print(&format!("connector {} created\n", shown(&args.name)))?;
            tool::tell(preset, &made);
        }
        (None, Some(secret)) => {
            print(&format!("{}\n", shown(secret)))?;
            note("this is the only time that the key is shown");
        }
        (None, None) => return Err(connectors.foreign("it has no key")),
    }
    Ok(())
}
