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

/// What `headgate backup` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate backup
  headgate backup /var/backups/headgate/$(date +%F) --data-dir /var/lib/headgate --output json

The daemon goes on taking requests. The folder is made on the daemon's machine, for its user only, in a folder that
admin.backup_dirs of the configuration names, or in \"backups\" of the data folder. It holds
catalog.db, pool.db and journal.db, read back and found good, and last manifest.json; without that it is no backup.
The configuration, the admin token and plugins are not in it.")]
pub struct BackupArgs {
    /// The folder to make it in, missing or empty; otherwise a new one in "backups" of the data folder
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How to print what was made
    #[arg(long, value_enum, default_value = "text")]
    output: BackupOutput,
    #[command(flatten)]
    admin: AdminArgs,
}

/// What `headgate restore` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  headgate restore /var/backups/headgate/monday --data-dir /var/lib/headgate

Run it as the user that the daemon runs as, and start the daemon afterwards. What was accepted before the
backup is in the pool, or is delivered then. Renderers are told everything afresh. A new admin token is made,
unless the configuration has one.")]
pub struct RestoreArgs {
    /// The folder of the backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// The data folder to make of it: missing or empty
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// How to print what was restored
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
            .map_err(|error| CliError::wrong_use(format!("cannot use this folder: {error}")))?;
        let dir = dir.to_str().map(str::to_owned);
        dir.ok_or_else(|| CliError::wrong_use("the folder's path must be UTF-8"))
    };
    let dir = args.dir.as_ref().map(absolute).transpose()?;
    let body = json!({"dir": dir});
    let asked = client.change_slowly(Method::POST, "/api/admin/backups", &body);
    let made: BackupData = match asked.await {
        Ok(made) => made,
        Err(error @ CallError::NoAnswer { .. }) => {
            return Err(CliError::failed(format!(
                "{error}; if there is no manifest.json in {}, there is no backup",
                shown(dir.as_deref().unwrap_or("its folder"))
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
