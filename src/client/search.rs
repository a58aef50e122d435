//! `headgate search`: a text search in items, requests, dead letters and names.
//!
//! Called by the command line; calls the admin API.
//!
//! **Invariant**: it continues until the limit of hits is reached, or everything was searched.

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{ListOutput, cut, plain, print_list, when};
use super::resource::{Column, table};
use crate::Running;
use base::text::percent_encoded;
use wire::SearchData;

const LIMIT_MAX: u64 = 10_000;

/// Arguments of `headgate search`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate search o-03211                      # the item with this key, and items whose keys begin with it
  headgate search 'has no field'               # requests and dead letters with this error
  headgate search shop --output ndjson | jq -r .page")]
pub struct SearchArgs {
    /// A key, an id, a name, or a part of an error
    text: String,
    /// Number of hits to show
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=LIMIT_MAX))]
    limit: u64,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

const COLUMNS: &[Column<SearchData>] = &[
    Column::new("KIND", |hit| hit.kind.replace('_', " ")),
    Column::new("STREAM", |hit| plain(&hit.stream)),
    Column::new("KEY", |hit| cut(hit.key.clone())),
    Column::new("AT", |hit| when(&hit.at)),
    Column::new("ABOUT", |hit| cut(hit.title.clone())),
];

pub fn run(args: SearchArgs) -> Running {
    Box::pin(execute(args))
}

async fn execute(args: SearchArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let query = format!("&q={}", percent_encoded(&args.text));
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let hits = client.list("/api/admin/search", &query, limit).await?;
    print_list(args.output, &hits, "nothing found", |hits| {
        table(COLUMNS, hits)
    })
}
