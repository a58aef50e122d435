//! Sinks that are created at run time: creating, changing, showing, pausing and deleting them.
//!
//! **Invariant**: a setting that was not given is not sent, so it stays unchanged. No secret is printed.

use std::io::Read as _;

use reqwest::Method;
use serde_json::{Map, Value};

use super::columns::as_text;
use crate::client::AdminArgs;
use crate::error::CliError;
use crate::output::{json_pretty, print, shown};
use crate::record::{SINK, Settings, option};
use crate::resource::Resource;
use base::text::percent_encoded;
use settings::{Field, Shape, Sink, section_toml};
use wire::{DeletedSinkData, RefilledData, SinkData};

/// What can be said of a sink.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct SectionArgs {
    #[command(flatten)]
    settings: Settings<SINK>,
    /// Other settings of the sink, a JSON object, such as {"retry": {"attempts": 3}}
    #[arg(long, value_name = "JSON|@FILE")]
    section: Option<String>,
}

/// Arguments of `headgate sink create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sink create team --plugin http-forward --streams orders \\
      --config '{\"url\": \"https://api.example.com/orders\"}' --host api.example.com --header authorization=@token.txt
  headgate sink create totals --plugin totals --streams 'orders,sensor-*' --makes totals --disabled

--network applies to --host, --wire or both. @FILE reads a value from a file, @- from standard input.
Secrets are stored in catalog.db in plain text, so backups contain them. Other users of the machine can see the
arguments of a running command: to hide a value, use @FILE.")]
pub(super) struct CreateArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    section: SectionArgs,
    /// Create it paused
    #[arg(long)]
    disabled: bool,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

/// Arguments of `headgate sink change`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sink change team --where 'status:paid,total>=100'
  headgate sink change team --header authorization=@token.txt
  headgate sink change team --section '{\"retry\": {\"attempts\": 3}}'

The change applies after the current batch. If the plugin does not start with it, nothing is changed.")]
pub(super) struct ChangeArgs {
    /// The sink
    name: String,
    #[command(flatten)]
    section: SectionArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

/// How a sink is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ShowOutput {
    /// Lines for people.
    Text,
    /// All that the API says.
    Json,
    /// A section for a configuration file.
    Toml,
}

/// Arguments of `headgate sink show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sink show team
  headgate sink show team --output toml >> headgate.toml

The section creates the same sink. It names variables in place of secrets: set them.")]
pub(super) struct ShowArgs {
    /// The sink
    name: String,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: ShowOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate sink delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sink delete team
  headgate sink delete team --discard")]
pub(super) struct DeleteArgs {
    /// The sink
    name: String,
    /// Permanently delete its backlog and dead letters too
    #[arg(long)]
    discard: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate sink pause` and `resume` are told.
#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    /// The sink
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate sink refill`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate sink refill team

The sink receives all items of the data pool, then later requests. A receiver gets existing items again, with other
idempotency keys. Dead letters stay.")]
pub(super) struct RefillArgs {
    /// The sink
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

impl SectionArgs {
    /// The given settings as a merge patch.
    pub(super) fn body(&self) -> Result<Map<String, Value>, CliError> {
        let mut body = match &self.section {
            Some(text) => object("--section", text)?,
            None => Map::new(),
        };
        let mut settings = self.settings.0.clone();
        read(Sink::FIELDS, &mut settings)?;
        body.extend(settings);
        Ok(body)
    }
}

/// Reads the secrets and the JSON that were given. A table without what it requires becomes null.
fn read(rows: &[Field], values: &mut Map<String, Value>) -> Result<(), CliError> {
    for row in rows {
        let option = || format!("--{}", option(row));
        match (row.shape, values.get_mut(row.name)) {
            (Shape::Table(rows), Some(table)) => {
                if let Value::Object(inner) = table {
                    read(rows, inner)?;
                }
                let mut required = rows.iter().filter(|row| row.required);
                if required.any(|row| table.get(row.name).is_some_and(Value::is_null)) {
                    *table = Value::Null;
                }
            }
            (Shape::Secret, Some(Value::String(text))) => {
                let text = text_or_null(&given(text)?);
                values.insert(row.name.to_owned(), text);
            }
            (Shape::Secrets(_), Some(Value::Array(pairs))) => {
                let pairs = pairs.iter().filter_map(Value::as_str);
                let secrets = secrets(&option(), pairs)?;
                values.insert(row.name.to_owned(), secrets);
            }
            (Shape::Free, Some(Value::String(text))) => {
                let members = object(&option(), text)?;
                values.insert(row.name.to_owned(), members.into());
            }
            _ => {}
        }
    }
    Ok(())
}

fn text_or_null(text: &str) -> Value {
    match text {
        "" => Value::Null,
        text => text.into(),
    }
}

/// A text, or the content of the file after an `@`, without the final line break.
fn given(text: &str) -> Result<String, CliError> {
    let Some(file) = text.strip_prefix('@') else {
        return Ok(text.to_owned());
    };
    let mut content = String::new();
    let read = match file {
        "-" => std::io::stdin()
            .read_to_string(&mut content)
            .map(|_| content),
        file => std::fs::read_to_string(file),
    };
    let content =
        read.map_err(|error| CliError::wrong_use(format!("cannot read {file}: {error}")))?;
    Ok(content.trim_end_matches(['\r', '\n']).to_owned())
}

pub(super) fn object(option: &str, text: &str) -> Result<Map<String, Value>, CliError> {
    match serde_json::from_str(&given(text)?) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(CliError::wrong_use(format!(
            "{option} must be a JSON object"
        ))),
        Err(error) => Err(CliError::wrong_use(format!(
            "{option} is not JSON: {error}"
        ))),
    }
}

fn secrets<'a>(option: &str, all: impl Iterator<Item = &'a str>) -> Result<Value, CliError> {
    let mut secrets = Map::new();
    for one in all {
        // The message omits the value: it is a secret.
        let wrong = || CliError::wrong_use(format!("{option} must be NAME=VALUE or NAME=@FILE"));
        let (name, value) = one.split_once('=').ok_or_else(wrong)?;
        secrets.insert(name.to_owned(), text_or_null(&given(value)?));
    }
    Ok(secrets.into())
}

pub(super) fn sinks(admin: &AdminArgs) -> Result<Resource, CliError> {
    Resource::new(admin, "sink", "/api/admin/sinks")
}

pub(super) fn below(name: &str, verb: &str) -> String {
    format!("/{}{verb}", percent_encoded(name))
}

pub(super) async fn create(args: &CreateArgs) -> Result<(), CliError> {
    let mut body = args.section.body()?;
    if args.disabled {
        body.insert("enabled".to_owned(), false.into());
    }
    sinks(&args.admin)?.create(&args.name, body).await
}

pub(super) async fn change(args: &ChangeArgs) -> Result<(), CliError> {
    let options = format!("{}, --section", Settings::<SINK>::options());
    let body = args.section.body()?;
    sinks(&args.admin)?.change(&args.name, body, &options).await
}

pub(super) async fn show(args: &ShowArgs) -> Result<(), CliError> {
    let sinks = sinks(&args.admin)?;
    let path = below(&args.name, "");
    match args.output {
        ShowOutput::Json => {
            let sink: Value = sinks.call(Method::GET, &path, None).await?;
            print(&json_pretty(&sink)?)
        }
        ShowOutput::Toml => {
            let sink: SinkData = sinks.call(Method::GET, &path, None).await?;
            let Some(Value::Object(section)) = sink.section else {
                let message = "the sink is no longer configured, so it has no section";
                return Err(CliError::failed(message));
            };
            print(&section_toml(&section))
        }
        ShowOutput::Text => {
            let sink: SinkData = sinks.call(Method::GET, &path, None).await?;
            print(&as_text(&sink))
        }
    }
}

pub(super) async fn refill(args: &RefillArgs) -> Result<(), CliError> {
    let sinks = sinks(&args.admin)?;
    let path = below(&args.name, "/refill");
    let begun: RefilledData = sinks.call(Method::POST, &path, None).await?;
    let items = match begun.items {
        1 => "1 item".to_owned(),
        items => format!("{items} items"),
    };
    print(&format!(
        "sink {} receives {items} of the data pool (filling {})\n",
        shown(&args.name),
        begun.fill
    ))
}

pub(super) async fn delete(args: &DeleteArgs) -> Result<(), CliError> {
    let sinks = sinks(&args.admin)?;
    let path = below(&args.name, &format!("?discard={}", args.discard));
    let gone: DeletedSinkData = sinks.call(Method::DELETE, &path, None).await?;
    let more = match (gone.lag, gone.retries, gone.dead_letters) {
        (0, 0, 0) => String::new(),
        (lag, retries, letters) => format!(
            ", with up to {lag} waiting requests, {retries} retries and {letters} dead letters"
        ),
    };
    print(&format!("sink {} deleted{more}\n", shown(&args.name)))
}

pub(super) async fn pause(args: &PauseArgs, paused: bool) -> Result<(), CliError> {
    let sinks = sinks(&args.admin)?;
    let (verb, done) = match paused {
        true => ("/pause", "paused"),
        false => ("/resume", "resumed"),
    };
    let sink: SinkData = sinks
        .call(Method::POST, &below(&args.name, verb), None)
        .await?;
    print(&format!("sink {} {done}\n", shown(&sink.name)))
}
