//! The configuration of a verb: that of this process with the file of `--config`, or that of a service.
//!
//! **Invariant**: all problems are listed together, and the exit code states that the configuration is invalid.

mod unit;

use std::path::PathBuf;

use crate::error::CliError;
use settings::{Loaded, OwnDaemon, Problems, SettingOption, Sources};

/// The unit of the Debian package and of the examples.
const UNIT: &str = "headgate.service";

/// Whose configuration a verb reads.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ConfigArgs {
    /// A configuration file over the built-in defaults and the files in ./config
    #[arg(long, value_name = "FILE", env = "HEADGATE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Read the configuration as a systemd unit gives it to its daemon: profile, variables, secrets and file. Without a
    /// name: headgate.service
    #[arg(
        long,
        value_name = "UNIT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = UNIT
    )]
    pub service: Option<String>,
}

impl ConfigArgs {
    /// The configuration of this process with a file.
    pub fn of_file(config: Option<PathBuf>) -> Self {
        Self {
            config,
            service: None,
        }
    }

    /// The origin of the profile, in a few words.
    pub fn profile_from(&self) -> String {
        let variable = std::env::var_os("HEADGATE_PROFILE").filter(|name| !name.is_empty());
        match (&self.service, variable) {
            (Some(unit), _) => format!("as the unit {unit} says"),
            (None, Some(_)) => "of HEADGATE_PROFILE".to_owned(),
            (None, None) if unit::is_installed(UNIT) => format!(
                "the default, as HEADGATE_PROFILE is not set here; --service checks what {UNIT} runs with"
            ),
            (None, None) => "the default, as HEADGATE_PROFILE is not set".to_owned(),
        }
    }
}

/// Loads the configuration of this process.
///
/// # Errors
/// All problems of the configuration, with exit code 2.
pub fn load(args: &ConfigArgs) -> Result<Loaded, CliError> {
    load_with(args, Vec::new())
}

/// As `load`, with settings from options of the verb.
///
/// # Errors
/// See [`load`].
pub fn load_with(args: &ConfigArgs, options: Vec<SettingOption>) -> Result<Loaded, CliError> {
    let mut sources = sources(args)?;
    sources.options = options;
    settings::load(&sources).map_err(|problems| explained(args, problems))
}

/// The readable part of an invalid configuration, for the files that it names.
pub fn tentative(args: &ConfigArgs, options: Vec<SettingOption>) -> Option<Loaded> {
    let mut sources = sources(args).ok()?;
    sources.options = options;
    settings::tentative(&sources)
}

/// Loads the presets of the configuration; other settings can be invalid.
///
/// # Errors
/// The problems of the presets, with exit code 2.
pub fn use_presets(args: &ConfigArgs) -> Result<(), CliError> {
    settings::use_presets(&sources(args)?).map_err(unusable)
}

/// The address and token of the configured daemon; other settings can be invalid.
///
/// # Errors
/// The problems of these settings, with exit code 2.
pub fn own_daemon(args: &ConfigArgs) -> Result<OwnDaemon, CliError> {
    settings::own_daemon(&sources(args)?).map_err(|problems| explained(args, problems))
}

fn sources(args: &ConfigArgs) -> Result<Sources, CliError> {
    let mut sources = Sources::of_process(args.config.clone())
        .map_err(|error| CliError::failed(format!("cannot find the working directory: {error}")))?;
    if let Some(named) = &args.service {
        let unit = unit::read(named)?;
        sources.env = unit.env;
        let of_variable = sources
            .env
            .iter()
            .rev()
            .find(|(name, _)| name == "HEADGATE_CONFIG");
        let of_variable = of_variable.map(|(_, path)| PathBuf::from(path));
        sources.config_file = unit.config.or(of_variable);
        sources.working_dir = unit.working_dir.unwrap_or_else(|| "/".into());
    }
    Ok(sources)
}

/// The problems, with a hint about files that exist only while the service runs.
fn explained(args: &ConfigArgs, problems: Problems) -> CliError {
    let mut error = unusable(problems);
    if args.service.is_some() && error.message.contains("/run/credentials/") {
        error.message.push_str(
            "\nthe files in /run/credentials are there while the service runs: start it, then check again",
        );
    }
    error
}

/// The problems of a configuration as the error of a verb.
pub fn unusable(problems: Problems) -> CliError {
    let count = problems.0.len();
    let noun = if count == 1 { "problem" } else { "problems" };
    CliError::wrong_use(format!("{count} {noun} in the configuration\n{problems}"))
}
