//! `headgate sink`: how the sinks are, and what to do about what they did not take.
//!
//! Called by the command line; asks the admin API.
//!
//! **Invariant**: nothing is discarded that was not named, and nothing at all without a yes.

use std::io::IsTerminal as _;

use reqwest::Method;
use serde_json::{Value, json};

use super::client::{AdminArgs, Client};
use super::error::CliError;
use super::output::{confirmed, cut, note, plain, print, print_list, shown};
use super::resource::{Column, ListArgs, Resource, table};
use base::text::percent_encoded;

const LIMIT_MAX: u64 = 100_000;

/// What `headgate sink` is told.
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
    /// List the items that a sink gave up, newest first
    DeadLetters(DeadLettersArgs),
    /// Try waiting retries now and end a pause, or send dead letters again
    Retry(RetryArgs),
    /// Discard dead letters for good
    Discard(DiscardArgs),
    /// List the batches that wait for another attempt
    Retries(RetriesArgs),
    /// Give up batches that wait: their items become dead letters
    GiveUp(GiveUpArgs),
    /// Forget a sink that is not in the configuration any more, with all that is kept for it
    Forget(ForgetArgs),
}

/// What `headgate sink dead-letters` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sink dead-letters pool
  headgate sink dead-letters pool --limit 1000 --output json",
          mut_arg("output", |arg| arg.help("How to print them; only JSON has the fields")))]
struct DeadLettersArgs {
    /// The sink
    name: String,
    /// How many to show, the newest
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=LIMIT_MAX))]
    limit: u64,
    #[command(flatten)]
    list: ListArgs,
}

/// What `headgate sink retry` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sink retry pool                    # what waits is tried now, and a pause ends
  headgate sink retry pool --id 17,18         # these dead letters are sent again
  headgate sink retry pool --request 0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10
  headgate sink retry pool --all

What is sent again goes to the sink as it was accepted, with new attempts. An item that something accepted
later has changed or removed stays a dead letter, unless --overwrite is given.")]
struct RetryArgs {
    /// The sink
    name: String,
    #[command(flatten)]
    chosen: Chosen,
    /// Also what something accepted later has changed or removed; in the data pool that still wins
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate sink discard` is told.
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
    /// Do not ask; needed where there is no terminal to ask on
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate sink retries` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sink retries team
  headgate sink retries team --output json")]
struct RetriesArgs {
    /// The sink
    name: String,
    /// How many to show, those that have waited longest
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=LIMIT_MAX))]
    limit: u64,
    #[command(flatten)]
    list: ListArgs,
}

/// What `headgate sink give-up` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sink give-up team 17
  headgate sink give-up team --all

The items become dead letters, and the sink goes on with what waits behind them. `headgate sink retries` lists
what waits, `headgate sink retry` sends dead letters again.")]
struct GiveUpArgs {
    /// The sink
    name: String,
    /// The batch with this id
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all",
          value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    id: Option<u64>,
    /// All batches that wait
    #[arg(long)]
    all: bool,
    /// Do not ask before all are given up, which is asked on a terminal only
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate sink forget` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate sink forget team --yes

Of a sink that was taken out of the configuration everything is kept until then: what was accepted since, its
retries, dead letters and state.")]
struct ForgetArgs {
    /// The sink
    name: String,
    /// Do not ask; needed where there is no terminal to ask on
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Which dead letters.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[group(multiple = false)]
struct Chosen {
    /// Dead letters with these ids, with commas between them
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

    /// The body of a call that sends again.
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
pub async fn run(args: SinkArgs) -> Result<(), CliError> {
    match args.command {
        SinkCommand::List(args) => list(&args).await,
        SinkCommand::DeadLetters(args) => dead_letters(&args).await,
        SinkCommand::Retry(args) if args.chosen.is_nothing() => retry_now(&args).await,
        SinkCommand::Retry(args) => send_again(&args).await,
        SinkCommand::Discard(args) => discard(&args).await,
        SinkCommand::Retries(args) => retries(&args).await,
        SinkCommand::GiveUp(args) => give_up(&args).await,
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

/// What is kept for sinks that are not configured any more, and what failing ones do.
fn reasons(sinks: &[Value]) -> String {
    let stated = |sink: &&Value| sink["state"] == "unconfigured" || sink["state"] == "failing";
    let lines = sinks.iter().filter(stated).map(|sink| {
        let (name, reason) = (plain(&sink["name"]), plain(&sink["reason"]));
        format!("\n{}: {}\n", shown(&name), shown(&reason))
    });
    lines.collect()
}

/// What is new for sinks and not in use, with the reasons.
fn refusals(sinks: &[Value]) -> String {
    let refused = sinks.iter().filter(|sink| !sink["refused"].is_null());
    let lines = refused.map(|sink| {
        let (name, reason) = (plain(&sink["name"]), plain(&sink["refused"]));
        format!(
            "\n{} goes on as before; what is new for it cannot be used: {}\n",
            shown(&name),
            shown(&reason)
        )
    });
    lines.collect()
}

const SINKS: &[Column] = &[
    Column::field("NAME", "name"),
    Column::field("PLUGIN", "plugin"),
    Column::field("STATE", "state"),
    Column::field("LAG", "lag"),
    Column::field("RETRIES", "retries"),
    Column::field("DEAD LETTERS", "dead_letters"),
    Column::of("LAST ERROR", |sink| match &sink["last_error"] {
        Value::Null => String::new(),
        error => cut(format!(
            "{} {}",
            plain(&error["at"]),
            plain(&error["reason"])
        )),
    }),
];

const LETTERS: &[Column] = &[
    Column::field("ID", "id"),
    Column::field("TIME", "at"),
    Column::field("STREAM", "stream"),
    Column::beginning("KEY", "key"),
    Column::field("ATTEMPTS", "attempts"),
    Column::field("REQUEST", "request_id"),
    Column::beginning("REASON", "reason"),
];

const RETRIES: &[Column] = &[
    Column::field("ID", "id"),
    Column::field("DUE", "due_at"),
    Column::field("ITEMS", "items"),
    Column::field("ATTEMPTS", "attempts"),
    Column::field("FIRST REQUEST", "first_request_id"),
    Column::beginning("REASON", "reason"),
];

async fn dead_letters(args: &DeadLettersArgs) -> Result<(), CliError> {
    let letters = Resource::new(&args.list.admin, "dead letter", letters_of(&args.name))?;
    let (limit, none) = (args.limit as usize, "the sink has no dead letters");
    letters.list(limit, args.list.output, none, LETTERS).await
}

async fn retry_now(args: &RetryArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let path = format!("/api/admin/sinks/{}/retry", percent_encoded(&args.name));
    let retried = client.change(Method::POST, &path, None).await?.data;
    let retries = count(&client, &retried, "retries")?;
    let noun = if retries == 1 { "batch" } else { "batches" };
    print(&format!("{retries} waiting {noun} tried now\n"))?;
    if retries == 0 {
        note("dead letters are sent again with --id, --request or --all");
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
    let done = client
        .change(Method::POST, &path, body.as_ref())
        .await?
        .data;
    let sent = count(&client, &done, "sent_again")?;
    let skipped = count(&client, &done, "skipped")?;
    print(&format!("{} sent again\n", letters(sent)))?;
    if skipped > 0 {
        let message = format!(
            "{} cannot be sent again: the payload could not be read, only `headgate sink discard` is left",
            letters(skipped)
        );
        if sent == 0 {
            return Err(CliError::failed(message));
        }
        note(&message);
    }
    // A daemon of before does not say it.
    let left = done["items_left"].as_u64().unwrap_or(0);
    if left > 0 {
        note(&format!(
            "{} left: something accepted later has changed or removed what they are about; --overwrite sends them too",
            letters(left)
        ));
    }
    Ok(())
}

async fn discard(args: &DiscardArgs) -> Result<(), CliError> {
    if args.chosen.is_nothing() {
        return Err(CliError::wrong_use(
            "say which dead letters: --id N,…, --request ID or --all",
        ));
    }
    let client = args.admin.client()?;
    if !args.yes && !confirmed(&question(&args.chosen, &args.name), "discard")? {
        return Err(CliError::failed("nothing was discarded"));
    }
    let path = format!("{}?{}", letters_of(&args.name), args.chosen.query());
    let done = client.change(Method::DELETE, &path, None).await?.data;
    let discarded = count(&client, &done, "discarded")?;
    print(&format!("{} discarded\n", letters(discarded)))
}

async fn retries(args: &RetriesArgs) -> Result<(), CliError> {
    let path = format!("{}/retries", sink(&args.name));
    let retries = Resource::new(&args.list.admin, "batch", path)?;
    let (limit, none) = (args.limit as usize, "nothing waits for another attempt");
    retries.list(limit, args.list.output, none, RETRIES).await
}

async fn give_up(args: &GiveUpArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let name = shown(&args.name);
    // Nothing is lost by it: what is given up can be sent again.
    let asks = args.all && !args.yes && std::io::stdin().is_terminal();
    let question = format!("Give up all waiting batches of the sink {name}?");
    if asks && !confirmed(&question, "give up")? {
        return Err(CliError::failed("nothing was given up"));
    }
    let (method, path) = match args.id {
        Some(id) => (Method::DELETE, format!("{}/retries/{id}", sink(&args.name))),
        None => (
            Method::POST,
            format!("{}/retries/give-up", sink(&args.name)),
        ),
    };
    let done = client.change(method, &path, None).await?.data;
    let given_up = count(&client, &done, "given_up")?;
    let noun = if given_up == 1 { "batch" } else { "batches" };
    let dead = letters(count(&client, &done, "dead_letters")?);
    print(&format!("{given_up} waiting {noun} given up: {dead}\n"))
}

async fn forget(args: &ForgetArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let name = shown(&args.name);
    let question = format!("Forget the sink {name}, with all that is kept for it, for good?");
    if !args.yes && !confirmed(&question, "forget")? {
        return Err(CliError::failed("nothing was forgotten"));
    }
    let done = client
        .change(Method::DELETE, &sink(&args.name), None)
        .await?
        .data;
    let retries = count(&client, &done, "retries")?;
    let noun = if retries == 1 { "batch" } else { "batches" };
    let dead = letters(count(&client, &done, "dead_letters")?);
    print(&format!(
        "the sink {name} is forgotten, with {retries} waiting {noun} and {dead}\n"
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
    format!("Discard {what} of the sink {} for good?", shown(name))
}

fn letters_of(name: &str) -> String {
    format!("/api/admin/sinks/{}/dead-letters", percent_encoded(name))
}

fn letters(count: u64) -> String {
    let noun = if count == 1 { "letter" } else { "letters" };
    format!("{count} dead {noun}")
}

fn count(client: &Client, data: &Value, name: &str) -> Result<u64, CliError> {
    let count = data[name].as_u64();
    count.ok_or_else(|| client.foreign(format!("it does not say {name}")).into())
}

#[cfg(test)]
mod tests;
