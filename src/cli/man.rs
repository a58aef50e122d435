//! `headgate man`: manual pages, one for each verb.
//!
//! Called by the command line with its own description.
//!
//! **Invariant**: writes nothing but pages, and contacts nobody.

use std::path::PathBuf;

use super::error::CliError;
use super::output::print;

/// Arguments of `headgate man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate man ~/.local/share/man/man1
  headgate man /usr/local/share/man/man1 && man headgate-backup")]
pub struct ManArgs {
    /// Directory for the pages; created if missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Writes the pages of the command line that `command` describes.
pub fn run(args: &ManArgs, command: clap::Command) -> Result<(), CliError> {
    let command = command.disable_help_subcommand(true);
    std::fs::create_dir_all(&args.dir)
        .and_then(|()| clap_mangen::generate_to(command, &args.dir))
        .map_err(|error| {
            CliError::failed(format!(
                "cannot write manual pages to {}: {error}",
                args.dir.display()
            ))
        })?;
    print(&format!("manual pages are in {}\n", args.dir.display()))
}
