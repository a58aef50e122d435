//! How cost grows: a curve for each thing of which an installation may have many.
//!
//! Connections, items in the data pool, streams, connectors, keys, sinks, renderers, live idempotency keys, entries of
//! the request log, and bytes of a body: each on a logarithmic axis, everything else as it is at the beginning of the
//! curve. Curves with requests start `headgate serve` as a child for each point, and send from keep-alive connections as
//! `ingest` does; those of the journal hand requests to a journal in this process as `claims` and `log` do; renderers are
//! those of `live`.
//!
//! How to read it: **CPU us** is the server's CPU time for each unit (a request, a KiB, a delivery) until the sinks have
//! everything, and the ratio is that to the curve's first point. The load generator shares the cores, so times in ms are
//! those of a machine that is used up; from one point to the next only their growth says something. A curve *bends
//! upwards* where a unit at its end costs over 1.5 times one in its middle. Points are single rounds: on a machine with
//! other work the cost of a point is good to a few percent, its 99th percentile to a factor.
//!
//! Called by the command line; owns the list of the curves and their points.
//!
//! **Invariant:** every request of a point was accepted, and every point begins with a folder of its own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;

use crate::options::{TARGET_TMP, Window};
use crate::{Result, child, step};
use curve::Curve;

mod curve;
mod page;
mod place;
mod plot;
mod renderers;
mod requests;
mod stores;
mod tables;

/// Connections beside one another, files of databases and of the child.
const FILES: usize = 24_000;

/// What the caller may choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The curves to draw, all by default
    #[arg(long = "only", value_name = "CURVE,…", value_enum, value_delimiter = ',', default_values_t = Growing::value_variants().to_vec(), hide_default_value = true)]
    curves: Vec<Growing>,
    /// Up to where: some minutes, or everything, which takes an hour and 20 GB of disk
    #[arg(
        long,
        value_enum,
        env = "HEADGATE_BENCH_GROWTH",
        default_value = "short"
    )]
    length: Length,
    #[command(flatten)]
    window: Window,
    /// Make the data folders in here
    #[arg(long = "dir", value_name = "FOLDER", default_value = TARGET_TMP)]
    folder: PathBuf,
}

/// How far the curves go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Length {
    /// As far as a few minutes reach
    Short,
    /// To their end
    Full,
}

/// What there is more and more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Growing {
    /// Connections that send
    Connections,
    /// Bytes of a body
    Body,
    /// Items in the data pool
    Items,
    /// Streams, each with a key
    Streams,
    /// Connectors, each with a key
    Connectors,
    /// Keys of one connector
    Keys,
    /// Sinks that take what is sent
    Sinks,
    /// Renderers that follow
    Renderers,
    /// Idempotency keys that are live
    Claims,
    /// Entries of the request log
    Log,
}

impl Growing {
    /// The points, those beyond `short` last.
    fn points(self, length: Length) -> Vec<u64> {
        let (short, beyond): (&[u64], &[u64]) = match self {
            Self::Connections => (&[1, 8, 64, 512, 4_096], &[]),
            Self::Body => (&[10, 100, 1_000, 10_000, 100_000, 1_000_000], &[]),
            Self::Items => (&[10, 1_000, 100_000], &[1_000_000, 10_000_000]),
            Self::Streams | Self::Connectors | Self::Keys => (&[1, 10, 100, 1_000], &[10_000]),
            Self::Sinks => (&[1, 2, 4, 8], &[]),
            Self::Renderers => (&[1, 10, 100, 1_000], &[10_000]),
            Self::Claims => (&[0, 10_000, 100_000], &[1_000_000, 10_000_000]),
            Self::Log => (&[0, 10_000, 100_000], &[1_000_000, 10_000_000]),
        };
        match length {
            Length::Short => short.to_vec(),
            Length::Full => [short, beyond].concat(),
        }
    }
}

/// Everything that a run showed.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    cores: usize,
    /// Load of one point.
    seconds: f64,
    length: Length,
    curves: Vec<Curve>,
    /// What the reader must know.
    notes: Vec<&'static str>,
}

/// Runs the bench.
pub(crate) fn bench(options: &Options) -> Result<()> {
    let begun = Instant::now();
    child::raise_open_files(FILES)?;
    let mut results = Results {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        seconds: options.time().as_secs_f64(),
        length: options.length,
        curves: Vec::new(),
        notes: Vec::new(),
    };
    if cfg!(debug_assertions) {
        results.notes.push("this bench was built without optimisation: only the curves of requests to a daemon that was built with it mean anything");
    }
    for &growing in &options.curves {
        for curve in options.curves_of(growing)? {
            curve.print();
            results.curves.push(curve);
        }
    }
    println!();
    for curve in &results.curves {
        println!("{}: {}", curve.title, curve.verdict());
    }
    for note in &results.notes {
        println!("note: {note}");
    }
    let target = Path::new(TARGET_TMP).with_file_name("growth.html");
    std::fs::write(
        target.with_extension("json"),
        serde_json::to_string_pretty(&results)?,
    )?;
    std::fs::write(&target, page::page(&results)?)?;
    println!(
        "\n{} and growth.json beside it; took {:.0} s",
        target.display(),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

impl Options {
    /// Load of one point: half of what other benches give a round, as there are many.
    fn time(&self) -> Duration {
        self.window.time / 2
    }

    /// A folder for one point, which goes with it.
    fn point_folder(&self, x: u64) -> Result<tempfile::TempDir> {
        std::fs::create_dir_all(&self.folder)?;
        let prefix = format!("growth-{x}-");
        Ok(tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&self.folder)?)
    }

    fn curves_of(&self, growing: Growing) -> Result<Vec<Curve>> {
        let mut curves = match growing {
            Growing::Connections => vec![Curve::new("connections", "connections", "request")],
            Growing::Body => vec![Curve::new("body", "bytes of a body", "KiB")],
            Growing::Items => vec![Curve::new("items", "items in the data pool", "request")],
            Growing::Streams => vec![Curve::new("streams", "streams, each with a key", "request")],
            Growing::Connectors => {
                vec![Curve::new(
                    "connectors",
                    "connectors, each with a key",
                    "request",
                )]
            }
            Growing::Keys => vec![Curve::new("keys", "keys of one connector", "request")],
            Growing::Sinks => vec![Curve::new("sinks", "sinks", "request and sink")],
            Growing::Renderers => vec![Curve::new("renderers", "renderers", "delivery")],
            Growing::Claims => vec![Curve::new("claims", "live idempotency keys", "request")],
            Growing::Log => vec![
                Curve::new("log", "entries of the request log", "request"),
                Curve::new("page", "entries of the request log, a page of it", "page"),
            ],
        };
        for x in growing.points(self.length) {
            step(&format!("{}: {x}", curves[0].title));
            let folder = self.point_folder(x)?;
            let points = match growing {
                Growing::Renderers => vec![renderers::point(folder.path(), x, self.time())?],
                Growing::Claims => {
                    vec![crate::block_on(stores::claims(
                        folder.path(),
                        x,
                        self.time(),
                    ))?]
                }
                Growing::Log => crate::block_on(stores::log(folder.path(), x, self.time()))?,
                _ => vec![requests::point(growing, folder.path(), x, self.time())?],
            };
            for (curve, point) in curves.iter_mut().zip(points) {
                curve.push(point);
            }
        }
        Ok(curves)
    }
}
