//! `headgate screen new`: writes a page to start from.
//!
//! **Invariant**: a file that is there stays as it is unless `--force` says otherwise.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::cli::error::CliError;
use crate::cli::output::{note, print, shown};
use base::text::percent_encoded;
use client::configuration::{self, ConfigArgs};
use http::user_pages::FOLDER as OWN_PAGES;

/// What the word `NAME` stands for in a template.
const NAME: &str = "NAME";

/// Arguments of `headgate screen new`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate screen new lobby --template scoreboard --stream scores
  headgate screen new news --template ticker --to ./pages

The page is one file of about 60 lines, for you to edit. The daemon serves all files in the directory `pages` of the
data directory. Standard output has the URL of the page; append a read key after the #.")]
pub(super) struct NewArgs {
    /// Its name: letters, digits, `_` or `-`
    #[arg(value_parser = name)]
    name: String,
    /// Template to start from
    #[arg(long, value_enum, default_value = "table")]
    template: Template,
    /// Stream in the URL of the page
    #[arg(long, default_value = "STREAM")]
    stream: String,
    /// Output directory. Default: `pages` in the data directory
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Overwrite an existing page
    #[arg(long)]
    force: bool,
    /// Data directory of the daemon; default: as configured
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// URL of the service for screens: http://host:port
    #[arg(long, env = "HEADGATE_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
}

/// What a page begins as.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Template {
    /// A line for each item
    Table,
    /// One match over the whole picture
    Scoreboard,
    /// A line that runs along the lower edge
    Ticker,
}

impl Template {
    fn text(self) -> &'static str {
        match self {
            Self::Table => include_str!("templates/table.html"),
            Self::Scoreboard => include_str!("templates/scoreboard.html"),
            Self::Ticker => include_str!("templates/ticker.html"),
        }
    }
}

fn name(text: &str) -> Result<String, &'static str> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    match !text.is_empty() && text.len() <= 64 && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("a name has 1 to 64 letters, digits, `_` or `-`"),
    }
}

pub(super) fn run(args: &NewArgs) -> Result<(), CliError> {
    let folder = match &args.to {
        Some(folder) => folder.clone(),
        None => served(&data_dir(args)?)?,
    };
    std::fs::create_dir_all(&folder).map_err(|error| cannot(&folder, &error))?;
    let file = format!("{}.html", args.name);
    let path = folder.join(&file);
    let text = args.template.text().replace(NAME, &args.name);
    write(&path, &text, args.force)?;
    let shown_path = path.display().to_string();
    note(&format!("written: {}", shown(&shown_path)));
    if args.to.is_some() {
        note("to serve it, put it into the directory `pages` of the data directory");
    }
    let url = super::base(&args.url)?;
    let stream = percent_encoded(&args.stream);
    print(&format!(
        "{url}/{OWN_PAGES}/{file}?stream={stream}#READ_KEY\n"
    ))
}

/// The daemon's data folder: as told, or as configured.
fn data_dir(args: &NewArgs) -> Result<PathBuf, CliError> {
    match &args.data_dir {
        Some(folder) => Ok(folder.clone()),
        None => Ok(configuration::own_daemon(&args.config)?.data_dir),
    }
}

/// The folder that the daemon serves.
fn served(data_dir: &Path) -> Result<PathBuf, CliError> {
    if data_dir.is_dir() {
        return Ok(data_dir.join(OWN_PAGES));
    }
    Err(CliError::wrong_use(format!(
        "there is no data directory {}; name the daemon's with --data-dir, or another directory with --to",
        shown(&data_dir.display().to_string())
    )))
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), CliError> {
    let mut options = OpenOptions::new();
    match force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let file = options.write(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => CliError::failed(format!(
            "{} already exists; choose another name, or overwrite it with --force",
            shown(&path.display().to_string())
        )),
        _ => cannot(path, &error),
    })
}

fn cannot(path: &Path, error: &std::io::Error) -> CliError {
    let path = path.display().to_string();
    CliError::failed(format!("cannot write {}: {error}", shown(&path)))
}
