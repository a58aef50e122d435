//! `headgate sink`: the sinks of a running daemon, their settings, retries and dead letters.
//!
//! Called by the command line; calls the admin API.
//!
//! **Invariant**: only named dead letters are discarded, and only after a confirmation or with `--yes`.

pub(super) mod columns;
mod made;
mod trial;

use std::io::IsTerminal as _;

use reqwest::Method;
use serde_json::{Value, json};

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{confirmed, note, print, print_list, shown};
use super::resource::{ListArgs, Resource, table};
use crate::Running;
use base::text::percent_encoded;
use columns::{LETTERS, RETRIES, SINKS};
use wire::{
    DeletedSinkData, DiscardedData, EndedRetriesData, RetriedData, SentAgainData, SinkData,
};

/// The daemon's configuration, where `--config` has the settings of the plugin.
const OWN_CONFIG: &str = "daemon-config";
const LIMIT_MAX: u64 = 100_000;

/// Arguments of `headgate sink`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate sink list --data-dir /var/lib/headgate")]
pub struct SinkArgs {
    #[command(subcommand)]
    command: SinkCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SinkCommand {
    /// List the sinks: state, lag, retries, dead letters
    #[command(after_help = "\
Examples:
  headgate sink list --data-dir /var/lib/headgate
  headgate sink list --output json")]
    List(ListArgs),
    /// Create a sink
    #[command(mut_arg("config", |arg| arg.long(OWN_CONFIG)))]
    Create(made::CreateArgs),
    /// Change a sink that was created at run time
    #[command(mut_arg("config", |arg| arg.long(OWN_CONFIG)))]
    Change(made::ChangeArgs),
    /// Show one sink, or print its section
    Show(made::ShowArgs),
    /// Delete a sink that was created at run time
    Delete(made::DeleteArgs),
    /// Pause a sink; accepted requests wait for it
    Pause(made::PauseArgs),
    /// Resume a paused sink at its cursor
    Resume(made::PauseArgs),
    /// Send a sink all items of the data pool again
    Refill(made::RefillArgs),
    /// Show what a sink would do with an item
    #[command(mut_arg("config", |arg| arg.long(OWN_CONFIG)))]
    Try(trial::TryArgs),
    /// List the dead letters of a sink, newest first
    #[command(after_help = "\
Examples:
  headgate sink dead-letters pool
  headgate sink dead-letters pool --limit 1000 --output json",
              mut_arg("limit", |arg| arg.help("Number of dead letters to show, newest first")),
              mut_arg("output", |arg| arg.help("Output format; only JSON has the fields")))]
    DeadLetters(SinkListArgs),
    /// Run waiting retries now and end a pause, or retry dead letters
    Retry(RetryArgs),
    /// Discard dead letters permanently
    Discard(DiscardArgs),
    /// List the batches that wait for a retry
    #[command(after_help = "\
Examples:
  headgate sink retries team
  headgate sink retries team --output json",
              mut_arg("limit", |arg| arg.help("Number of batches to show, longest wait first")))]
    Retries(SinkListArgs),
    /// Move waiting batches to the dead letters
    #[command(alias = "give-up")]
    EndRetries(EndRetriesArgs),
    /// Delete all data of a sink that is no longer in the configuration
    Forget(ForgetArgs),
}

/// What is told of a list of a sink.
#[derive(Debug, clap::Args)]
struct SinkListArgs {
    /// The sink
    name: String,
    /// How many to show
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=LIMIT_MAX))]
    limit: u64,
    #[command(flatten)]
    list: ListArgs,
}

/// Arguments of `headgate sink retry`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sink retry pool                    # run waiting retries now, and end a pause
  headgate sink retry pool --id 17,18         # retry these dead letters
  headgate sink retry pool --request 0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10
  headgate sink retry pool --all

A retried item goes to the sink as it was accepted, with new attempts. If a later request changed or removed
the item, it stays a dead letter, unless --overwrite is given.")]
struct RetryArgs {
    /// The sink
    name: String,
    #[command(flatten)]
    chosen: Chosen,
    /// Also retry dead letters whose item a later request changed or removed. A sink that writes the data pool receives
    /// them as new requests, without versions
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate sink discard`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sink discard pool --id 17
  headgate sink discard pool --request 0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10
  headgate sink discard pool --all --yes")]
struct DiscardArgs {
    /// The sink
    name: String,
    #[command(flatten)]
    chosen: Chosen,
    /// Do not ask for confirmation; required without a terminal
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate sink end-retries`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sink end-retries team 17
  headgate sink end-retries team --all

The items become dead letters, and the sink continues with the next batch. `headgate sink retries` lists the waiting
batches, `headgate sink retry` retries dead letters.")]
struct EndRetriesArgs {
    /// The sink
    name: String,
    /// The batch with this id
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all",
          value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    id: Option<u64>,
    /// All waiting batches
    #[arg(long)]
    all: bool,
    /// Do not ask for confirmation before moving all batches
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate sink forget`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate sink forget team --yes

Until then, the daemon keeps all data of a sink that was removed from the configuration: its backlog, retries, dead
letters and state.")]
struct ForgetArgs {
    /// The sink
    name: String,
    /// Do not ask for confirmation; required without a terminal
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Which dead letters.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[group(multiple = false)]
struct Chosen {
    /// Dead letters with these ids, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',',
          value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    id: Vec<u64>,
    /// Dead letters of this request
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// All dead letters of the sink
    #[arg(long)]
    all: bool,
}

impl Chosen {
    fn is_nothing(&self) -> bool {
        self.id.is_empty() && self.request.is_none() && !self.all
    }

    /// The body of a call that retries dead letters.
    fn body(&self) -> Option<Value> {
        match &self.request {
            Some(id) => Some(json!({"request_id": id})),
            None if self.all => None,
            None => Some(json!({"ids": self.id})),
        }
    }

    /// The query of a call that discards.
    fn query(&self) -> String {
        match &self.request {
            Some(id) => format!("request_id={}", percent_encoded(id)),
            None if self.all => "all=true".to_owned(),
            None => {
                let ids: Vec<_> = self.id.iter().map(|id| format!("id={id}")).collect();
                ids.join("&")
            }
        }
    }
}

/// Runs the verb.
pub fn run(args: SinkArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: SinkArgs) -> Result<(), CliError> {
    match args.command {
        SinkCommand::List(args) => list(&args).await,
        SinkCommand::Create(args) => made::create(&args).await,
        SinkCommand::Change(args) => made::change(&args).await,
        SinkCommand::Show(args) => made::show(&args).await,
        SinkCommand::Delete(args) => made::delete(&args).await,
        SinkCommand::Pause(args) => made::pause(&args, true).await,
        SinkCommand::Resume(args) => made::pause(&args, false).await,
        SinkCommand::Refill(args) => made::refill(&args).await,
        SinkCommand::Try(args) => trial::run(&args).await,
        SinkCommand::DeadLetters(args) => dead_letters(&args).await,
        SinkCommand::Retry(args) if args.chosen.is_nothing() => retry_now(&args).await,
        SinkCommand::Retry(args) => send_again(&args).await,
        SinkCommand::Discard(args) => discard(&args).await,
        SinkCommand::Retries(args) => retries(&args).await,
        SinkCommand::EndRetries(args) => end_retries(&args).await,
        SinkCommand::Forget(args) => forget(&args).await,
    }
}

async fn list(args: &ListArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let sinks = client.list("/api/admin/sinks", "", usize::MAX).await?;
    print_list(args.output, &sinks, "no sinks are configured", |sinks| {
        let (refused, why) = (refusals(sinks), reasons(sinks));
        format!("{}{refused}{why}", table(SINKS, sinks))
    })
}

/// The reasons of sinks that are not in the configuration or run elsewhere, and of failing ones.
fn reasons(sinks: &[SinkData]) -> String {
    let stated =
        |sink: &&SinkData| matches!(&*sink.state, "unconfigured" | "failing" | "elsewhere");
    let lines = sinks.iter().filter(stated).map(|sink| {
        let reason = sink.reason.as_deref().unwrap_or_default();
        format!("\n{}: {}\n", shown(&sink.name), shown(reason))
    });
    lines.collect()
}

/// The reasons why new settings or plugins of sinks are not in use.
fn refusals(sinks: &[SinkData]) -> String {
    let refused = sinks
        .iter()
        .filter_map(|sink| Some((sink, sink.refused.as_deref()?)));
    let lines = refused.map(|(sink, reason)| {
        format!(
            "\n{} runs with its previous settings or plugin because the new ones failed: {}\n",
            shown(&sink.name),
            shown(reason)
        )
    });
    lines.collect()
}

async fn dead_letters(args: &SinkListArgs) -> Result<(), CliError> {
    let letters = Resource::new(&args.list.admin, "dead letter", letters_of(&args.name))?;
    let (limit, none) = (args.limit as usize, "the sink has no dead letters");
    letters.first(limit, args.list.output, none, LETTERS).await
}

async fn retry_now(args: &RetryArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let path = format!("/api/admin/sinks/{}/retry", percent_encoded(&args.name));
    let RetriedData { retries } = client.change(Method::POST, &path, None).await?;
    let noun = if retries == 1 { "batch" } else { "batches" };
    print(&format!("retrying {retries} waiting {noun}\n"))?;
    if retries == 0 {
        note("to retry dead letters, use --id, --request or --all");
    }
    Ok(())
}

async fn send_again(args: &RetryArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let path = format!("{}/retry", letters_of(&args.name));
    let mut body = args.chosen.body();
    if args.overwrite {
        body.get_or_insert_with(|| json!({}))["overwrite"] = true.into();
    }
    let SentAgainData {
        sent_again: sent,
        skipped,
        items_left: left,
    } = client.change(Method::POST, &path, body.as_ref()).await?;
    print(&format!("{} retried\n", letters(sent)))?;
    if skipped > 0 {
        let message = format!(
            "{} cannot be retried because the payload is unreadable; to delete them, use `headgate sink discard`",
            letters(skipped)
        );
        if sent == 0 {
            return Err(CliError::failed(message));
        }
        note(&message);
    }
    if left > 0 {
        note(&format!(
            "{} not retried: a later request changed or removed their items; --overwrite retries them too",
            letters(left)
        ));
    }
    Ok(())
}

async fn discard(args: &DiscardArgs) -> Result<(), CliError> {
    if args.chosen.is_nothing() {
        return Err(CliError::wrong_use(
            "no dead letters selected; set --id N,…, --request ID or --all",
        ));
    }
    let client = args.admin.client()?;
    if !args.yes && !confirmed(&question(&args.chosen, &args.name), "discard")? {
        return Err(CliError::failed("nothing was discarded"));
    }
    let path = format!("{}?{}", letters_of(&args.name), args.chosen.query());
    let DiscardedData { discarded } = client.change(Method::DELETE, &path, None).await?;
    print(&format!("{} discarded\n", letters(discarded)))
}

async fn retries(args: &SinkListArgs) -> Result<(), CliError> {
    let path = format!("{}/retries", sink(&args.name));
    let retries = Resource::new(&args.list.admin, "batch", path)?;
    let (limit, none) = (args.limit as usize, "no waiting retries");
    retries.first(limit, args.list.output, none, RETRIES).await
}

async fn end_retries(args: &EndRetriesArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let name = shown(&args.name);
    // No data is lost: dead letters can be sent again.
    let asks = args.all && !args.yes && std::io::stdin().is_terminal();
    let question = format!("Move all waiting batches of the sink {name} to the dead letters?");
    if asks && !confirmed(&question, "end all retries")? {
        return Err(CliError::failed("no batch was moved"));
    }
    let (method, path) = match args.id {
        Some(id) => (Method::DELETE, format!("{}/retries/{id}", sink(&args.name))),
        None => (Method::POST, format!("{}/retries/end", sink(&args.name))),
    };
    let EndedRetriesData {
        ended,
        old_ended,
        dead_letters,
    } = client.change(method, &path, None).await?;
    // Daemons of version 0.1 answer only the old name.
    let ended = ended.max(old_ended);
    let noun = if ended == 1 { "batch" } else { "batches" };
    let dead = letters(dead_letters);
    print(&format!("{ended} waiting {noun} ended: {dead}\n"))
}

async fn forget(args: &ForgetArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let name = shown(&args.name);
    let question = format!(
        "Delete all data of the sink {name}: its cursor, retries and dead letters? This cannot be undone."
    );
    if !args.yes && !confirmed(&question, "forget")? {
        return Err(CliError::failed("nothing was deleted"));
    }
    let path = sink(&args.name);
    let forgotten = client.change(Method::DELETE, &path, None);
    let DeletedSinkData {
        retries,
        dead_letters,
        ..
    } = forgotten.await?;
    let noun = if retries == 1 { "batch" } else { "batches" };
    let dead = letters(dead_letters);
    print(&format!(
        "data of the sink {name} deleted, with {retries} waiting {noun} and {dead}\n"
    ))
}

fn sink(name: &str) -> String {
    format!("/api/admin/sinks/{}", percent_encoded(name))
}

fn question(chosen: &Chosen, name: &str) -> String {
    let what = match &chosen.request {
        Some(id) => format!("the dead letters of request {}", shown(id)),
        None if chosen.all => "all dead letters".to_owned(),
        None => letters(chosen.id.len() as u64),
    };
    format!(
        "Discard {what} of the sink {}? This cannot be undone.",
        shown(name)
    )
}

fn letters_of(name: &str) -> String {
    format!("/api/admin/sinks/{}/dead-letters", percent_encoded(name))
}

fn letters(count: u64) -> String {
    let noun = if count == 1 { "letter" } else { "letters" };
    format!("{count} dead {noun}")
}

#[cfg(test)]
mod tests;
