//! `headgate screen url`: the address of a page with its read key, as text and as a QR code.
//!
//! **Invariant**: the address goes to standard output alone on its line; where that is no terminal, nothing else does.

use std::io::{IsTerminal as _, stdout};

use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

use super::shown::{ShownArgs, shown_as};
use crate::cli::error::CliError;
use crate::cli::output::{note, print};
use base::text::percent_encoded;
use http::user_pages::FOLDER as OWN_PAGES;

/// Arguments of `headgate screen url`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate screen url scores --template scoreboard --option key=m1 --key lobby-screen
  HEADGATE_READ_KEY=rk_live_… headgate screen url orders --url http://10.0.0.5:8080
  headgate screen url scores --page lobby --key lobby-screen

The key follows the #, which browsers do not send. On a terminal, a QR code of the URL follows.")]
pub(super) struct UrlArgs {
    #[command(flatten)]
    shown: ShownArgs,
    /// A page of your own, NAME.html in the folder `pages` of the data folder, instead of /render
    #[arg(long, value_name = "NAME", conflicts_with = "template")]
    page: Option<String>,
    /// Print a QR code even if standard output is not a terminal
    #[arg(long)]
    qr: bool,
}

pub(super) async fn run(args: UrlArgs) -> Result<(), CliError> {
    let stream = percent_encoded(&args.shown.stream);
    let shown = shown_as(&args.shown, &[]).await?;
    let (path, mut options) = match &args.page {
        None => (format!("render/{stream}"), Vec::new()),
        Some(page) => (
            format!("{OWN_PAGES}/{}.html", percent_encoded(page)),
            vec![format!("stream={stream}")],
        ),
    };
    options.extend((!shown.query.is_empty()).then_some(shown.query));
    let query = match options.is_empty() {
        true => String::new(),
        false => format!("?{}", options.join("&")),
    };
    let url = format!("{}/{path}{query}#{}", shown.url, shown.key);
    print(&format!("{url}\n"))?;
    if args.qr || stdout().is_terminal() {
        match code(&url) {
            Some(code) => print(&format!("\n{code}\n"))?,
            None => note("the URL is too long for a QR code"),
        }
    }
    Ok(())
}

/// A QR code of half blocks, light on dark as terminals mostly are, with the margin that readers need.
fn code(text: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let image = code
        .render::<Dense1x2>()
        .dark_color(Dense1x2::Light)
        .light_color(Dense1x2::Dark)
        .build();
    Some(image)
}
