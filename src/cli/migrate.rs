//! `headgate migrate`: from a data directory into a cluster, and from a cluster into a data directory.
//!
//! Called by the command line; needs no daemon.
//!
//! **Invariant**: the exit code is 0 only if the target has what the source has.

use std::path::PathBuf;

use serde_json::json;

use super::error::{CliError, WRONG_USE};
use super::output::{json_pretty, note, print, shown};
use super::resource::{Column, table};
use super::{ConfigArgs, load};
use crate::daemon::{DaemonError, MOVED_MARK, MovedIn, MovedOut, move_in, move_out};
use base::process;
use replica::MovedPart;
use settings::{Engine, Settings};

/// Arguments of `headgate migrate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate migrate --config cluster.toml --from /var/lib/headgate-alone
  headgate migrate --config cluster.toml --to /var/lib/headgate-alone

The configuration is that of a node: storage.engine = \"postgres\". With --from, stop the daemon first; the cluster must be
empty, and gets everything or nothing. The directory stays as it is, and is marked so that no daemon starts on it. With --to,
stop all nodes first: what they accept while the command runs may be missing. Plugins, presets and files of sinks are not
moved: copy the directories plugins, presets and files.")]
pub struct MigrateArgs {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    direction: Direction,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: MigrateOutput,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Direction {
    /// Data directory to move into the cluster; its daemon is stopped
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Data directory to create from the cluster, missing or empty
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum MigrateOutput {
    Text,
    Json,
}

const PARTS: &[Column<MovedPart>] = &[
    Column::new("PART", |part| part.name.to_owned()),
    Column::new("ROWS", |part| part.source.rows.to_string()),
    Column::new("MOVED", |part| part.target.rows.to_string()),
    Column::new("SHA-256", |part| part.target.hex()[..16].to_owned()),
    Column::new("", |part| {
        let result = if part.is_equal() { "equal" } else { "differs" };
        result.to_owned()
    }),
];

/// Runs the verb.
///
/// # Errors
/// Exit code 1: the directory cannot be used; 2: the configuration or the cluster cannot; 70: storage failed.
pub async fn run(args: MigrateArgs) -> Result<(), CliError> {
    process::keep_files_private();
    let loaded = load(&args.config)?;
    let settings = &loaded.settings;
    if settings.storage.engine == Engine::File {
        return Err(CliError {
            code: WRONG_USE,
            message: "storage.engine is \"file\", so there is no cluster; name the configuration of a node, with storage.engine = \"postgres\" and cluster.urls".to_owned(),
        });
    }
    let mut progress = |what: &str| note(&shown(what));
    match (args.direction.from, args.direction.to) {
        (Some(from), _) => {
            let moved = move_in(settings, &from, &mut progress).await;
            print(&of_move_in(&moved.map_err(failed)?, settings, args.output)?)
        }
        (None, Some(to)) => {
            let moved = move_out(settings, &to, &mut progress).await;
            print(&of_move_out(
                &moved.map_err(failed)?,
                settings,
                args.output,
            )?)
        }
        (None, None) => Err(CliError::wrong_use("give --from or --to")),
    }
}

fn failed(error: DaemonError) -> CliError {
    let again = match &error {
        DaemonError::Database(_) | DaemonError::Journal(_) | DaemonError::Copies(_) => {
            "; nothing was moved: run the same command again"
        }
        _ => "",
    };
    CliError {
        code: error.exit_code(),
        message: shown(&format!("{error}{again}")).into_owned(),
    }
}

fn of_move_in(
    moved: &MovedIn,
    settings: &Settings,
    output: MigrateOutput,
) -> Result<String, CliError> {
    let (from, schema) = (moved.from.to_string_lossy(), &settings.cluster.schema);
    if output == MigrateOutput::Json {
        return json_pretty(&json!({
            "from": from,
            "schema": schema,
            "moved_before": moved.before,
            "parts": parts(&moved.parts),
        }));
    }
    let from = shown(&from);
    let done = match moved.before {
        true => "was moved before, and is what was moved then",
        false => "was moved",
    };
    Ok(format!(
        "{}{from} {done}: into the schema {schema}\n\
         start the nodes, with plugins, presets and files of {from} copied to the data directory of each\n\
         {from} is as it was, and marked: no daemon with storage.engine = \"file\" starts on it\n\
         to return with what the cluster has: stop all nodes, and run `headgate migrate --to DIR`\n\
         to return without it: stop all nodes, delete {from}/{MOVED_MARK}, and start the daemon\n",
        table(PARTS, &moved.parts)
    ))
}

fn of_move_out(
    moved: &MovedOut,
    settings: &Settings,
    output: MigrateOutput,
) -> Result<String, CliError> {
    let (to, schema) = (moved.to.to_string_lossy(), &settings.cluster.schema);
    if output == MigrateOutput::Json {
        return json_pretty(&json!({
            "to": to,
            "schema": schema,
            "running": moved.running,
            "parts": parts(&moved.parts),
        }));
    }
    let to = shown(&to);
    let running = match moved.running.is_empty() {
        true => String::new(),
        false => format!(
            "nodes were running ({}): what they accept from now on is not in {to}; for a move, stop them and run the command again\n",
            shown(&moved.running.join(", "))
        ),
    };
    Ok(format!(
        "{}{to} has what the cluster in the schema {schema} has\n{running}\
         start a daemon on it with storage.engine = \"file\", with plugins, presets and files of a node copied to it\n\
         do not start a node again: the cluster is as it was, and both would deliver what waits\n",
        table(PARTS, &moved.parts)
    ))
}

fn parts(parts: &[MovedPart]) -> serde_json::Value {
    let parts = parts.iter().map(|part| {
        json!({
            "part": part.name,
            "rows": part.source.rows,
            "moved": part.target.rows,
            "sha256": part.target.hex(),
            "equal": part.is_equal(),
        })
    });
    parts.collect()
}
