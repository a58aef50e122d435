//! `headgate item`: one item of the data pool of a running daemon.
//!
//! Called by the command line; calls the admin API.
//!
//! **Invariant**: an item is removed only by a verb that names its stream and its key.

use reqwest::Method;

use super::acts;
use super::client::AdminArgs;
use super::error::CliError;
use super::output::{
    ListOutput, cut, json_line, json_pretty, note, print, print_list, shown, when,
};
use super::resource::{Column, table};
use super::tail::message::Fields;
use crate::Running;
use base::text::percent_encoded;
use wire::{PastValueData, RemovedData, StoredItem};

/// Arguments of `headgate item`.
#[derive(Debug, clap::Args)]
pub struct ItemArgs {
    #[command(subcommand)]
    command: ItemCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ItemCommand {
    /// Show an item
    #[command(after_help = "\
Examples:
  headgate item get orders 1042
  headgate item get orders 1042 --output json")]
    Get(GetArgs),
    /// List the past field values of an item, newest first
    #[command(after_help = "\
Examples:
  headgate item history scores m1
  headgate item history scores m1 --field home.score --limit 20

Streams with `history` keep values. Overrides by operators are listed too.")]
    History(HistoryArgs),
    /// Remove an item from the data pool and every screen
    #[command(after_help = "\
Example:
  headgate item rm orders 1042

Every sink receives the removal. If the source sends the item again, it is stored again.")]
    Rm(Named),
    /// Replace an item
    #[command(after_help = "\
Example:
  headgate item set scores m1 home.name=United home.score=3")]
    Set(acts::FieldsArgs),
    /// Override field values until they are released
    #[command(after_help = "\
Examples:
  headgate item override scores m1 home.score=3
  headgate item override scores m1 status=paused --until 900")]
    Override(acts::OverrideArgs),
    /// Add a number to the shown value of a field
    #[command(after_help = "\
Example:
  headgate item add scores m1 home.score 1")]
    Add(acts::AddArgs),
    /// Release overrides: show the source's values again
    #[command(after_help = "\
Example:
  headgate item release scores m1 home.score")]
    Release(acts::ReleaseArgs),
}

/// Which item.
#[derive(Debug, clap::Args)]
struct Named {
    /// The stream
    stream: String,
    /// The item's key
    key: String,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate item get`.
#[derive(Debug, clap::Args)]
struct GetArgs {
    #[command(flatten)]
    item: Named,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
}

/// Arguments of `headgate item history`.
#[derive(Debug, clap::Args)]
struct HistoryArgs {
    #[command(flatten)]
    item: Named,
    /// Only this field
    #[arg(long)]
    field: Option<String>,
    /// Largest number of entries
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
}

const HISTORY: &[Column<PastValueData>] = &[
    Column::new("AT", |one| when(&one.at)),
    Column::new("FIELD", |one| one.field.clone()),
    Column::new("VALUE", value),
    Column::new("BY", |one| {
        one.by.clone().unwrap_or_else(|| "the source".to_owned())
    }),
    Column::new("UNTIL", |one| when(&one.until)),
    Column::new("REQUEST", |one| one.request_id.clone()),
];

/// The value as it was sent; for other entries, their kind.
fn value(one: &PastValueData) -> String {
    let value = one.value.as_ref().map(|value| value.get().to_owned());
    let value = cut(value.unwrap_or_else(|| "null".to_owned()));
    match &*one.kind {
        "value" => value,
        "gone" => "(field removed)".to_owned(),
        "removed" => "(item removed)".to_owned(),
        "release" => "(released)".to_owned(),
        act => format!("{value} ({act})"),
    }
}

impl Named {
    fn path(&self) -> String {
        format!(
            "/api/admin/streams/{}/items/{}",
            percent_encoded(&self.stream),
            percent_encoded(&self.key)
        )
    }
}

/// Runs the verb.
///
/// # Errors
/// The daemon does not answer, or there is no such item.
pub fn run(args: ItemArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: ItemArgs) -> Result<(), CliError> {
    match args.command {
        ItemCommand::Get(args) => get(&args).await,
        ItemCommand::History(args) => history(&args).await,
        ItemCommand::Rm(item) => remove(&item).await,
        ItemCommand::Set(args) => acts::set(&args).await,
        ItemCommand::Override(args) => acts::override_fields(&args).await,
        ItemCommand::Add(args) => acts::add(&args).await,
        ItemCommand::Release(args) => acts::release(&args).await,
    }
}

async fn get(args: &GetArgs) -> Result<(), CliError> {
    let client = args.item.admin.client()?;
    let item: StoredItem = client.get(&args.item.path()).await?;
    print(&match args.output {
        ListOutput::Json => json_pretty(&item)?,
        ListOutput::Ndjson => json_line(&item)?,
        ListOutput::Table => described(&item),
    })
}

async fn history(args: &HistoryArgs) -> Result<(), CliError> {
    let client = args.item.admin.client()?;
    let path = format!("{}/history", args.item.path());
    let of_field = |field: &String| format!("&field={}", percent_encoded(field));
    let filter = args.field.as_ref().map(of_field).unwrap_or_default();
    let entries = client.list(&path, &filter, args.limit as usize).await?;
    let none = format!(
        "no history is kept; to keep future values, set `history` of the stream {}",
        shown(&args.item.stream)
    );
    print_list(args.output, &entries, &none, |entries| {
        table(HISTORY, entries)
    })
}

/// One line per field, with values as they were sent.
fn described(item: &StoredItem) -> String {
    let mut text = format!(
        "key: {}\nupdated: {}\nversion: {}\nrequest: {}\nfields\n",
        shown(&item.key),
        shown(&when(&item.updated_at)),
        item.seq,
        shown(&item.request_id)
    );
    let fields = serde_json::from_str(item.fields.get()).unwrap_or(Fields(Vec::new()));
    for (name, value) in fields.0 {
        let value = match serde_json::from_str::<String>(value.get()) {
            Ok(value) => value,
            Err(_) => value.get().to_owned(),
        };
        text += &format!("  {}: {}", shown(&name), shown(&value));
        if let Some(own) = item.overrides.get(&*name) {
            let source = own.source.as_ref().map_or("none", |source| source.get());
            let (by, source) = (shown(&own.by), shown(source));
            text += &format!(" (overridden by {by}; source: {source})");
        }
        text.push('\n');
    }
    if let Some(held) = &item.held {
        let (since, by) = (when(&held.since), shown(&held.by));
        let waits = if item.waits {
            "; a change is waiting"
        } else {
            ""
        };
        text += &format!("held since {} by {by}{waits}\n", shown(&since));
    }
    text
}

async fn remove(item: &Named) -> Result<(), CliError> {
    let client = item.admin.client()?;
    let removed: RemovedData = client.change(Method::DELETE, &item.path(), None).await?;
    print(&format!(
        "item {} of {} removed\n",
        shown(&item.key),
        shown(&item.stream)
    ))?;
    if !removed.removed {
        note("the removal is stored; the data pool has not applied it yet");
    }
    Ok(())
}
