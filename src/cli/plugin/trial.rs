//! `headgate plugin test`: one call of a component, and what it would have done.
//!
//! **Invariant**: the items go the way of a request: flattened, keyed, handed over by handle.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::error::CliError;
use super::super::output::{Table, json_pretty, print, shown};
use super::{PluginOutput, Subject};
use base::clock::Unix;
use base::order::Seq;
use ingest::flatten::{FlattenLimits, flatten};
use item::batch::{Batch, Entry, Slice};
use plugin::{Failure, NotTaken, Taken};
use settings::Settings;

/// What `headgate plugin test` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate plugin test sinks/mine.wasm --input items.json --item-key id
  echo '{\"id\": 7, \"total\": 1}' | headgate plugin test sinks/mine.wasm --stream orders --output json

The input is the body of a request: a JSON object or an array of objects.
Exit code 1 if the sink asks for a retry, rejects, or traps.")]
pub(super) struct TestArgs {
    #[command(flatten)]
    subject: Subject,
    /// A JSON file; `-` is standard input
    #[arg(long, value_name = "FILE", default_value = "-")]
    input: PathBuf,
    /// The stream that the items come from
    #[arg(long, value_name = "NAME", default_value = "test")]
    stream: String,
    /// The field that identifies each item; otherwise their position does
    #[arg(long, value_name = "FIELD")]
    item_key: Option<String>,
    /// What the sink is told how often the batch was tried
    #[arg(long, value_name = "N", default_value_t = 1)]
    attempt: u32,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    output: PluginOutput,
}

/// Runs the verb.
pub(super) async fn run(args: &TestArgs) -> Result<(), CliError> {
    let batch = batch(args)?;
    let mut started = args.subject.start().await?;
    let items = batch.len();
    let result = started.instance.write(batch).await;
    let summary = summary(&result, items);
    let failed = result.is_err()
        || result
            .as_ref()
            .is_ok_and(|taken| !taken.rejected.is_empty());
    let taken = result.unwrap_or_default();
    print(&match args.output {
        PluginOutput::Json => json_pretty(&report(&summary, &taken))?,
        PluginOutput::Text => as_text(&taken),
    })?;
    if failed {
        return Err(CliError::failed(format!("the sink {}", shown(&summary))));
    }
    if args.output == PluginOutput::Text {
        print(&format!("the sink {}\n", shown(&summary)))?;
    }
    Ok(())
}

/// What became of so many items, in words.
pub(super) fn summary(result: &Result<Taken, NotTaken>, items: u32) -> String {
    let failed = match result {
        Ok(taken) if taken.rejected.is_empty() => return "took all items".to_owned(),
        Ok(taken) => return format!("rejected {} of {items} items", taken.rejected.len()),
        Err(failed) => failed,
    };
    let before = match failed.progress.taken {
        0 => String::new(),
        taken => format!("settled {taken} of {items} items, then "),
    };
    let then = match &failed.failure {
        Failure::Retry { after, reason } => {
            let after = after.map_or(String::new(), |after| {
                format!(" in {} ms", after.as_millis())
            });
            format!("asks for a retry{after}: {reason}")
        }
        Failure::Reject { reason } if before.is_empty() => format!("rejected all items: {reason}"),
        Failure::Reject { reason } => format!("rejected the others: {reason}"),
        Failure::NotGranted { reason } | Failure::Trap { reason } => format!("failed: {reason}"),
    };
    before + &then
}

fn batch(args: &TestArgs) -> Result<Batch, CliError> {
    let body = read(&args.input)?;
    let batch = batch_of(&body, &args.stream, args.item_key.as_deref(), args.attempt);
    batch.map_err(|error| CliError::wrong_use(shown(&error)))
}

/// The items of a request's body, as a lane would hand them over; or what is wrong with the body.
pub(super) fn batch_of(
    body: &[u8],
    stream: &str,
    item_key: Option<&str>,
    attempt: u32,
) -> Result<Batch, String> {
    let limits = Settings::default().limits;
    let limits = FlattenLimits {
        flattened_bytes_max: limits.max_flattened_bytes,
        item_bytes_max: limits.max_item_bytes,
    };
    let items = flatten(body, item_key, limits).map_err(|error| error.to_string())?;
    let entry = Entry {
        seq: Seq::new(1),
        request_id: Uuid::now_v7(),
        stream: stream.into(),
        received_at: Unix::now(),
        arrived: None,
        items,
    };
    Ok(Batch::new(vec![Slice::whole(Arc::new(entry))], attempt))
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let read = if path == Path::new("-") {
        let mut body = Vec::new();
        std::io::stdin().read_to_end(&mut body).map(|_| body)
    } else {
        std::fs::read(path)
    };
    read.map_err(|error| CliError::failed(format!("cannot read {}: {error}", path.display())))
}

fn as_text(taken: &Taken) -> String {
    let mut table = Table::new(&["effect", "stream", "key", "fields"]);
    for change in taken.changes() {
        let fields = change.fields.unwrap_or_default();
        let (stream, key) = (shown(&change.stream), shown(&change.key));
        table.row(&[change.action, &stream, &key, &shown(&fields)]);
    }
    for (key, value) in &taken.staged.state {
        let value = match value {
            Some(value) => format!("{} bytes", value.len()),
            None => "removed".to_owned(),
        };
        table.row(&["state", "", &shown(key), &value]);
    }
    for (index, reason) in &taken.rejected {
        table.row(&["reject", "", &format!("item {index}"), &shown(reason)]);
    }
    format!("{table}\n")
}

/// What is printed for programs.
#[derive(Serialize)]
struct Report<'a> {
    result: &'a str,
    effects: Vec<Line>,
    state: Vec<Value>,
    rejected: Vec<Value>,
}

#[derive(Serialize)]
struct Line {
    effect: &'static str,
    stream: String,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Box<RawValue>>,
}

fn report<'a>(summary: &'a str, taken: &Taken) -> Report<'a> {
    let effects = taken.changes().into_iter();
    let effects = effects.map(|change| Line {
        effect: change.action,
        stream: change.stream,
        key: change.key,
        fields: change
            .fields
            .and_then(|fields| RawValue::from_string(fields).ok()),
    });
    let state = taken.staged.state.iter();
    let state =
        state.map(|(key, value)| json!({ "key": key, "bytes": value.as_ref().map(Vec::len) }));
    let rejected = taken.rejected.iter();
    let rejected = rejected.map(|(index, reason)| json!({ "index": index, "reason": reason }));
    Report {
        result: summary,
        effects: effects.collect(),
        state: state.collect(),
        rejected: rejected.collect(),
    }
}
