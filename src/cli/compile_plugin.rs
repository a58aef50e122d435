//! `headgate compile-plugin`: the process that compiles a component for a daemon. Nobody else calls it.
//!
//! **Invariant**: limits itself before it reads anything.

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser as _;

use super::error::{CliError, FAILED};
use plugin::{CompileLimits, CompilerError, NOT_USABLE, compile_standard_input};

/// What stands in place of a verb.
pub(super) const VERB: &str = "compile-plugin";

/// What it is told.
#[derive(Debug, clap::Parser)]
#[command(name = VERB, no_binary_name = true)]
struct CompilePluginArgs {
    /// The digest of the component, which is standard input
    #[arg(long)]
    sha256: String,
    #[arg(long)]
    file_max_bytes: u64,
    #[arg(long)]
    memory_max_bytes: u64,
    #[arg(long)]
    cpu_seconds: u64,
}

/// Compiles standard input to standard output.
///
/// # Errors
/// [`NOT_USABLE`] for what is no component, 1 for everything else.
pub(super) fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), CliError> {
    let args = CompilePluginArgs::parse_from(arguments);
    let limits = CompileLimits {
        file_bytes_max: args.file_max_bytes,
        memory_bytes_max: args.memory_max_bytes,
        cpu_seconds_max: args.cpu_seconds,
        // Kept by whoever waits.
        time_max: Duration::MAX,
    };
    compile_standard_input(&limits, &args.sha256).map_err(|error| CliError {
        code: match error {
            CompilerError::NotUsable(_) => NOT_USABLE,
            CompilerError::Io(_) => FAILED,
        },
        message: error.to_string(),
    })
}
