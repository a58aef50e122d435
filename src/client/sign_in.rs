//! `headgate sign-in`: a link that signs in to the admin pages of a running daemon.
//!
//! `serve` and `demo` print such a link with the same text.
//!
//! **Invariant**: the secret is in the fragment, so that no server and no log of a proxy receives it.

use reqwest::Method;

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{print, shown};
use crate::Running;
use wire::SignInLinkData;

/// Arguments of `headgate sign-in`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sign-in
  headgate sign-in --admin-url http://127.0.0.1:8081 --data-dir /var/lib/headgate
  headgate sign-in --admin-url https://headgate.example.com    # through a proxy, as the browser goes

The link works once, for 10 minutes, and replaces the previous link. Open it in a browser that can reach the URL.")]
pub struct SignInArgs {
    #[command(flatten)]
    admin: AdminArgs,
}

/// Runs the verb.
///
/// # Errors
/// The address cannot be opened in a browser, or the daemon returns no link.
pub fn run(args: SignInArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: SignInArgs) -> Result<(), CliError> {
    let url = args.admin.url()?;
    let url = url.trim_end_matches('/');
    if url.starts_with("unix:") {
        return Err(CliError::wrong_use(
            "browsers cannot open a Unix socket: set --admin-url to the URL of the proxy in front of it, such as https://headgate.example.com",
        ));
    }
    let client = args.admin.client()?;
    let asked = client.change(Method::POST, "/api/admin/sign-in-links", None);
    let link: SignInLinkData = asked.await?;
    print(&sentence(url, &shown(&link.path)))
}

/// The text with a link.
pub fn sentence(url: &str, path: &str) -> String {
    format!("one-time link, valid for 10 minutes: {url}{path}\n")
}
