//! `headgate plugin test`: one call of a component, and what it would have done.
//!
//! **Invariant**: the items go the way of a request: flattened, keyed, handed over by handle.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::error::CliError;
use super::super::output::{Table, json_pretty, note, print, shown, shown_lines};
use super::expect::Expected;
use super::{PluginOutput, Subject};
use base::clock::Unix;
use base::order::Seq;
use ingest::flatten::{FlattenLimits, flatten};
use item::batch::{Batch, Entry, Slice};
use plugin::{Failure, NotTaken, RecycleReason, Taken};
use settings::Settings;

/// Arguments of `headgate plugin test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate plugin test sinks/mine.wasm --input items.json --item-key id
  echo '{\"id\": 7, \"total\": 1}' | headgate plugin test sinks/mine.wasm --stream orders --output json
  headgate plugin test sinks/mine.wasm --input items.json --item-key id --expect expected.json --watch

The input is the body of a request: a JSON object or an array of objects.
Exit code 1 if the sink asks for a retry, rejects, or traps; with --expect, if something is not as expected.")]
pub(super) struct TestArgs {
    #[command(flatten)]
    subject: Subject,
    /// A JSON file; `-` is standard input
    #[arg(long, value_name = "FILE", default_value = "-")]
    input: PathBuf,
    /// The stream that the items come from
    #[arg(long, value_name = "NAME", default_value = "test")]
    stream: String,
    /// Field that identifies each item. Default: their position
    #[arg(long, value_name = "FIELD")]
    item_key: Option<String>,
    /// Number of the attempt that the sink receives
    #[arg(long, value_name = "N", default_value_t = 1)]
    attempt: u32,
    /// What should come out: a JSON object with what of `--output json` is compared (`result`, `effects`, `state`,
    /// `rejected`, `kept_handles`), and `max_ms`, the longest time of the call
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Run again whenever the component, the input or the expectation has changed, until it is interrupted
    #[arg(long)]
    watch: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: PluginOutput,
}

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) async fn run(args: &TestArgs) -> Result<(), CliError> {
    if !args.watch {
        return once(args).await;
    }
    if args.input == Path::new("-") {
        return Err(CliError::wrong_use(
            "--watch reads the input again and again: name its file with --input",
        ));
    }
    let files = [Path::new(&args.subject.plugin), &args.input];
    let files: Vec<&Path> = files.into_iter().chain(args.expect.as_deref()).collect();
    let look = || -> Vec<Option<(SystemTime, u64)>> {
        let looks = files.iter().map(|file| {
            let file = file.metadata().ok()?;
            Some((file.modified().ok()?, file.len()))
        });
        looks.collect()
    };
    loop {
        let seen = look();
        match once(args).await {
            Ok(()) => note("watching for changes"),
            Err(error) => note(&format!("error: {}\nwatching for changes", error.message)),
        }
        let mut before = look();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = look();
            // What is still being written is waited for.
            if now != seen && now == before {
                break;
            }
            before = now;
        }
    }
}

async fn once(args: &TestArgs) -> Result<(), CliError> {
    let batch = batch(args)?;
    let expected = args.expect.as_deref().map(Expected::read).transpose()?;
    let mut started = args.subject.start().await?;
    let items = batch.len();
    let begun = Instant::now();
    let result = started.instance.write(batch).await;
    let took = begun.elapsed();
    let keeps = started.instance.recycle_reason() == Some(RecycleReason::Handles);
    let summary = summary(&result, items);
    let failed = result.is_err()
        || result
            .as_ref()
            .is_ok_and(|taken| !taken.rejected.is_empty());
    let taken = result.unwrap_or_default();
    let report = report(&summary, &taken, keeps);
    print(&match args.output {
        PluginOutput::Json => json_pretty(&report)?,
        PluginOutput::Text => as_text(&taken),
    })?;
    if keeps {
        note(
            "warning: it keeps handles of batches or requests; give every handle back before `write` returns, because a daemon replaces such an instance after each call",
        );
    }
    if let Some(expected) = expected {
        let report = serde_json::to_value(&report)
            .map_err(|error| CliError::failed(format!("cannot compare: {error}")))?;
        let differences = expected.differences(&report, took);
        if !differences.is_empty() {
            return Err(CliError::failed(
                shown_lines(&format!(
                    "it is not as expected:\n{}",
                    differences.join("\n")
                ))
                .into_owned(),
            ));
        }
        return print(&format!("as expected: the sink {}\n", shown(&summary)));
    }
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
    /// It did not give back all handles.
    kept_handles: bool,
}

#[derive(Serialize)]
struct Line {
    effect: &'static str,
    stream: String,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Box<RawValue>>,
}

fn report<'a>(summary: &'a str, taken: &Taken, kept_handles: bool) -> Report<'a> {
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
    let state = state.map(|(key, value)| {
        let text = value
            .as_deref()
            .and_then(|value| std::str::from_utf8(value).ok());
        json!({ "key": key, "bytes": value.as_ref().map(Vec::len), "text": text })
    });
    let rejected = taken.rejected.iter();
    let rejected = rejected.map(|(index, reason)| json!({ "index": index, "reason": reason }));
    Report {
        result: summary,
        effects: effects.collect(),
        state: state.collect(),
        rejected: rejected.collect(),
        kept_handles,
    }
}
