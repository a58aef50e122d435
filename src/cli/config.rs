//! `headgate config show`: the values that count, each with its origin.
//!
//! **Invariant**: secrets are masked.

use super::error::CliError;
use super::output::{json_pretty, print};
use super::{ConfigArgs, load};
use settings::{explain, render_json, render_text};

/// Arguments of `headgate config`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate config show --config /etc/headgate.toml")]
pub struct ConfigVerbArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigCommand {
    /// Print every effective value with the file and line, or the variable, that it comes from
    Show(ShowArgs),
}

/// Arguments of `headgate config show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  HEADGATE_PROFILE=production headgate config show --config /etc/headgate.toml")]
pub struct ShowArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Runs the verb.
///
/// # Errors
/// Exit code 2 with every problem listed.
pub fn run(args: &ConfigVerbArgs) -> Result<(), CliError> {
    let ConfigCommand::Show(args) = &args.command;
    let rows = explain(&load(&args.config)?);
    match args.output {
        Output::Text => print(&render_text(&rows)),
        Output::Json => print(&json_pretty(&render_json(&rows))?),
    }
}
