//! `headgate sign-in`: a link that signs in to the admin pages of a running daemon.
//!
//! `serve` and `demo` print one in the same words.
//!
//! **Invariant**: the secret comes after the `#`, so that no server and no log of a proxy sees it.

use reqwest::Method;

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{print, shown};
use wire::SignInLinkData;

/// What `headgate sign-in` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate sign-in
  headgate sign-in --admin-url http://127.0.0.1:8081 --data-dir /var/lib/headgate
  headgate sign-in --admin-url https://headgate.example.com    # through a proxy, as the browser goes

The link works once, within ten minutes, and ends the one before it. Open it in a browser that reaches the address.")]
pub struct SignInArgs {
    #[command(flatten)]
    admin: AdminArgs,
}

/// Runs the verb.
///
/// # Errors
/// No browser opens the address, or the daemon gives no link.
pub async fn run(args: SignInArgs) -> Result<(), CliError> {
    let url = args.admin.url()?;
    let url = url.trim_end_matches('/');
    if url.starts_with("unix:") {
        return Err(CliError::wrong_use(
            "no browser opens a Unix socket: set --admin-url to the address of the proxy in front of it, such as https://headgate.example.com",
        ));
    }
    let client = args.admin.client()?;
    let asked = client.change(Method::POST, "/api/admin/sign-in-links", None);
    let link: SignInLinkData = asked.await?;
    print(&sentence(url, &shown(&link.path)))
}

/// How a link is told.
pub fn sentence(url: &str, path: &str) -> String {
    format!("sign in within ten minutes, once: {url}{path}\n")
}
