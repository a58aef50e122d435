//! `headgate screen list` and `reload`: the screens of a running daemon.
//!
//! Called by the command line; calls the admin API.
//!
//! **Invariant**: a reload reports the number of reloaded connections.

use reqwest::Method;

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{cut, plain, print, shown, when};
use super::resource::{Column, ListArgs, Resource};
use base::text::percent_encoded;
use wire::{ReloadedScreens, ScreenData};

/// Which screen.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate screen reload lobby-screen")]
pub struct ReloadArgs {
    /// Name of its read key
    name: String,
    #[command(flatten)]
    admin: AdminArgs,
}

const COLUMNS: &[Column<ScreenData>] = &[
    Column::new("SCREEN", |one| plain(&one.name)),
    Column::new("STATE", |one| match &one.node {
        Some(node) => format!("{} on node {}", plain(&one.state), plain(node)),
        None => plain(&one.state),
    }),
    Column::new("SINCE", |one| when(&one.since)),
    Column::new("CONNECTIONS", |one| plain(&one.connections)),
    Column::new("FROM", |one| plain(&one.client)),
    Column::new("SHOWS", |one| cut(plain(&one.shows))),
    Column::new("SIZE", |one| plain(&one.size)),
    Column::new("EXPECTED", |one| {
        if one.expect { "yes" } else { "" }.to_owned()
    }),
];

/// Lists the screens.
///
/// # Errors
/// The daemon does not answer.
pub async fn list(args: ListArgs) -> Result<(), CliError> {
    let none = "no screen has connected, and none is expected";
    let screens = Resource::new(&args.admin, "screen", "/api/admin/screens")?;
    screens.list(args.output, none, COLUMNS).await
}

/// Makes a screen reload its page.
///
/// # Errors
/// There is no such screen, or the daemon does not answer.
pub async fn reload(args: ReloadArgs) -> Result<(), CliError> {
    let screens = Resource::new(&args.admin, "screen", "/api/admin/screens")?;
    let below = format!("/{}/reload", percent_encoded(&args.name));
    let reloaded: ReloadedScreens = screens.call(Method::POST, &below, None).await?;
    // Daemons of version 0.1 answer only the old name.
    print(&match reloaded.notified.max(reloaded.old_notified) {
        0 => format!("{} has no connection that can reload\n", shown(&args.name)),
        1 => format!("{} reloads its page\n", shown(&args.name)),
        count => format!(
            "{} reloads its page on {count} connections\n",
            shown(&args.name)
        ),
    })
}
