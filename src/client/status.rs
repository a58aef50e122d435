//! `headgate status`: problems, sinks and screens of a running daemon, and an exit code for the overall state.
//!
//! Called by the command line and by scripts; calls the admin API.
//!
//! **Invariant**: exit code 0 means that the daemon answered and has no problem.

use serde::Serialize;

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{ListOutput, Table, json_line, json_pretty, plain, print, shown, when};
use super::resource::{Column, table};
use super::sink::columns::SINKS;
use crate::Running;
use wire::{ActCountsData, HoldData, RendererData, StatusData};

/// Arguments of `headgate status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate status
  headgate status --output json | jq '.problems'

Exit codes: 0 if there is no problem, 1 if there is one or the daemon does not answer.")]
pub struct StatusArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// The JSON output: the status with the screens.
#[derive(Debug, Serialize)]
struct Glance {
    #[serde(flatten)]
    status: StatusData,
    screens: Vec<RendererData>,
}

const SCREENS: &[Column<RendererData>] = &[
    Column::new("SCREEN", |one| plain(&one.key)),
    Column::new("STREAMS", |one| one.streams.join(", ")),
    Column::new("FROM", |one| plain(&one.client)),
    Column::new("CONNECTED", |one| when(&one.connected_at)),
    Column::new("OPERATES", |one| yes(one.operate)),
    Column::new("HELD", |one| {
        let held = one.held.iter();
        let held = held.map(|(stream, held)| format!("{stream} {}", since(held)));
        held.collect::<Vec<_>>().join(", ")
    }),
    Column::new("CHANGES BEHIND", |one| plain(&one.lag)),
];

const ACTS: &[Column<ActCountsData>] = &[
    Column::new("STREAM", |one| plain(&one.stream)),
    Column::new("HELD", |one| {
        one.held.as_ref().map_or_else(String::new, since)
    }),
    Column::new("HELD KEYS", |one| some(one.held_keys)),
    Column::new("WAITING", |one| some(one.waiting)),
    Column::new("OVERRIDDEN ITEMS", |one| some(one.overridden)),
    Column::new("OVERRIDDEN FIELDS", |one| some(one.overridden_fields)),
];

fn yes(is_so: bool) -> String {
    let word = if is_so { "yes" } else { "" };
    word.to_owned()
}

/// Zero is shown as an empty cell.
fn some(count: u64) -> String {
    match count {
        0 => String::new(),
        count => count.to_string(),
    }
}

fn since(held: &HoldData) -> String {
    let until = held.until.as_ref();
    let until = until.map(|until| format!(", until {}", when(until)));
    format!(
        "since {} by {}{}",
        when(&held.since),
        held.by,
        until.unwrap_or_default()
    )
}

/// Runs the verb.
///
/// # Errors
/// There are problems, or the daemon does not answer.
pub fn run(args: StatusArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: StatusArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let glance = Glance {
        status: client.get("/api/admin/status").await?,
        screens: client.get("/api/admin/renderers").await?,
    };
    print(&match args.output {
        ListOutput::Json => json_pretty(&glance)?,
        ListOutput::Ndjson => json_line(&glance)?,
        ListOutput::Table => described(&glance),
    })?;
    match glance.status.problems.len() {
        0 => Ok(()),
        1 => Err(CliError::failed("1 problem")),
        count => Err(CliError::failed(format!("{count} problems"))),
    }
}

/// Text output: problems first.
fn described(glance: &Glance) -> String {
    let status = &glance.status;
    let mut text = match status.problems.is_empty() {
        true => "No problems.\n".to_owned(),
        false => {
            let mut problems = Table::new(&["KIND", "PROBLEM"]);
            // Older versions of the daemon send no kinds.
            let mut kinds = status.problem_details.iter().map(|one| &*one.kind);
            for problem in &status.problems {
                problems.row(&[kinds.next().unwrap_or_default(), problem]);
            }
            problems.to_string()
        }
    };
    text += &format!(
        "\nheadgate {}{}, {} requests accepted since {}\n",
        shown(&status.version),
        (status.node.as_ref()).map_or_else(String::new, |node| format!(", node {}", shown(node))),
        status.requests.accepted,
        shown(&when(&status.started_at))
    );
    text += &match status.sinks.is_empty() {
        true => "\nNo sinks.\n".to_owned(),
        false => format!("\n{}", table(SINKS, &status.sinks)),
    };
    if !status.acts.is_empty() {
        text += &format!("\nHeld and overridden:\n{}", table(ACTS, &status.acts));
    }
    text += &match glance.screens.is_empty() {
        true => "\nNo connected screens.\n".to_owned(),
        false => format!("\n{}", table(SCREENS, &glance.screens)),
    };
    text
}
