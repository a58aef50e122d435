//! `headgate completions`: the script that lets a shell complete verbs and options.
//!
//! Called by the command line with its own description.
//!
//! **Invariant**: reads nothing and contacts nobody.

use clap_complete::Shell;

use super::error::CliError;
use super::output::print;

/// Arguments of `headgate completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate completions bash > /etc/bash_completion.d/headgate
  headgate completions zsh > ~/.zfunc/_headgate
  headgate completions fish > ~/.config/fish/completions/headgate.fish")]
pub struct CompletionsArgs {
    /// The shell to write for
    pub shell: Shell,
}

/// Prints the script for the command line that `command` describes.
pub async fn run(args: CompletionsArgs, mut command: clap::Command) -> Result<(), CliError> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))
}
