//! Arguments that several benches take.
//!
//! **Invariant:** a number out of its range ends the bench before anything is started.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use serde::Serialize;

use crate::Result;
use crate::aim::Aim;

/// Where the benches keep their data unless another folder is named.
pub(crate) const TARGET_TMP: &str = env!("CARGO_TARGET_TMPDIR");

/// How long, how often, where, and what becomes of the results.
#[derive(Debug, clap::Args)]
pub(crate) struct Rounds {
    /// Write every round and the medians here as JSON; Cargo runs benches in the package's folder
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Rounds of each case
    #[arg(long = "rounds", value_name = "N", default_value = "3", value_parser = count(100))]
    pub(crate) count: usize,
    #[command(flatten)]
    pub(crate) window: Window,
    /// Make the data folder in here: its disk is measured
    #[arg(long = "dir", value_name = "FOLDER", default_value = TARGET_TMP)]
    folder: PathBuf,
}

/// How long each round takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Window {
    /// Seconds of load in one round
    #[arg(id = "seconds", long = "seconds", value_name = "N", env = "HEADGATE_BENCH_SECONDS", default_value = "4", value_parser = seconds)]
    pub(crate) time: Duration,
}

impl Rounds {
    /// Makes a folder for the data, which goes when it is dropped.
    pub(crate) fn make_folder(&self, prefix: &str) -> Result<tempfile::TempDir> {
        std::fs::create_dir_all(&self.folder)?;
        Ok(tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(&self.folder)?)
    }

    /// Writes the results, if they are wanted in a file.
    pub(crate) fn write(&self, results: &impl Serialize, aims: &[Aim]) -> Result<()> {
        if let Some(path) = &self.json {
            let all = serde_json::json!({ "results": results, "aims": aims });
            std::fs::write(path, serde_json::to_string_pretty(&all)?)?;
        }
        Ok(())
    }
}

/// A number from 1 to `max`.
pub(crate) fn count(max: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=max)
}

fn seconds(text: &str) -> std::result::Result<Duration, &'static str> {
    text.parse()
        .ok()
        .filter(|seconds| (0.1..=600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or("give 0.1 to 600 seconds")
}
