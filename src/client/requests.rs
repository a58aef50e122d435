//! `headgate requests`: the request log of one or all connectors, or one request with its stored content; resends a
//! request.
//!
//! Called by the command line; calls the admin API.
//!
//! **Invariant**: entries are printed newest first. Entries of several connectors are merged up to the limit, and none
//! between them is left out.

use super::client::{AdminArgs, CallError, Client};
use super::error::CliError;
use super::output::{
    ListOutput, cut, json, json_line, json_pretty, note, plain, print, print_list, shown, when,
};
use super::resource::{Column, table};
use super::zone::local;
use crate::Running;
use base::clock::{self, Unix};
use base::text::percent_encoded;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use reqwest::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::cmp::Ordering;
use wire::{ContentData, LoggedRequest, ResentData, Status};

const LIMIT_MAX: u64 = 100_000;

/// Arguments of `headgate requests`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  headgate requests --status rejected,failed --since 1h
  headgate requests --connector shop --limit 500 --output ndjson
  headgate requests --connector shop --text 'has no field' --since 7d
  headgate requests show 0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10
  headgate requests resend 0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10

To see the log of a deleted connector, pass its name with --connector."
)]
pub struct RequestsArgs {
    #[command(subcommand)]
    command: Option<RequestsCommand>,
    /// Show this request, like `show`
    #[arg(conflicts_with_all = ["connector", "status", "since", "until", "text"])]
    request_id: Option<String>,
    /// Only requests of this connector, by name or id
    #[arg(long, value_name = "NAME")]
    connector: Option<String>,
    /// Only requests with one of these statuses
    #[arg(long, value_parser = status(), value_delimiter = ',')]
    status: Vec<Status>,
    /// Only requests since this time: 90s, 15m, 1h, 7d ago, or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    since: Option<Unix>,
    /// Only requests until this time
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    until: Option<Unix>,
    /// Only requests with this text in their error, idempotency key, delivery id, key or client address, ignoring the
    /// case of A to Z; or the request with this id. Searches the whole log, or back to --since
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Number of requests to show, newest first
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=LIMIT_MAX))]
    limit: u64,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, clap::Subcommand)]
enum RequestsCommand {
    /// Show a request with its items or body, if still stored
    Show(ShowArgs),
    /// Resend a request as a new one
    #[command(alias = "send-again")]
    Resend(ResendArgs),
}

/// Arguments of `headgate requests show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate requests show 0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10
  headgate requests show 0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10 --output json")]
struct ShowArgs {
    /// The request
    request_id: String,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate requests resend`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate requests resend 0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10
  headgate requests resend 0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10 --overwrite

The same items become a new request. Items that a later request changed or removed stay unchanged, unless --overwrite
is given. A rejected webhook request is checked again, with the current settings of its connector. Items and bodies are
kept for a limited time: see `storage` in the configuration.")]
struct ResendArgs {
    /// The request
    request_id: String,
    /// Overwrite newer values, and restore removed items
    #[arg(long)]
    overwrite: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// The status argument.
pub(super) fn status() -> impl TypedValueParser<Value = Status> {
    PossibleValuesParser::new(Status::ALL.map(Status::as_str)).try_map(|name| {
        Status::from_name(&name).ok_or_else(|| format!("no status is called {name}"))
    })
}

/// The ID and name of a connector.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Connector {
    pub(super) id: String,
    pub(super) name: String,
}

/// Runs the verb.
pub fn run(args: RequestsArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: RequestsArgs) -> Result<(), CliError> {
    match args.command {
        Some(RequestsCommand::Show(args)) => {
            let client = args.admin.client()?;
            return show(&client, &args.request_id, args.output).await;
        }
        Some(RequestsCommand::Resend(args)) => return resend(&args).await,
        None => {}
    }
    let client = args.admin.client()?;
    if let Some(id) = &args.request_id {
        return show(&client, id, args.output).await;
    }
    let entries = newest(&client, &args).await?;
    print_list(args.output, &entries, "no requests match", |entries| {
        table(COLUMNS, entries)
    })
}

/// Prints a request with its stored content.
async fn show(client: &Client, id: &str, output: ListOutput) -> Result<(), CliError> {
    let path = format!("/api/admin/requests/{}", percent_encoded(id));
    let request: LoggedRequest = client.get(&path).await?;
    let content: ContentData = client.get(&format!("{path}/content")).await?;
    let mut shown = json(&request);
    if output == ListOutput::Table {
        for time in ["timestamp", "processed_at"] {
            shown[time] = shown[time].as_str().map(local).into();
        }
    }
    shown["content"] = match output {
        ListOutput::Table => for_people(&content),
        ListOutput::Json | ListOutput::Ndjson => json(&content),
    };
    print(&match output {
        ListOutput::Table => described(&shown),
        ListOutput::Json => json_pretty(&shown)?,
        ListOutput::Ndjson => json_line(&shown)?,
    })
}

/// The content of a request, with one line per field of an item.
fn for_people(content: &ContentData) -> Value {
    let mut shown = json(content);
    for (index, item) in content.items.iter().enumerate() {
        let lines = item.fields.iter().map(|field| {
            let left_out = match field.bytes_left_out {
                0 => String::new(),
                bytes => format!("… ({bytes} more bytes)"),
            };
            (
                field.name.clone(),
                [&*field.value, &*left_out].concat().into(),
            )
        });
        shown["items"][index]["fields"] = Value::Object(lines.collect());
    }
    shown
}

async fn resend(args: &ResendArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let path = format!(
        "/api/admin/requests/{}/resend",
        percent_encoded(&args.request_id)
    );
    let body = args
        .overwrite
        .then(|| serde_json::json!({"overwrite": true}));
    let sent: ResentData = client.change(Method::POST, &path, body.as_ref()).await?;
    match args.output {
        ListOutput::Table => {}
        ListOutput::Json => return print(&json_pretty(&sent)?),
        ListOutput::Ndjson => return print(&json_line(&sent)?),
    }
    if sent.replayed {
        note("its idempotency key was accepted before; this is the original request");
    }
    let left = sent.items_left;
    if left > 0 {
        let (items, were) = if left == 1 {
            ("item", "was")
        } else {
            ("items", "were")
        };
        note(&format!(
            "{left} {items} left unchanged: a later request changed or removed them; --overwrite sends what {were} left too"
        ));
    }
    match &sent.request_id {
        Some(id) => print(&format!("{}\n", shown(id))),
        None => {
            note("nothing was sent");
            Ok(())
        }
    }
}

/// The newest entries that match, of all selected connectors.
async fn newest(client: &Client, args: &RequestsArgs) -> Result<Vec<LoggedRequest>, CliError> {
    let connectors = match args.connector.as_deref() {
        Some(wanted) => vec![named(client, wanted).await?],
        None => connectors(client).await?,
    };
    let filter = filter(args);
    let limit = args.limit as usize;
    let mut entries = Vec::new();
    for connector in &connectors {
        let path = format!(
            "/api/admin/connectors/{}/requests",
            percent_encoded(&connector.id)
        );
        entries.extend(client.list(&path, &filter, limit).await?);
        // The newest `limit` entries of each connector are enough: no other can be among the newest of all.
        entries.sort_by(|a, b| by_time(b, a));
        entries.truncate(limit);
    }
    Ok(entries)
}

/// The connectors of the daemon.
pub(super) async fn connectors(client: &Client) -> Result<Vec<Connector>, CallError> {
    client.list("/api/admin/connectors", "", usize::MAX).await
}

/// The connector with this name or ID; also a deleted one, while the log has its requests.
async fn named(client: &Client, wanted: &str) -> Result<Connector, CliError> {
    let unknown = match matching(connectors(client).await?, Some(wanted)) {
        Ok(mut found) => return Ok(found.remove(0)),
        Err(unknown) => unknown,
    };
    let path = format!("/api/admin/connectors/{}/requests", percent_encoded(wanted));
    match client.list::<IgnoredAny>(&path, "", 1).await {
        Ok(_) => Ok(Connector {
            id: wanted.to_owned(),
            name: wanted.to_owned(),
        }),
        Err(_) => Err(unknown),
    }
}

/// All connectors, or the one with the name or ID `wanted`.
pub(super) fn matching(
    connectors: Vec<Connector>,
    wanted: Option<&str>,
) -> Result<Vec<Connector>, CliError> {
    let Some(wanted) = wanted else {
        return Ok(connectors);
    };
    // A name takes precedence over an equal ID.
    let found = connectors.iter().find(|connector| connector.name == wanted);
    let found = found.or_else(|| connectors.iter().find(|connector| connector.id == wanted));
    if let Some(connector) = found {
        return Ok(vec![connector.clone()]);
    }
    let names: Vec<_> = connectors
        .iter()
        .map(|connector| shown(&connector.name))
        .collect();
    let there_are = if names.is_empty() {
        "there is none".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    Err(CliError::failed(format!(
        "no connector `{}`; {there_are}",
        shown(wanted)
    )))
}

/// The filters as a part of the query, `&name=value` each.
fn filter(args: &RequestsArgs) -> String {
    let mut query = String::new();
    if !args.status.is_empty() {
        let names: Vec<_> = args.status.iter().map(|status| status.as_str()).collect();
        query += &format!("&status={}", names.join(","));
    }
    for (name, moment) in [("since", args.since), ("until", args.until)] {
        if let Some(moment) = moment {
            query += &format!("&{name}={}", percent_encoded(&clock::rfc3339(moment)));
        }
    }
    if let Some(text) = &args.text {
        query += &format!("&text={}", percent_encoded(text));
    }
    query
}

/// Times are UTC in one format and IDs are UUIDv7, so text order is time order.
pub(super) fn by_time(a: &LoggedRequest, b: &LoggedRequest) -> Ordering {
    (&a.timestamp, &a.request_id).cmp(&(&b.timestamp, &b.request_id))
}

const COLUMNS: &[Column<LoggedRequest>] = &[
    Column::new("TIME", |one| when(&one.timestamp)),
    Column::new("CONNECTOR", |one| plain(&one.connector)),
    Column::new("STREAM", |one| plain(&one.stream)),
    Column::new("STATUS", |one| plain(&one.status)),
    Column::new("HTTP", |one| plain(&one.http_status)),
    Column::new("ITEMS", |one| plain(&one.items_received)),
    Column::new("BYTES", |one| plain(&one.bytes)),
    Column::new("KEY", |one| plain(&one.key)),
    Column::new("REQUEST", |one| plain(&one.request_id)),
    Column::new("ERRORS", errors),
];

/// The errors of an entry on one line, shortened.
pub(super) fn errors(entry: &LoggedRequest) -> String {
    cut(entry.errors.join("; "))
}

/// A request in full: one line per field, with lists and objects indented.
fn described(request: &Value) -> String {
    let mut text = String::new();
    describe(request, 0, &mut text);
    text
}

fn describe(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let mut line = |label: &str, value: &Value| {
        let nested = match value {
            Value::Array(entries) => !entries.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => false,
        };
        if nested {
            *text += &format!("{indent}{label}\n");
            describe(value, depth + 1, text);
        } else {
            let line = format!("{indent}{label} {}", shown(&plain(value)));
            *text += &format!("{}\n", line.trim_end());
        }
    };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                line(&format!("{}:", shown(name)), value);
            }
        }
        Value::Array(entries) => entries.iter().for_each(|entry| line("-", entry)),
        value => line("-", value),
    }
}

/// Parses a time: an age such as `15m`, or an RFC 3339 time.
pub fn moment(text: &str) -> Result<Unix, String> {
    moment_before(text, Unix::now())
}

fn moment_before(text: &str, now: Unix) -> Result<Unix, String> {
    let ago = || {
        let unit = text.chars().last()?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        let count: u32 = text[..text.len() - 1].parse().ok()?;
        now.ms()
            .checked_sub(u64::from(count) * seconds * 1_000)
            .map(Unix::from_ms)
    };
    ago().or_else(|| clock::parse_rfc3339(text)).ok_or_else(|| {
        "give 90s, 15m, 1h, 7d or 2w, or a time such as 2025-03-01T12:00:00Z".to_owned()
    })
}

#[cfg(test)]
mod tests;
