//! `headgate preset`: what is known of tools, and what the author of a preset needs.
//!
//! **Invariant**: no daemon is asked: a preset is a file, and only `new` writes one.

mod trial;

use super::error::CliError;
use client::preset::{FitArgs, ListArgs, NewArgs, ShowArgs, fit, list, new, show};

/// Arguments of `headgate preset`.
#[derive(Debug, clap::Args)]
pub struct PresetArgs {
    #[command(subcommand)]
    command: PresetCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PresetCommand {
    /// List the presets of tools, with their signatures and item keys
    List(ListArgs),
    /// Print a preset as a file, including the presets that it extends
    Show(ShowArgs),
    /// Sign the samples of presets, and test which are accepted, rejected and stored
    Test(trial::TestArgs),
    /// Write a preset to start from
    New(NewArgs),
    /// List the presets that match a delivery
    Guess(FitArgs),
}

/// Runs the verb.
///
/// # Errors
/// Exit code 1 for a preset that fails, 2 for a file that is none.
pub async fn run(args: PresetArgs) -> Result<(), CliError> {
    match args.command {
        PresetCommand::List(args) => list(&args),
        PresetCommand::Show(args) => show(&args),
        PresetCommand::Test(args) => trial::run(&args).await,
        PresetCommand::New(args) => new(&args),
        PresetCommand::Guess(args) => fit(&args),
    }
}
