//! `headgate sink try`: shows what a sink would do with an item.
//!
//! **Invariant**: nothing is sent without `--send`.

use std::fmt::Write as _;

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::made::{SectionArgs, below, object, sinks};
use crate::client::AdminArgs;
use crate::error::CliError;
use crate::output::{json_pretty, print, shown};
use wire::TriedData;

/// How a trial is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TryOutput {
    /// Lines for people.
    Text,
    /// All that the API says.
    Json,
}

/// Arguments of `headgate sink try`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sink try team                                # what it would do with the newest item
  headgate sink try team --item '{\"id\": 7, \"total\": 100}' --where 'total>=100'
  headgate sink try team --send                         # send one attempt

Without --send, nothing is sent or stored. Exit code 1 if the plugin rejects the items.")]
pub(super) struct TryArgs {
    /// The sink
    name: String,
    /// Item to use instead of the newest one, a JSON object; can be repeated
    #[arg(long, value_name = "JSON")]
    item: Vec<String>,
    /// Send the requests of the sink, once
    #[arg(long)]
    send: bool,
    #[command(flatten)]
    section: SectionArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: TryOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Runs the verb.
pub(super) async fn run(args: &TryArgs) -> Result<(), CliError> {
    let mut body = args.section.body()?;
    if !args.item.is_empty() {
        let items = args.item.iter().map(|item| object("--item", item));
        let items: Vec<Map<String, Value>> = items.collect::<Result<_, _>>()?;
        body.insert("items".to_owned(), json!(items));
    }
    body.insert("send".to_owned(), args.send.into());
    let path = below(&args.name, "/try");
    let tried: Value = sinks(&args.admin)?
        .call(Method::POST, &path, Some(body))
        .await?;
    let data: TriedData = serde_json::from_value(tried.clone())
        .map_err(|error| CliError::failed(format!("the answer cannot be read: {error}")))?;
    print(&match args.output {
        TryOutput::Json => json_pretty(&tried)?,
        TryOutput::Text => trial_as_text(&data, args.send),
    })?;
    match data.error {
        Some(error) => Err(CliError::failed(format!(
            "the plugin rejects the items: {}",
            shown(&error)
        ))),
        None => Ok(()),
    }
}

fn trial_as_text(tried: &TriedData, sent: bool) -> String {
    let mut text = format!("the plugin received {} items\n", tried.items);
    for request in &tried.requests {
        let verb = if sent { "sent" } else { "would send" };
        let _ = writeln!(
            text,
            "\n{verb}: {} {}",
            shown(&request.method),
            shown(&request.url)
        );
        for (name, value) in &request.headers {
            let _ = writeln!(text, "  {}: {}", shown(name), shown(value));
        }
        let _ = writeln!(text, "  {}", shown(&request.body));
    }
    for write in &tried.writes {
        let what = match &write.statement {
            Some(statement) => statement.clone(),
            None => {
                let part = |part: &Option<String>| part.clone().unwrap_or_default();
                let fields = write.fields.as_ref().map(Value::to_string);
                format!(
                    "{} {} {}",
                    part(&write.stream),
                    part(&write.key),
                    part(&fields)
                )
            }
        };
        let _ = writeln!(
            text,
            "would write: {} {}",
            shown(&write.action),
            shown(&what)
        );
    }
    for line in &tried.log {
        let _ = writeln!(text, "logged: {}", shown(line));
    }
    text
}
