//! `headgate problems`: the problems of a running daemon, and their start.
//!
//! Called by the command line; calls the admin API.
//!
//! **Invariant**: it lists the problems that `headgate status` counts.

use super::error::CliError;
use super::output::{plain, when};
use super::resource::{Column, ListArgs, Resource};
use crate::Running;
use wire::ProblemItemData;

/// Arguments of `headgate problems`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate problems --output json")]
pub struct ProblemsArgs {
    #[command(flatten)]
    list: ListArgs,
}

const COLUMNS: &[Column<ProblemItemData>] = &[
    Column::new("KIND", |one| plain(&one.kind)),
    Column::new("SUBJECT", |one| plain(&one.subject)),
    Column::new("SEVERITY", |one| plain(&one.severity)),
    Column::new("SINCE", |one| when(&one.since)),
    Column::new("PROBLEM", |one| plain(&one.message)),
];

/// Runs the verb.
///
/// # Errors
/// The daemon does not answer.
pub fn run(args: ProblemsArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: ProblemsArgs) -> Result<(), CliError> {
    let list = args.list;
    let problems = Resource::new(&list.admin, "problem", "/api/admin/problems")?;
    problems.list(list.output, "no problems", COLUMNS).await
}
