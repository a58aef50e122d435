//! `headgate plugin list`: the plugins of a running daemon.
//!
//! **Invariant**: one that cannot be used is listed with the reason.

use super::error::CliError;
use super::output::{cut, plain};
use super::resource::{Column, ListArgs, Resource};
use wire::PluginData;

const COLUMNS: &[Column<PluginData>] = &[
    Column::new("NAME", |one| plain(&one.name)),
    Column::new("KIND", |one| plain(&one.kind)),
    Column::new("VERSION", |one| plain(&one.version)),
    Column::new("BYTES", |one| plain(&one.bytes)),
    Column::new("ASKS FOR", |one| plain(&one.asks_for.join(", "))),
    Column::new("USED BY", |one| cut(plain(&one.used_by.join(", ")))),
    Column::new("SHA256", |one| plain(&one.sha256)),
    Column::new("ERROR", |one| cut(plain(&one.error))),
];

/// Arguments of `headgate plugin list`.
#[derive(Debug, clap::Args)]
pub struct PluginListArgs {
    #[command(flatten)]
    list: ListArgs,
}

/// Runs the verb.
///
/// # Errors
/// The daemon cannot be asked.
pub async fn list(args: &PluginListArgs) -> Result<(), CliError> {
    let plugins = Resource::new(&args.list.admin, "plugin", "/api/admin/plugins")?;
    let none = "no plugins";
    plugins.list(args.list.output, none, COLUMNS).await
}
