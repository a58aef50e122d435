//! `headgate screen save`: a page in one file, which a player starts from its own disk.
//!
//! **Invariant**: the file holds the read key, and says so on standard error, where no player reads it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;

use super::shown::{ShownArgs, shown_as};
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::output::{note, print};
use http::offline_page;
use http::user_pages::font as own_font;

/// Arguments of `headgate screen save`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate screen save scores --template scoreboard --url http://10.0.0.5:8080 --key lobby-screen > lobby.html

Standard output has one file with everything that the page needs: the client, the templates, the font, the options and
the read key. It starts without the daemon, shows the last known state, and keeps reconnecting.
A page in a file has the origin null: keys created with --key allow it, other keys need origins = [\"null\"].")]
pub(super) struct SaveArgs {
    #[command(flatten)]
    shown: ShownArgs,
}

pub(super) async fn run(args: SaveArgs) -> Result<(), CliError> {
    // Before a key is made for a file that there will not be.
    let fonts = fonts(&args.shown).await?;
    let shown = shown_as(&args.shown, &["null"]).await?;
    let page = offline_page::page(&offline_page::OfflinePage {
        url: &shown.url,
        stream: &args.shown.stream,
        key: &shown.key,
        query: &shown.query,
        fonts: &fonts,
    });
    note(
        "the file contains the read key: anyone with the file can read the stream until the key is revoked",
    );
    print(&page)
}

/// The files that `--option font=…` names, fetched from the service.
async fn fonts(shown: &ShownArgs) -> Result<Vec<String>, CliError> {
    let names = shown.given("font").unwrap_or_default().split(',');
    let mut fonts = Vec::new();
    for name in names.map(str::trim).filter(|name| !name.is_empty()) {
        let (path, content_type) = own_font(name).ok_or_else(|| {
            CliError::wrong_use(format!(
                "font must name files in the directory pages of the data directory that end with woff2, woff, ttf or otf; found {name:?}"
            ))
        })?;
        let url = shown.base()?;
        let client = Client::without_secret(&url)?;
        let answer = client.call(Method::GET, &path, HeaderMap::new(), Bytes::new());
        let answer = answer.await?;
        if answer.status != 200 {
            return Err(CliError::failed(format!(
                "{url}{path} is answered with {}: put the font into the directory pages of the data directory, or omit font=",
                answer.status
            )));
        }
        let encoded = BASE64_STANDARD.encode(&answer.body);
        fonts.push(format!("data:{content_type};base64,{encoded}"));
    }
    Ok(fonts)
}
