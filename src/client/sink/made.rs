//! Sinks that are created at run time: creating, changing, showing, pausing and deleting them.
//!
//! **Invariant**: a setting that was not given is not sent, so it stays unchanged. No secret is printed.

use std::io::Read as _;

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::columns::as_text;
use crate::client::AdminArgs;
use crate::error::CliError;
use crate::output::{json_pretty, print, shown};
use crate::resource::Resource;
use base::text::percent_encoded;
use settings::section_toml;
use wire::{DeletedSinkData, RefilledData, SinkData};

/// What can be said of a sink.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct SectionArgs {
    /// Built-in plugin, or the name of a file in the plugins directory
    #[arg(long, value_name = "NAME")]
    plugin: Option<String>,
    /// Streams that it receives, separated by commas; `*` at the end of a name matches any characters
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    streams: Vec<String>,
    /// Streams that it does not receive although `--streams` matches them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    except: Vec<String>,
    /// What it follows: journal (everything that is accepted), or latest (the newest state of the data pool)
    #[arg(long, value_name = "WORD")]
    mode: Option<String>,
    /// With `--mode latest`: largest number of calls of the plugin per second
    #[arg(long, value_name = "N")]
    max_rate: Option<u64>,
    /// With `--mode latest`: true to receive the values that screens show, with overrides and holds
    #[arg(long, value_name = "true|false")]
    shown: Option<bool>,
    /// Where it starts: now, journal (the oldest stored request), or state (all items of the data pool)
    #[arg(long, value_name = "WORD")]
    start: Option<String>,
    /// Items that it receives: conditions that must all hold; empty: all items of its streams
    #[arg(long = "where", value_name = "CONDITIONS")]
    conditions: Option<String>,
    /// What an update that does not match `--where` becomes: skip (nothing), or remove (a removal of the item)
    #[arg(long, value_name = "WORD")]
    leaves: Option<String>,
    /// Fields that it receives, in this order; empty: all fields
    #[arg(long, value_name = "FIELDS")]
    fields: Option<String>,
    /// Streams that it can write in the data pool
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    writes: Vec<String>,
    /// Streams whose items it can make
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    makes: Vec<String>,
    /// Order of delivery: key (that of each item key), or strict (that of acceptance)
    #[arg(long, value_name = "WORD")]
    ordering: Option<String>,
    /// Largest number of calls of the plugin at the same time, 1 to 16
    #[arg(long, value_name = "N")]
    in_flight: Option<u64>,
    /// Settings of the plugin, a JSON object; `@FILE` reads them from a file, `@-` from standard input
    #[arg(long, value_name = "JSON|@FILE")]
    config: Option<String>,
    /// Host that the plugin can call; can be repeated
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// Private network that the plugin can call; can be repeated
    #[arg(long, value_name = "NETWORK")]
    network: Vec<String>,
    /// Header of every request, a secret; can be repeated; an empty value deletes it
    #[arg(long, value_name = "NAME=VALUE|@FILE")]
    header: Vec<String>,
    /// Secret that the plugin can read; can be repeated; an empty value deletes it
    #[arg(long, value_name = "NAME=VALUE|@FILE")]
    secret: Vec<String>,
    /// URL of the database that the plugin can write to, a secret; empty: none
    #[arg(long, value_name = "URL|@FILE")]
    postgres: Option<String>,
    /// Address that the plugin can connect to, such as tcp://10.0.0.5:5250; can be repeated. `--network` applies to it too
    #[arg(long, value_name = "URL")]
    wire: Vec<String>,
    /// Directory for files of the plugin, below `files` of the data directory; empty: none
    #[arg(long, value_name = "PATH")]
    folder: Option<String>,
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
    admin: AdminArgs,
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
    /// Adds the settings that are not texts.
    fn plain_into(&self, body: &mut Map<String, Value>) {
        let given = [
            ("in_flight", self.in_flight.map(Value::from)),
            ("max_rate", self.max_rate.map(Value::from)),
            ("shown", self.shown.map(Value::from)),
        ];
        let given = given.into_iter();
        body.extend(given.filter_map(|(name, value)| Some((name.to_owned(), value?))));
    }

    /// The given settings as a merge patch.
    pub(super) fn body(&self) -> Result<Map<String, Value>, CliError> {
        let mut body = match &self.section {
            Some(text) => object("--section", text)?,
            None => Map::new(),
        };
        let texts = [
            ("plugin", &self.plugin),
            ("mode", &self.mode),
            ("start", &self.start),
            ("where", &self.conditions),
            ("leaves", &self.leaves),
            ("fields", &self.fields),
            ("ordering", &self.ordering),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                body.insert(name.to_owned(), text_or_null(text));
            }
        }
        self.plain_into(&mut body);
        let lists = [
            ("streams", &self.streams),
            ("except", &self.except),
            ("writes", &self.writes),
            ("makes", &self.makes),
        ];
        for (name, list) in lists {
            if !list.is_empty() {
                let named = list.iter().filter(|entry| !entry.is_empty());
                let named: Vec<&str> = named.map(String::as_str).collect();
                body.insert(name.to_owned(), named.into());
            }
        }
        if let Some(config) = &self.config {
            body.insert("config".to_owned(), object("--config", config)?.into());
        }
        self.grants_into(&mut body)?;
        Ok(body)
    }

    /// Adds the grants of the plugin.
    fn grants_into(&self, body: &mut Map<String, Value>) -> Result<(), CliError> {
        let mut http = Map::new();
        for (name, list) in [("hosts", &self.host), ("networks", &self.network)] {
            if !list.is_empty() {
                http.insert(name.to_owned(), json!(list));
            }
        }
        if !self.header.is_empty() {
            http.insert("headers".to_owned(), secrets("--header", &self.header)?);
        }
        if !http.is_empty() {
            body.insert("http".to_owned(), http.into());
        }
        if !self.secret.is_empty() {
            body.insert("secrets".to_owned(), secrets("--secret", &self.secret)?);
        }
        if let Some(url) = &self.postgres {
            let url = text_or_null(&given(url)?);
            let postgres = match url.is_null() {
                true => Value::Null,
                false => json!({ "url": url }),
            };
            body.insert("postgres".to_owned(), postgres);
        }
        if !self.wire.is_empty() {
            let mut wire = json!({ "to": self.wire });
            if let Some(networks) = body
                .get_mut("http")
                .and_then(|http| http["networks"].as_array().cloned())
            {
                wire["networks"] = networks.into();
                if self.host.is_empty() && self.header.is_empty() {
                    body.remove("http");
                }
            }
            body.insert("wire".to_owned(), wire);
        }
        if let Some(path) = &self.folder {
            let path = text_or_null(path);
            let folder = match path.is_null() {
                true => Value::Null,
                false => json!({ "path": path }),
            };
            body.insert("folder".to_owned(), folder);
        }
        Ok(())
    }
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

fn secrets(option: &str, all: &[String]) -> Result<Value, CliError> {
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
    let options = "--plugin, --streams, --where, --fields, --config, --host, --header, --secret, --section, …";
    let body = args.section.body()?;
    sinks(&args.admin)?.change(&args.name, body, options).await
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
