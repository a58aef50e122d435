//! `headgate audit`: the audit log of a running daemon, and whether it is as it was written, there or in a folder.
//!
//! Called by the command line; asks the admin API, or reads `catalog.db` of a data folder or a backup.
//!
//! **Invariant**: nothing is written. A trail that does not fit is exit code 1.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};

use super::client::AdminArgs;
use super::error::CliError;
use super::output::{ListOutput, cut, json_pretty, plain, print, print_list, shown, when};
use super::repair::Output;
use super::requests::moment;
use super::resource::{Column, table};
use api::verified_data;
use base::clock::{self, Unix};
use base::text::percent_encoded;
use catalog::{AUDIT_ACTIONS, KeyHash, OLD_AUDIT_ACTIONS, ResourceKind};
use wire::{AuditData, ChainMismatchData, VerifiedData};

const LIMIT_MAX: u64 = 100_000;

/// Arguments of `headgate audit`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  headgate audit --limit 500 --output ndjson
  headgate audit --since 2h --kind key --action revoke
  headgate audit --name shop --since 2026-01-31T00:00:00Z    # the connector shop, its keys and requests
  headgate audit --who night-shift                           # a token, in API calls and on the pages
  headgate audit verify
  headgate audit verify --expect 4f0c1d…    # a digest that was kept elsewhere
  headgate audit verify --folder /var/backups/headgate-1"
)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    /// Only entries with this action
    #[arg(long, value_name = "VERB", value_parser = PossibleValuesParser::new(AUDIT_ACTIONS.map(action)))]
    action: Option<String>,
    /// Only entries about objects of this kind
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(ResourceKind::ALL.map(ResourceKind::as_str)))]
    kind: Option<String>,
    /// Only entries about objects with this name, or of the connector with this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only entries by this actor: BY of an entry, or the name of a token
    #[arg(long, value_name = "WHO")]
    who: Option<String>,
    /// Only entries since this time: 90s, 15m, 1h, 7d ago, or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    since: Option<Unix>,
    /// Only entries until this time
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    until: Option<Unix>,
    /// Number of entries to show, newest first
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=LIMIT_MAX))]
    limit: u64,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    output: ListOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// An action of the filter, also under its name of version 0.1.
fn action(name: &'static str) -> PossibleValue {
    let old = OLD_AUDIT_ACTIONS.iter().filter(|(_, now)| *now == name);
    PossibleValue::new(name).aliases(old.map(|(old, _)| *old))
}

#[derive(Debug, clap::Subcommand)]
enum AuditCommand {
    /// Verify the whole audit log
    Verify(VerifyArgs),
}

/// Arguments of `headgate audit verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate audit verify
  headgate audit verify --folder /var/lib/headgate --output json

Keep the newest digest in another place: only --expect with that digest detects a log that was truncated at its end, or
rewritten as a whole.")]
struct VerifyArgs {
    /// Digest that must be in the audit log
    #[arg(long, value_name = "DIGEST")]
    expect: Option<KeyHash>,
    /// Read catalog.db of this data directory or backup, without a daemon
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    admin: AdminArgs,
}

const COLUMNS: &[Column<AuditData>] = &[
    Column::new("AT", |entry| when(&entry.at)),
    Column::new("ACTION", |entry| plain(&entry.action)),
    Column::new("KIND", |entry| plain(&entry.kind)),
    Column::new("NAME", |entry| cut(plain(&entry.name))),
    Column::new("BY", |entry| plain(&entry.who)),
    Column::new("FROM", |entry| plain(&entry.client)),
    Column::new("DIGEST", |entry| {
        plain(&entry.digest).chars().take(12).collect()
    }),
];

/// Runs the verb.
///
/// # Errors
/// The daemon does not answer, or the audit log does not fit.
pub async fn run(args: AuditArgs) -> Result<(), CliError> {
    if let Some(AuditCommand::Verify(args)) = args.command {
        return verify(args).await;
    }
    let client = args.admin.client()?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let filter = filter(&args);
    let entries = client.list("/api/admin/audit", &filter, limit).await?;
    let none = match filter.is_empty() {
        true => "no changes recorded",
        false => "no entries match",
    };
    print_list(args.output, &entries, none, |entries| {
        table(COLUMNS, entries)
    })
}

/// The filters as a part of the query, `&name=value` each.
fn filter(args: &AuditArgs) -> String {
    let time = |at: Option<Unix>| at.map(clock::rfc3339);
    let filters = [
        ("action", args.action.clone()),
        ("kind", args.kind.clone()),
        ("name", args.name.clone()),
        ("who", args.who.clone()),
        ("since", time(args.since)),
        ("until", time(args.until)),
    ];
    let given = filters.into_iter().filter_map(|(name, value)| {
        let value = percent_encoded(&value?);
        Some(format!("&{name}={value}"))
    });
    given.collect()
}

async fn verify(args: VerifyArgs) -> Result<(), CliError> {
    let found = match &args.folder {
        Some(folder) => of_folder(folder, args.expect)?,
        None => {
            let expect = args.expect.map(|digest| digest.to_string());
            let query = expect.map(|digest| format!("?expect={}", percent_encoded(&digest)));
            let path = format!("/api/admin/audit/verify{}", query.unwrap_or_default());
            args.admin.client()?.get(&path).await?
        }
    };
    match args.output {
        Output::Json => print(&json_pretty(&found)?)?,
        Output::Text => print(&summary(&found))?,
    }
    match found.good {
        true => Ok(()),
        false => Err(CliError::failed(wrong(&found))),
    }
}

/// What the admin API answers, of a file.
fn of_folder(folder: &Path, expect: Option<KeyHash>) -> Result<VerifiedData, CliError> {
    let path = folder.join(catalog::FILE);
    let verified = catalog::verify_audit_of(&path, expect).map_err(|error| {
        let summary = format!("cannot read {}: {error}", path.display());
        CliError::failed(shown(&summary).into_owned())
    })?;
    Ok(verified_data(verified))
}

/// The first invalid entry; daemons of version 0.1 answer it under the old name.
fn mismatch(found: &VerifiedData) -> Option<&ChainMismatchData> {
    found.mismatch.as_ref().or(found.old_mismatch.as_ref())
}

fn summary(found: &VerifiedData) -> String {
    let none = match mismatch(found) {
        None => "no entries\n",
        Some(_) => "no entry matches\n",
    };
    let (Some(oldest), Some(newest)) = (&found.oldest, &found.newest) else {
        return none.to_owned();
    };
    format!(
        "{} entries verified, from {} ({}) to {} ({})\nnewest digest: {}\n",
        found.entries,
        shown(&oldest.id),
        shown(&when(&oldest.at)),
        shown(&newest.id),
        shown(&when(&newest.at)),
        shown(&newest.digest)
    )
}

fn wrong(found: &VerifiedData) -> String {
    let summary = match mismatch(found) {
        None => "the expected digest is not in the audit log: entries were truncated or rewritten, or the digest is older than the oldest entry".to_owned(),
        Some(entry) => format!("the entry {} does not match: {}", entry.id, entry.reason),
    };
    shown(&summary).into_owned()
}
