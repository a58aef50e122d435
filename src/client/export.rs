//! `headgate export`: all items of a stream as a table, to a file or to standard output.
//!
//! Called by the command line; calls the admin API, which streams the rows.
//!
//! **Invariant**: a file gets its name only when it is complete. An export that ends early is a failure, even if a part
//! of it was printed.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use reqwest::header::HeaderMap;

use super::client::AdminArgs;
use super::error::CliError;
use super::output::note;
use crate::Running;
use base::text::percent_encoded;

/// Arguments of `headgate export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate export orders > orders.csv
  headgate export orders --format ndjson --to orders.ndjson
  headgate export orders --fields id,Name:customer.name --where status:paid --safe

Rows are in the order of their keys. Changes during the export may be missing.")]
pub struct ExportArgs {
    /// Name of the stream
    stream: String,
    /// Output format
    #[arg(long, value_enum, default_value = "csv")]
    format: Format,
    /// Output file; an existing file is replaced. Default: standard output
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Columns in order, such as id,Name:customer.name; default: all fields
    #[arg(long, value_name = "LIST")]
    fields: Option<String>,
    /// Only items that match, such as status:paid,period:1|2
    #[arg(long = "where", value_name = "LIST")]
    conditions: Option<String>,
    /// Put ' before values that a spreadsheet would compute
    #[arg(long)]
    safe: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// The format.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    Csv,
    Tsv,
    Json,
    Ndjson,
}

impl Format {
    /// The extension in the path, and the content type of the response.
    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Csv => ("csv", "text/csv"),
            Self::Tsv => ("tsv", "text/tab-separated-values"),
            Self::Json => ("json", "application/json"),
            Self::Ndjson => ("ndjson", "application/x-ndjson"),
        }
    }
}

pub fn run(args: ExportArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: ExportArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let (format, content_type) = args.format.parts();
    let mut query = vec![("safe", args.safe.to_string())];
    query.extend(args.fields.map(|fields| ("fields", fields)));
    query.extend(args.conditions.map(|conditions| ("where", conditions)));
    let query = query
        .iter()
        .map(|(name, value)| format!("{name}={}", percent_encoded(value)));
    let query: Vec<String> = query.collect();
    let path = format!(
        "/api/admin/streams/{}/export.{format}?{}",
        percent_encoded(&args.stream),
        query.join("&")
    );
    let mut rows = client.open(&path, HeaderMap::new(), content_type).await?;
    let Some(to) = &args.to else {
        let mut out = io::stdout().lock();
        while let Some(piece) = rows.chunk().await? {
            match out.write_all(&piece) {
                // The reader has closed the pipe.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                done => done.map_err(|error| CliError::failed(format!("cannot print: {error}")))?,
            }
        }
        return out
            .flush()
            .map_err(|error| CliError::failed(format!("cannot print: {error}")));
    };
    let part = part_of(to);
    let failed =
        |error: io::Error| CliError::failed(format!("cannot write {}: {error}", part.display()));
    let mut file = File::create(&part).map_err(failed)?;
    loop {
        match rows.chunk().await {
            Ok(Some(piece)) => file.write_all(&piece).map_err(failed)?,
            Ok(None) => break,
            Err(error) => {
                let _ = std::fs::remove_file(&part);
                return Err(error.into());
            }
        }
    }
    file.sync_all().map_err(failed)?;
    std::fs::rename(&part, to).map_err(failed)?;
    note(&format!(
        "{} written",
        super::output::shown(&to.display().to_string())
    ));
    Ok(())
}

/// The name of an incomplete file, so that a file with its own name is complete.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}
