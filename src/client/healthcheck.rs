//! `headgate healthcheck`: whether the daemon accepts requests, as an exit code.
//!
//! For containers and service managers, which run it periodically.
//!
//! **Invariant**: exit code 0 means that the service confirmed it in time; any other result is 1 with a reason.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde::de::IgnoredAny;

use super::client::{Client, Envelope};
use super::configuration::{ConfigArgs, load};
use super::error::CliError;
use super::output::print;
use crate::Running;

/// Maximum time for a response.
const PATIENCE: Duration = Duration::from_secs(3);

/// Arguments of `headgate healthcheck`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate healthcheck
  headgate healthcheck --url unix:/run/headgate.sock
  HEALTHCHECK CMD [\"headgate\", \"healthcheck\", \"--url\", \"http://127.0.0.1:8080\"]   (in a Dockerfile)

Exit codes: 0 if the daemon accepts requests, 1 if it does not or does not respond within 3 seconds.")]
pub struct HealthcheckArgs {
    /// Where the service listens: http://host:port or unix:/path; default: as configured
    #[arg(long, env = "HEADGATE_URL")]
    url: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs the verb.
///
/// # Errors
/// Exit code 1 for all errors: some container engines accept no other.
pub fn run(args: HealthcheckArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: HealthcheckArgs) -> Result<(), CliError> {
    let checked = check(&args).await;
    checked.map_err(|error| CliError::failed(error.message))?;
    print("ready\n")
}

async fn check(args: &HealthcheckArgs) -> Result<(), CliError> {
    let url = match &args.url {
        Some(url) => url.clone(),
        None => {
            let server = load(&args.config)?.settings.server;
            let url = server.listen.local_url().ok_or_else(|| {
                CliError::failed("the configuration lets the system choose the port: set --url")
            })?;
            match &server.tls {
                Some(_) => url.replacen("http://", "https://", 1),
                None => url,
            }
        }
    };
    // The certificate has the public name, not the address of this machine; and no secret is sent.
    let client = match args.url {
        Some(_) => Client::without_secret(&url)?,
        None => Client::of_own_daemon(&url)?,
    };
    let asked = client.call(Method::GET, "/readyz", HeaderMap::new(), Bytes::new());
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(answer) => {
            let ready: Result<Envelope<IgnoredAny>, _> = client.envelope(&answer?);
            ready.map(drop).map_err(CliError::from)
        }
        Err(_) => Err(CliError::failed(format!(
            "no answer from {} within {} seconds",
            client.address(),
            PATIENCE.as_secs()
        ))),
    }
}
