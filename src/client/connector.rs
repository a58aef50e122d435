//! `headgate connector`: the connectors of a running daemon.
//!
//! Called by the command line; calls the admin API.
//!
//! **Invariant**: deleting a connector deletes its keys, so it requires a confirmation.

use reqwest::Method;
use serde_json::{Map, Value};

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{confirmed, note, plain, print, shown};
use super::record::{CONNECTOR, NEW_CONNECTOR, Settings};
use super::resource::{Column, ListArgs, Resource};
use crate::Running;
use settings::Connector;
use wire::ConnectorData;

pub(super) mod tool;

pub use tool::read_secret;

/// Arguments of `headgate connector`.
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
              mut_arg("output", |arg| arg.help("Output format; only JSON has the keys")))]
    List(ListArgs),
    /// List the presets of tools, with their signatures and item keys
    #[command(after_help = "\
Example:
  headgate connector presets --output json

`headgate preset list` prints the same list.")]
    Presets(crate::preset::ListArgs),
    /// Create a connector, optionally with a stream and a key for a tool
    Create(CreateArgs),
    /// Change a connector, from the next request on
    Change(ChangeArgs),
    /// Delete a connector and its keys
    Delete(DeleteArgs),
}

/// Arguments of `headgate connector create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate connector create shop --kind webhook --item-key order.id --rate 50
  headgate connector create shop --from shopify --stream orders --secret-file shopify.secret
  headgate connector create crm --from hmac --stream people --secret-file - --option header=X-Signature --option prefix=sha256=

With --from, the command also creates a key, and standard error has the URL to enter in the provider's settings.")]
struct CreateArgs {
    /// Its name: letters, digits, `_`, `.` or `-`
    name: String,
    /// The tool that sends, one of `headgate preset list`
    #[arg(long, value_name = "PRESET", requires = "stream")]
    from: Option<String>,
    /// The stream of its first key; it is created if there is none
    #[arg(long)]
    stream: Option<String>,
    #[command(flatten)]
    verify: tool::VerifyArgs,
    #[command(flatten)]
    settings: Settings<NEW_CONNECTOR>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate connector change`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate connector change shop --rate default --item-key id")]
struct ChangeArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    settings: Settings<CONNECTOR>,
    /// Identify items by position again
    #[arg(long, conflicts_with = "set-item-key")]
    no_item_key: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate connector delete`.
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

const COLUMNS: &[Column<ConnectorData>] = &[
    setting("NAME", "name"),
    setting("KIND", "kind"),
    setting("ITEM KEY", "item_key"),
    setting("MAY DELETE", "may_delete"),
    setting("RATE", "requests_per_second"),
    setting("BURST", "burst"),
    Column::new("KEYS", |one| one.keys.len().to_string()),
    Column::new("DECLARED", |one| plain(&one.declared)),
    setting("DESCRIPTION", "description"),
];

/// A column with a setting.
const fn setting(heading: &'static str, name: &str) -> Column<ConnectorData> {
    Column::setting(heading, Connector::FIELDS, name, |one| &one.settings)
}

pub fn run(args: ConnectorArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: ConnectorArgs) -> Result<(), CliError> {
    let connectors = |admin| Resource::new(admin, "connector", "/api/admin/connectors");
    match args.command {
        ConnectorCommand::List(args) => {
            let none = "no connectors; create one with `headgate connector create NAME`";
            connectors(&args.admin)?
                .list(args.output, none, COLUMNS)
                .await
        }
        ConnectorCommand::Presets(args) => crate::preset::list(&args),
        ConnectorCommand::Create(args) if args.stream.is_some() || args.verify.is_reported() => {
            create_with_key(args).await
        }
        ConnectorCommand::Create(args) => {
            let connectors = connectors(&args.admin)?;
            let body = args.settings.0;
            let unidentified = is_unidentified(&body);
            connectors.create(&args.name, body).await?;
            if unidentified {
                note(&unidentified_words(&args.name));
            }
            note(&format!(
                "give it a key: headgate key create {} main --stream STREAM",
                shown(&args.name)
            ));
            Ok(())
        }
        ConnectorCommand::Change(args) => {
            let connectors = connectors(&args.admin)?;
            let mut body = args.settings.0;
            if args.no_item_key {
                body.insert("item_key".to_owned(), Value::Null);
            }
            let options = format!("{}, --no-item-key", Settings::<CONNECTOR>::options());
            connectors.change(&args.name, body, &options).await
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

/// Whether a webhook connector has neither an item key nor a preset.
fn is_unidentified(body: &Map<String, Value>) -> bool {
    body.get("kind").is_some_and(|kind| kind == "webhook")
        && ["item_key", "preset"]
            .iter()
            .all(|name| body.get(*name).is_none_or(Value::is_null))
}

fn unidentified_words(name: &str) -> String {
    format!(
        "nothing identifies its items yet, so each request takes the place of the one before: `headgate connector change {} --item-key FIELD` names the field, `@delivery` keeps each request",
        shown(name)
    )
}

/// Creates a connector with its first key, and the stream if it does not exist.
async fn create_with_key(args: CreateArgs) -> Result<(), CliError> {
    let mut body = args.settings.0;
    body.insert("name".to_owned(), args.name.as_str().into());
    body.insert("stream".to_owned(), args.stream.into());
    let preset = match &args.from {
        Some(name) => Some(tool::preset_of_daemon(&args.admin, name).await?),
        None => None,
    };
    if let Some(preset) = &preset {
        body.entry("kind").or_insert_with(|| "webhook".into());
        if !preset.signed() {
            body.entry("preset")
                .or_insert_with(|| preset.name.as_str().into());
        }
        body.extend(tool::key_of(preset, &args.verify)?);
    } else if args.verify.is_reported() {
        let message =
            "--secret-file, --verify-token-file and --option need a provider: name it with --from";
        return Err(CliError::wrong_use(message));
    }
    let unidentified = is_unidentified(&body);
    let connectors = Resource::new(&args.admin, "connector", "/api/admin/connectors")?;
    let made: ConnectorData = connectors.call(Method::POST, "", Some(body)).await?;
    match (&preset, &made.secret) {
        (Some(preset), _) => {
            print(&format!("connector {} created\n", shown(&args.name)))?;
            tool::print(preset, &made);
            if unidentified && preset.is_generic() {
                note(&unidentified_words(&args.name));
            }
        }
        (None, Some(secret)) => {
            print(&format!("{}\n", shown(secret)))?;
            note("the key is not shown again");
            if unidentified {
                note(&unidentified_words(&args.name));
            }
        }
        (None, None) => return Err(connectors.foreign("it has no key")),
    }
    Ok(())
}
