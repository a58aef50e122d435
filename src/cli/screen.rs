//! `headgate screen`: pages for screens: one of your own to start from, the address of one, one in a file; and the screens
//! that there are.
//!
//! Called by the command line; makes a read key over the admin API if it is asked to.
//!
//! **Invariant**: a read key stands in what is printed on standard output, and in no message.

mod address;
mod new;
mod save;
mod shown;

use super::error::CliError;

/// Arguments of `headgate screen`.
#[derive(Debug, clap::Args)]
pub struct ScreenArgs {
    #[command(subcommand)]
    command: ScreenCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ScreenCommand {
    /// Write a page of your own to start from
    New(new::NewArgs),
    /// Print the URL of a page with its read key, and its QR code
    Url(address::UrlArgs),
    /// List the screens of a running daemon: what each shows, and since when it is connected or away
    #[command(after_help = "\
Example:
  headgate screen list --output json")]
    List(super::resource::ListArgs),
    /// Reload the page of a screen
    Reload(super::screens::ReloadArgs),
    /// Print a page as one file that starts from a player's disk, without the daemon
    Save(save::SaveArgs),
}

pub async fn run(args: ScreenArgs) -> Result<(), CliError> {
    match args.command {
        ScreenCommand::New(args) => new::run(&args),
        ScreenCommand::Url(args) => address::run(args).await,
        ScreenCommand::List(args) => super::screens::list(args).await,
        ScreenCommand::Reload(args) => super::screens::reload(args).await,
        ScreenCommand::Save(args) => save::run(args).await,
    }
}

/// Where the service is, as browsers write it: without a path.
fn base(url: &str) -> Result<String, CliError> {
    let parsed = reqwest::Url::parse(url).ok();
    let parsed = parsed.filter(|url| {
        let is_bare = url.query().is_none() && url.fragment().is_none() && url.path() == "/";
        let is_plain = url.username().is_empty() && url.password().is_none();
        matches!(url.scheme(), "http" | "https") && url.has_host() && is_bare && is_plain
    });
    let parsed = parsed.ok_or_else(|| {
        CliError::wrong_use("--url must be a URL that screens can reach: http://host:port or https://host, without a path")
    })?;
    Ok(parsed.as_str().trim_end_matches('/').to_owned())
}
