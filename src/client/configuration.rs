//! The configuration that a verb reads: that of this process, with the file that `--config` names.
//!
//! **Invariant**: all problems are named at once, and the exit code says that the configuration is wrong.

use std::path::PathBuf;

use crate::error::CliError;
use settings::{Loaded, OwnDaemon, Problems, SettingOption, Sources};

/// The file that `--config` names.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ConfigArgs {
    /// A configuration file over the built-in defaults and the files in ./config
    #[arg(long, value_name = "FILE", env = "HEADGATE_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Loads the configuration of this process.
///
/// # Errors
/// Everything that is wrong with it, for exit code 2.
pub fn load(args: &ConfigArgs) -> Result<Loaded, CliError> {
    load_with(args, Vec::new())
}

/// The same, with settings that options of the verb give.
///
/// # Errors
/// See [`load`].
pub fn load_with(args: &ConfigArgs, options: Vec<SettingOption>) -> Result<Loaded, CliError> {
    let mut sources = sources(args)?;
    sources.options = options;
    settings::load(&sources).map_err(unusable)
}

/// Takes the presets of the configuration, whatever else stands there.
///
/// # Errors
/// What is wrong with them, for exit code 2.
pub fn use_presets(args: &ConfigArgs) -> Result<(), CliError> {
    settings::use_presets(&sources(args)?).map_err(unusable)
}

/// How the daemon of the configuration is reached, whatever else stands there.
///
/// # Errors
/// What is wrong with these settings, for exit code 2.
pub fn own_daemon(args: &ConfigArgs) -> Result<OwnDaemon, CliError> {
    settings::own_daemon(&sources(args)?).map_err(unusable)
}

fn sources(args: &ConfigArgs) -> Result<Sources, CliError> {
    Sources::of_process(args.config.clone())
        .map_err(|error| CliError::failed(format!("cannot find the working directory: {error}")))
}

/// All that is wrong with a configuration, as the error of a verb.
pub fn unusable(problems: Problems) -> CliError {
    let count = problems.0.len();
    let noun = if count == 1 { "problem" } else { "problems" };
    CliError::wrong_use(format!("{count} {noun} in the configuration\n{problems}"))
}
