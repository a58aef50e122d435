//! What the caller of the bench may choose.
//!
//! Called first by the bench's main file.
//!
//! **Invariant:** an argument that is not understood ends the bench before anything is started.

use std::path::PathBuf;
use std::time::Duration;

use crate::Result;

/// One kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Time to the renderers and CPU for each delivery.
    Push,
    /// Memory of idle connections.
    Memory,
    /// Intake beside many idle connections.
    Intake,
    /// The rate at which versions are left out.
    Conflation,
}

impl Measure {
    const ALL: [Self; 4] = [Self::Push, Self::Memory, Self::Intake, Self::Conflation];

    fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Memory => "memory",
            Self::Intake => "intake",
            Self::Conflation => "conflation",
        }
    }
}

/// Which program serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// The daemon.
    Headgate,
    /// nginx with the module nchan.
    Nchan,
}

impl Program {
    const ALL: [Self; 2] = [Self::Headgate, Self::Nchan];

    fn name(self) -> &'static str {
        match self {
            Self::Headgate => "headgate",
            Self::Nchan => "nchan",
        }
    }
}

/// Arguments and environment, checked.
#[derive(Debug)]
pub(crate) struct Options {
    /// Write all results here as JSON.
    pub(crate) json: Option<PathBuf>,
    /// The measurements to run.
    pub(crate) measures: Vec<Measure>,
    /// The programs to run them on.
    pub(crate) programs: Vec<Program>,
    /// Rounds of each case.
    pub(crate) rounds: usize,
    /// Load in one round.
    pub(crate) round: Duration,
    /// Connections of the large cases.
    pub(crate) connections: usize,
    /// Where the temporary folder is made.
    pub(crate) folder: PathBuf,
}

/// What `--help` prints.
pub(crate) const HELP: &str = "\
cargo bench --bench live -- [--json FILE] [--only NAME,…] [--server NAME,…] [--rounds N] [--connections N] [--dir FOLDER]
  --json FILE      write every round and the medians as JSON
  --only NAME,…    push, memory, intake, conflation (all)
  --server NAME,…  headgate, nchan (both); intake and conflation are of headgate only
  --rounds N       rounds of each case of push and intake (3)
  --connections N  idle connections of memory and intake (10000)
  --dir FOLDER     make the data folders in here (target/tmp): their disk takes part in every 202
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
            measures: Measure::ALL.to_vec(),
            programs: Program::ALL.to_vec(),
            rounds: 3,
            round: Duration::from_secs_f64(seconds),
            connections: 10_000,
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
                "--rounds" => options.rounds = number(&argument, &value()?, 100)?,
                "--connections" => options.connections = number(&argument, &value()?, 100_000)?,
                "--only" => options.measures = chosen(&value()?, &Measure::ALL, Measure::name)?,
                "--server" => options.programs = chosen(&value()?, &Program::ALL, Program::name)?,
                _ => return Err(format!("unknown argument {argument}\n{HELP}").into()),
            }
        }
        Ok(Some(options))
    }

    /// Whether this measurement is to run.
    pub(crate) fn wants(&self, measure: Measure) -> bool {
        self.measures.contains(&measure)
    }

    /// Whether this program is to be measured.
    pub(crate) fn serves(&self, program: Program) -> bool {
        self.programs.contains(&program)
    }
}

fn number(argument: &str, text: &str, max: usize) -> Result<usize> {
    text.parse()
        .ok()
        .filter(|number| (1..=max).contains(number))
        .ok_or_else(|| format!("{argument} needs a number from 1 to {max}").into())
}

fn chosen<T: Copy>(names: &str, all: &[T], name_of: fn(T) -> &'static str) -> Result<Vec<T>> {
    names
        .split(',')
        .map(|name| {
            all.iter()
                .copied()
                .find(|&one| name_of(one) == name)
                .ok_or_else(|| format!("unknown name {name}\n{HELP}").into())
        })
        .collect()
}
