//! `headgate repair`: damaged files are set aside, and what can be read of them is saved; and `headgate check --data`,
//! which only looks.
//!
//! The daemon does by itself at its start what the first does; it is for damage that nobody has met yet, and for a folder
//! whose daemon does not start.
//!
//! **Invariant**: `check --data` writes nothing; `repair` works only while no daemon uses the folder.

use std::path::Path;

use serde_json::json;

use super::error::{CliError, FAILED};
use super::output::{confirmed, json_pretty, print, shown};
use super::serve::failed;
use super::{ConfigArgs, load};
use crate::daemon;
use base::process;
use repair::{Verdict, report};

/// The exit code of a storage failure.
const STORAGE: u8 = 70;

/// Arguments of `headgate repair`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate repair --config /etc/headgate.toml
  headgate repair --yes --output json

Stop the daemon first, and run this as the user of the daemon. A damaged file is kept next to the new file, for example
as journal.db.damaged-20261122T031500Z; the disk needs space for both.")]
pub struct RepairArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// How to print what was done
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// How a report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// Sentences.
    Text,
    /// JSON.
    Json,
}

/// Runs `headgate repair`.
///
/// # Errors
/// Exit code 1 if a daemon uses the folder, 70 if storage fails.
pub fn run(args: &RepairArgs) -> Result<(), CliError> {
    process::keep_files_private();
    let loaded = load(&args.config)?;
    let data_dir = &loaded.settings.storage.data_dir;
    let found = daemon::repair_folder(data_dir, false).map_err(failed)?;
    let damaged = found
        .iter()
        .any(|(_, verdict)| matches!(verdict, Verdict::Damaged(_)));
    let before = report::repairs(data_dir);
    if damaged {
        let question = format!(
            "{}recover the readable data, and rename the damaged files?",
            text(&found)
        );
        if !args.yes && !confirmed(&question, "repair without being asked")? {
            return Err(CliError::failed("nothing was done"));
        }
        daemon::repair_folder(data_dir, true).map_err(failed)?;
    }
    let mut done = report::repairs(data_dir);
    done.retain(|repair| !before.contains(repair));
    match args.output {
        Output::Json => print(&json_pretty(&json!({
            "files": files(&found),
            "repairs": done,
        }))?),
        Output::Text => {
            let done = done.iter().map(|repair| {
                format!(
                    "{}; the damaged files are kept as {}\n",
                    repair.sentence(),
                    repair.set_aside.join(", ")
                )
            });
            print(&format!(
                "{}{}",
                text(&found),
                done.map(|line| shown_line(&line)).collect::<String>()
            ))
        }
    }
}

/// Runs `headgate check --data`.
///
/// # Errors
/// Exit code 1 if something is damaged, 70 if it cannot be read.
pub fn check(data_dir: &Path, output: Output) -> Result<(), CliError> {
    let storage = |error: repair::RepairError| CliError {
        code: STORAGE,
        message: shown(&error.to_string()).into_owned(),
    };
    let mut found = Vec::new();
    for file in repair::files() {
        found.push((file, repair::check(data_dir, file, false).map_err(storage)?));
    }
    let quarantined = repair::quarantined(data_dir);
    let repairs = report::repairs(data_dir);
    let problems = report::problems(data_dir);
    match output {
        Output::Json => print(&json_pretty(&json!({
            "data_dir": data_dir,
            "files": files(&found),
            "quarantined": quarantined,
            "repairs": repairs,
            "problems": problems,
        }))?)?,
        Output::Text => {
            let mut said = text(&found);
            if let Some(payloads) = quarantined.filter(|payloads| *payloads > 0) {
                said += &format!(
                    "{payloads} unreadable payloads are in the table quarantine of journal.db\n"
                );
            }
            for problem in &problems {
                said += &shown_line(&format!("{problem}\n"));
            }
            print(&said)?;
        }
    }
    let damaged = found
        .iter()
        .filter(|(_, verdict)| matches!(verdict, Verdict::Damaged(_)));
    match damaged.count() {
        0 => Ok(()),
        _ => Err(CliError {
            code: FAILED,
            message: "a file is damaged: stop the daemon and run `headgate repair`".to_owned(),
        }),
    }
}

fn shown_line(line: &str) -> String {
    format!("{}\n", shown(line.trim_end()))
}

fn text(found: &[(&str, Verdict)]) -> String {
    let lines = found.iter().map(|(file, verdict)| match verdict {
        Verdict::Absent => format!("{file}: missing\n"),
        Verdict::Sound => format!("{file}: sound\n"),
        Verdict::Damaged(problem) => format!("{file}: damaged: {}\n", shown(problem)),
    });
    lines.collect()
}

fn files(found: &[(&str, Verdict)]) -> serde_json::Value {
    let files = found.iter().map(|(file, verdict)| {
        let (state, problem) = match verdict {
            Verdict::Absent => ("absent", None),
            Verdict::Sound => ("sound", None),
            Verdict::Damaged(problem) => ("damaged", Some(problem)),
        };
        json!({"name": file, "state": state, "problem": problem})
    });
    files.collect()
}
