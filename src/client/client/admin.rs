//! How verbs of operators find the admin listener: by the daemon's configuration or by options.
//!
//! **Invariant**: without options, a verb calls the listener of the configuration with its token, and never another
//! daemon at the default port.

use std::fmt;
use std::path::{Path, PathBuf};

use reqwest::Url;

use super::{Client, is_this_machine};
use crate::configuration::{self, ConfigArgs};
use crate::error::CliError;
use settings::Admin;

/// How a verb reaches the admin API. Flatten it into the verb's own arguments.
#[derive(Default, clap::Args)]
pub struct AdminArgs {
    /// Where the admin API listens: http://host:port or unix:/path; default: as configured
    #[arg(long, value_name = "URL", env = "HEADGATE_ADMIN_URL")]
    pub admin_url: Option<String>,
    /// Admin token; prefer the environment variable. Default: as configured, or the contents of <DATA_DIR>/admin.token
    #[arg(long, env = "HEADGATE_ADMIN_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Data directory of the daemon; contains admin.token; default: as configured
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Omits the token.
impl fmt::Debug for AdminArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminArgs")
            .field("admin_url", &self.admin_url)
            .field("data_dir", &self.data_dir)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl AdminArgs {
    /// The URL of the admin API: from the option, or from the configuration.
    ///
    /// # Errors
    /// The configuration is invalid, or has no URL.
    pub fn url(&self) -> Result<String, CliError> {
        match &self.admin_url {
            Some(url) => Ok(url.clone()),
            None => url_of(&configuration::own_daemon(&self.config)?.admin),
        }
    }

    /// A client with the admin token from the option or from its file.
    ///
    /// # Errors
    /// There is no token, or the configuration with its path is invalid.
    pub fn client(&self) -> Result<Client, CliError> {
        let url = self.url()?;
        let token = self.token()?;
        match self.admin_url {
            // Its certificate has the public name, not the address of this machine.
            None if Url::parse(&url).is_ok_and(|url| is_this_machine(&url)) => {
                Client::of_own_daemon(&url)?.with(&token)
            }
            _ => Client::new(&url, &token),
        }
    }

    fn token(&self) -> Result<String, CliError> {
        if let Some(token) = self.token.as_deref().filter(|token| !token.is_empty()) {
            return Ok(token.to_owned());
        }
        if let Some(folder) = &self.data_dir {
            return read(&folder.join("admin.token"));
        }
        let admin = configuration::own_daemon(&self.config)?.admin;
        match &admin.token {
            Some(token) => Ok(token.reveal().to_owned()),
            None => read(&admin.token_file),
        }
    }
}

fn url_of(admin: &Admin) -> Result<String, CliError> {
    let url = admin.listen.local_url().ok_or_else(|| {
        CliError::wrong_use("the configuration leaves the port to the system: give --admin-url")
    })?;
    Ok(match &admin.tls {
        Some(_) => url.replacen("http://", "https://", 1),
        None => url,
    })
}

fn read(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(|error| {
        CliError::wrong_use(format!(
            "no admin token: {}: {error}; give --config, --data-dir, --token or HEADGATE_ADMIN_TOKEN",
            path.display()
        ))
    })
}
