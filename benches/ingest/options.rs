//! What the caller of the bench may choose.
//!
//! Called first by the bench's main file.
//!
//! **Invariant:** an argument that is not understood ends the bench before anything is started.

use std::path::PathBuf;
use std::time::Duration;

use crate::Result;
use crate::payload::Shape;

/// Arguments and environment, checked.
#[derive(Debug)]
pub(crate) struct Options {
    /// Write all results here as JSON.
    pub(crate) json: Option<PathBuf>,
    /// The shapes to run.
    pub(crate) shapes: Vec<Shape>,
    /// Rounds of each server and shape.
    pub(crate) rounds: usize,
    /// Load in one round of single objects; array shapes get half of it, as their pool needs more time afterwards.
    pub(crate) round: Duration,
    /// Where the temporary folder is made.
    pub(crate) folder: PathBuf,
}

/// What `--help` prints.
pub(crate) const HELP: &str = "\
cargo bench --bench ingest -- [--json FILE] [--only SHAPE,…] [--rounds N] [--dir FOLDER]
  --json FILE     write every round and the medians as JSON
  --only SHAPE,…  small, medium, recurring, random (all)
  --rounds N      rounds of each server and shape (3)
  --dir FOLDER    make the data folder in here (target/tmp): its disk is measured
  HEADGATE_BENCH_SECONDS  seconds of load in one round (4)";

impl Options {
    /// Reads them; `None` if only the help was asked for, or if it is not `cargo bench` that calls: `cargo test
    /// --all-targets` starts benches too, and must not wait minutes for this one.
    pub(crate) fn read() -> Result<Option<Self>> {
        let seconds = match std::env::var("HEADGATE_BENCH_SECONDS") {
            Ok(text) => text
                .parse::<f64>()
                .ok()
                .filter(|seconds| (0.1..=600.0).contains(seconds))
                .ok_or_else(|| {
                    format!("HEADGATE_BENCH_SECONDS is `{text}`, give 0.1 to 600 seconds")
                })?,
            Err(_) => 4.0,
        };
        let mut options = Self {
            json: None,
            shapes: Shape::ALL.to_vec(),
            rounds: 3,
            round: Duration::from_secs_f64(seconds),
            folder: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        };
        if !std::env::args().any(|argument| argument == "--bench") {
            return Ok(None);
        }
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{argument} needs a value\n{HELP}"))
            };
            match argument.as_str() {
                // Cargo's own.
                "--bench" => {}
                "--help" | "-h" => return Ok(None),
                // Cargo runs the bench in the package's folder, so a relative file lands there.
                "--json" => options.json = Some(value()?.into()),
                "--dir" => options.folder = value()?.into(),
                "--rounds" => {
                    options.rounds = value()?
                        .parse()
                        .ok()
                        .filter(|rounds| (1..=100).contains(rounds))
                        .ok_or("--rounds needs a number from 1 to 100")?;
                }
                "--only" => options.shapes = shapes(&value()?)?,
                _ => return Err(format!("unknown argument {argument}\n{HELP}").into()),
            }
        }
        Ok(Some(options))
    }

    /// Load in one round of `shape`.
    pub(crate) fn round_of(&self, shape: Shape) -> Duration {
        if shape.is_array() {
            self.round / 2
        } else {
            self.round
        }
    }
}

fn shapes(names: &str) -> Result<Vec<Shape>> {
    names
        .split(',')
        .map(|name| {
            Shape::ALL
                .into_iter()
                .find(|shape| shape.name() == name)
                .ok_or_else(|| format!("unknown shape {name}\n{HELP}").into())
        })
        .collect()
}
