//! `headgate session`: the sessions of the admin pages of a running daemon.
//!
//! Called by the command line; calls the admin API.
//!
//! **Invariant**: the ID of a session grants no access.

use reqwest::Method;

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{plain, print, shown, when};
use super::resource::{Column, ListArgs, Resource};
use crate::Running;
use base::text::percent_encoded;
use wire::SessionData;

/// Arguments of `headgate session`.
#[derive(Debug, clap::Args)]
pub struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SessionCommand {
    /// List the sessions
    #[command(after_help = "\
Example:
  headgate session list --output json")]
    List(ListArgs),
    /// End a session; its user must sign in again
    #[command(after_help = "\
Example:
  headgate session end 0192f0c1-7b3e-7c55-9a51-0c8f2f6d3a10")]
    End(EndArgs),
}

/// Arguments of `headgate session end`.
#[derive(Debug, clap::Args)]
struct EndArgs {
    /// Its id
    id: String,
    #[command(flatten)]
    admin: AdminArgs,
}

const COLUMNS: &[Column<SessionData>] = &[
    Column::new("ID", |one| plain(&one.id)),
    Column::new("TOKEN", |one| plain(&one.token)),
    Column::new("ROLE", |one| plain(&one.role)),
    Column::new("FROM", |one| plain(&one.client)),
    Column::new("SINCE", |one| when(&one.since)),
    Column::new("LAST SEEN", |one| when(&one.last_seen)),
    Column::new("ENDS", |one| when(&one.ends_at)),
];

fn sessions(admin: &AdminArgs) -> Result<Resource, CliError> {
    Resource::new(admin, "session", "/api/admin/sessions")
}

/// Runs the verb.
///
/// # Errors
/// The daemon does not answer, or there is no such session.
pub fn run(args: SessionArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: SessionArgs) -> Result<(), CliError> {
    match args.command {
        SessionCommand::List(args) => {
            let none = "no sessions";
            sessions(&args.admin)?
                .list(args.output, none, COLUMNS)
                .await
        }
        SessionCommand::End(args) => {
            let below = format!("/{}", percent_encoded(&args.id));
            let sessions = sessions(&args.admin)?;
            let ended: SessionData = sessions.call(Method::DELETE, &below, None).await?;
            print(&format!(
                "session {} of {} ended\n",
                shown(&ended.id),
                shown(&ended.token)
            ))
        }
    }
}
