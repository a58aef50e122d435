//! `headgate backup`: a copy of a running daemon's data, and `headgate restore`: a data folder made of it.
//!
//! The daemon makes the backup, on its own machine; a restore needs none.
//!
//! **Invariant**: neither writes into a folder that holds something.

use std::path::PathBuf;

use reqwest::Method;
use serde_json::json;

use super::client::{AdminArgs, CallError};
use super::error::CliError;
use super::output::{json_pretty, print, shown};
use crate::daemon;
use base::process;
use wire::BackupData;

/// Arguments of `headgate backup`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate backup
  headgate backup /var/backups/headgate/$(date +%F) --data-dir /var/lib/headgate --output json

The daemon keeps accepting requests. It creates the directory on its own machine, for its own user only, under a
directory in admin.backup_dirs of the configuration, or under `backups` of the data directory. The backup contains
verified copies of catalog.db, pool.db and journal.db. manifest.json is written last: a backup without it is incomplete.
The backup does not contain the configuration, the admin token or plugins.")]
pub struct BackupArgs {
    /// Directory for the backup, missing or empty. Default: a new one in `backups` of the data directory
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: BackupOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Arguments of `headgate restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate restore /var/backups/headgate/monday --data-dir /var/lib/headgate

Run it as the user of the daemon, and start the daemon afterwards. Requests accepted before the backup are in the data
pool, or are delivered then. Screens receive a new snapshot. The daemon creates a new admin token, unless the
configuration has one.")]
pub struct RestoreArgs {
    /// Directory of the backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Data directory to create, missing or empty
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: BackupOutput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum BackupOutput {
    Text,
    Json,
}

/// Runs `headgate backup`.
pub async fn backup(args: BackupArgs) -> Result<(), CliError> {
    let client = args.admin.client()?;
    let absolute = |dir: &PathBuf| {
        let dir = std::path::absolute(dir)
            .map_err(|error| CliError::wrong_use(format!("cannot use this directory: {error}")))?;
        let dir = dir.to_str().map(str::to_owned);
        dir.ok_or_else(|| CliError::wrong_use("the path of the directory must be UTF-8"))
    };
    let dir = args.dir.as_ref().map(absolute).transpose()?;
    let body = json!({"dir": dir});
    let asked = client.change_slowly(Method::POST, "/api/admin/backups", &body);
    let made: BackupData = match asked.await {
        Ok(made) => made,
        Err(error @ CallError::NoAnswer { .. }) => {
            return Err(CliError::failed(format!(
                "{error}; without a manifest.json in {}, the backup is incomplete",
                shown(dir.as_deref().unwrap_or("its directory"))
            )));
        }
        Err(error) => return Err(error.into()),
    };
    match args.output {
        BackupOutput::Json => print(&json_pretty(&made)?),
        BackupOutput::Text => print(&format!("{}\n", sentence(&made))),
    }
}

fn sentence(made: &BackupData) -> String {
    format!(
        "{}: {} files, {} bytes, all requests up to {}",
        shown(&made.dir),
        made.files.len(),
        made.bytes,
        made.highest_seq
    )
}

/// Runs `headgate restore`.
///
/// # Errors
/// Exit code 1: the backup is not good or the folder cannot be used; 70: storage failed.
pub fn restore(args: &RestoreArgs) -> Result<(), CliError> {
    process::keep_files_private();
    let restored = daemon::restore_into(&args.data_dir, &args.backup);
    let restored = restored.map_err(|error| CliError {
        code: error.exit_code(),
        message: shown(&error.to_string()).into_owned(),
    })?;
    let manifest = &restored.manifest;
    match args.output {
        BackupOutput::Json => print(&json_pretty(&json!({
            "data_dir": args.data_dir,
            "made_at": manifest.made_at,
            "bytes": manifest.bytes(),
            "highest_seq": manifest.highest_seq,
            "epoch": restored.epoch,
        }))?),
        BackupOutput::Text => print(&format!(
            "{}: restored the backup of {}, all requests up to {}\n",
            shown(&args.data_dir.to_string_lossy()),
            shown(&manifest.made_at),
            manifest.highest_seq
        )),
    }
}
