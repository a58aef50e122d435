//! `headgate trigger`: sends a delivery, as a provider would, to a connector of a running daemon.
//!
//! Called by the command line; calls the admin API, which signs the delivery.
//!
//! **Invariant**: it handles no secret.

use reqwest::Method;
use serde_json::Value;

use super::client::AdminArgs;
use super::connector::tool;
use super::error::CliError;
use super::output::{note, print, shown};
use super::resource::{Resource, given};
use crate::Running;
use base::text::percent_encoded;
use wire::TriggeredData;

/// Arguments of `headgate trigger`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate trigger shopify orders/create --connector shop
  headgate trigger github --connector repo    # its most common event

Standard output has the ID of the request; `headgate requests show` prints its status.")]
pub struct TriggerArgs {
    /// The provider, one of `headgate preset list`
    preset: String,
    /// The event, as the provider names it
    event: Option<String>,
    /// The connector that verifies the event
    #[arg(long)]
    connector: String,
    #[command(flatten)]
    admin: AdminArgs,
}

pub fn run(args: TriggerArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: TriggerArgs) -> Result<(), CliError> {
    let preset = tool::preset_of_daemon(&args.admin, &args.preset).await?;
    let body = given([
        ("preset", Some(preset.name.as_str().into())),
        ("event", args.event.map(Value::from)),
    ]);
    let connectors = Resource::new(&args.admin, "connector", "/api/admin/connectors")?;
    let below = format!("/{}/trigger", percent_encoded(&args.connector));
    let sent: TriggeredData = connectors.call(Method::POST, &below, Some(body)).await?;
    match &sent.request_id {
        Some(id) => print(&format!("{}\n", shown(id)))?,
        None => note("events of this type are not stored"),
    }
    note(&format!(
        "{} of {} was sent to {}",
        shown(&sent.event),
        preset.title,
        shown(&args.connector)
    ));
    Ok(())
}
