//! `headgate check`: everything that is wrong with the configuration and the plugins, at once.
//!
//! **Invariant**: starts nothing and writes nothing.

use std::sync::Arc;

use super::error::{CliError, WRONG_USE};
use super::output::print;
use super::{ConfigArgs, load, program};
use crate::config::Sink;
use crate::metrics::Metrics;
use crate::plugin::{PluginError, Plugins, Seat};

/// What `headgate check` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  HEADGATE_PROFILE=production headgate check --config /etc/headgate.toml")]
pub struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs the verb.
///
/// # Errors
/// Exit code 2 with every problem listed.
pub fn run(args: &CheckArgs) -> Result<(), CliError> {
    let loaded = load(&args.config)?;
    let settings = &loaded.settings;
    let plugins = Plugins::new(None, Some(&program()?), (&settings.plugins).into())
        .map_err(|error| CliError::failed(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("cannot start the runtime: {error}")))?;
    let problems: Vec<String> = settings
        .sinks
        .iter()
        .filter_map(|sink| {
            let error = runtime.block_on(try_out(&plugins, sink)).err()?;
            Some(format!("sink {}: {error}", sink.name))
        })
        .collect();
    if !problems.is_empty() {
        return Err(CliError {
            code: WRONG_USE,
            message: problems.join("\n"),
        });
    }
    for warning in &loaded.warnings {
        print(&format!("warning: {warning}\n"))?;
    }
    print(&format!(
        "the configuration is good: profile {}, {} streams, {} connectors, {} sinks\n",
        loaded.profile,
        settings.streams.len(),
        settings.connectors.len(),
        settings.sinks.len()
    ))
}

/// Loads the plugin, starts it, and gives it its settings.
async fn try_out(plugins: &Plugins, sink: &Sink) -> Result<(), PluginError> {
    let seat = Seat::new(sink, None, &Arc::new(Metrics::new()));
    let plugin = plugins.load(sink)?;
    plugin.start(&seat).await.map(drop)
}
