//! `headgate screen save`: a page in one file, which a player starts from its own disk.
//!
//! **Invariant**: the file holds the read key, and says so on standard error, where no player reads it.

use super::shown::{ShownArgs, shown_as};
use crate::cli::error::CliError;
use crate::cli::output::{note, print};
use crate::http::saved;

/// What `headgate screen save` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate screen save scores --template scoreboard --url http://10.0.0.5:8080 --key lobby-screen > lobby.html

Standard output has one file with everything that the page needs: the client, the templates, the font, the options and
the read key. It starts without the daemon, shows the last state that it had, and connects for ever.
A page in a file has the origin null: a key that --key makes allows it, any other needs origins = [\"null\"].")]
pub(super) struct SaveArgs {
    #[command(flatten)]
    shown: ShownArgs,
}

/// Runs the verb.
pub(super) async fn run(args: SaveArgs) -> Result<(), CliError> {
    let shown = shown_as(&args.shown, &["null"]).await?;
    let page = saved::page(&saved::Saved {
        url: &shown.url,
        stream: &args.shown.stream,
        key: &shown.key,
        query: &shown.query,
    });
    note(
        "the file holds the read key: whoever has it can read the stream until the key is revoked",
    );
    print(&page)
}
