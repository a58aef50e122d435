//! What a sink costs: the default one beside the same work without WebAssembly, and what a guest pays for reading.
//!
//! Runs in one process, without a server: batches as lanes make them, a pool on the disk under `target/tmp`, and the
//! plugin engine. An item has about 200 bytes. The default sink and the native call do the same: upsert, publish,
//! commit with the cursor; they take turns, a window of batches each, and the figures are medians over the windows.
//! What `where` and `fields` cost is compared with the same done by handle.
//! `--component` adds a component of your own to the comparison; it is given settings that let it take everything, so
//! it should do the same work as the others that are named. The last table has a whole daemon with a sink beside the
//! default one that misbehaves.
//!
//! How to read it: µs are of one batch and drift with the machine; the aims are differences and ratios between
//! neighbouring windows.
//!
//! Called by the command line; owns the order of the measurements.
//!
//! **Invariant:** what is compared did the same: after each comparison the pool holds what it should.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use observe::metrics::Metrics;
use plugin::{GuestLog, Instance, Plugin, Plugins, SinkContext};
use pool::{Effect, Pool, Settlement, Staged};
use settings::{Plugins as GuestSettings, Sink};

use crate::Result;
use crate::aim::{self, Aim};
use crate::options::TARGET_TMP;
use crate::table::Table;
use crate::times::percentile;
use base::order::Seq;
use batches::Batches;

mod batches;
mod beside;
mod selected;

/// Sizes of a batch, in items.
const SIZES: [u32; 3] = [1, 100, 5_000];

/// Windows of each side of a comparison.
const WINDOWS: usize = 60;

/// Items of one window; a window of small batches has at most [`BATCHES_MAX`].
const WINDOW_ITEMS: u32 = 20_000;
const BATCHES_MAX: u32 = 500;

const STARTS: usize = 50;

/// What the caller may choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A component to compare with; it may be named several times
    #[arg(long = "component", value_name = "NAME=FILE", value_parser = component)]
    components: Vec<(String, String)>,
}

fn component(text: &str) -> std::result::Result<(String, String), &'static str> {
    let (name, file) = text.split_once('=').ok_or("give NAME=FILE")?;
    Ok((name.to_owned(), file.to_owned()))
}

/// Runs the bench.
pub(crate) async fn bench(options: &Options) -> Result<()> {
    let begun = Instant::now();
    let guests = guests()?;
    let reads = guests.join("reads.wasm");
    let plugins = Plugins::new(None, None, (&GuestSettings::default()).into())?;
    let (mut aims, settled_us) = pool_sink(&plugins).await?;
    aims.extend(selected::bench(settled_us)?);
    reading(&plugins, &reads).await?;
    starting(&plugins, &reads, &options.components).await?;
    aims.push(beside::bench(&guests.join("wicked.wasm")).await?);
    aim::print(&aims);
    println!("\n{:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// A pool on the disk with one sink, for one side of a comparison.
struct Side {
    pool: Arc<Pool>,
    cursor: u64,
    micros: Vec<f64>,
}

impl Side {
    async fn open(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let pool = Pool::open(&folder.join("pool.db"), &Default::default()).await?;
        pool.add_sink("pool", Seq::MIN)?;
        Ok(Self {
            pool,
            cursor: 0,
            micros: Vec::new(),
        })
    }

    fn settle(&mut self, staged: Staged) -> Result<()> {
        self.cursor += 1;
        self.pool.settle(&Settlement {
            sink: "pool".into(),
            staged,
            cursor: Some(Seq::new(self.cursor)),
            ..Settlement::default()
        })?;
        Ok(())
    }
}

/// The default sink beside the same effects without it.
/// And what a batch of 100 takes.
async fn pool_sink(plugins: &Plugins) -> Result<(Vec<Aim>, f64)> {
    println!("default sink: upsert, publish, commit\n");
    let sink = Sink::default();
    let plugin = plugins.load(&sink)?;
    let mut table = Table::new(&[
        "items",
        "native us",
        "sink us",
        "more us",
        "ratio",
        "call alone us",
    ]);
    let (mut aims, mut settled_us) = (Vec::new(), f64::MAX);
    for size in SIZES {
        let folder = tempfile::tempdir_in(TARGET_TMP)?;
        let mut native = Side::open(&folder.path().join("native")).await?;
        let mut through = Side::open(&folder.path().join("through")).await?;
        let mut instance = start(&plugin, &sink, Some(&through.pool)).await?;
        let mut alone = Vec::new();
        let mut batches = Batches::new(size);
        let count = (WINDOW_ITEMS / size).clamp(1, BATCHES_MAX);
        for window in 0..WINDOWS {
            let made = batches.take(count);
            // Whoever comes second finds warmer caches: they take turns.
            for side in 0..2 {
                let begun = Instant::now();
                if (side + window) % 2 == 0 {
                    for batch in &made {
                        native.settle(Staged {
                            effects: vec![Effect::Upsert(batch.clone())],
                            publishes: vec![batch.clone()],
                            state: Vec::new(),
                            claims: Vec::new(),
                        })?;
                    }
                    native.micros.push(micros(begun.elapsed(), count));
                } else {
                    for batch in &made {
                        let taken = instance.write(batch.clone()).await?;
                        through.settle(taken.staged)?;
                    }
                    through.micros.push(micros(begun.elapsed(), count));
                }
            }
            let begun = Instant::now();
            for batch in &made {
                instance.write(batch.clone()).await?;
            }
            alone.push(micros(begun.elapsed(), count));
        }
        if native.pool.position().seq != through.pool.position().seq {
            return Err("the two pools differ".into());
        }
        let pairs = || native.micros.iter().zip(&through.micros);
        let more = median(
            &pairs()
                .map(|(native, sink)| sink - native)
                .collect::<Vec<_>>(),
        );
        let ratio = median(
            &pairs()
                .map(|(native, sink)| sink / native)
                .collect::<Vec<_>>(),
        );
        table.row([
            size.to_string(),
            format!("{:.1}", median(&native.micros)),
            format!("{:.1}", median(&through.micros)),
            format!("{more:.2}"),
            format!("{ratio:.3}"),
            format!("{:.2}", median(&alone)),
        ]);
        match size {
            1 => aims.push(Aim::at_most("the sink's share of 1 item", more, 3.0, " us")),
            100 => {
                aims.push(Aim::at_most("ratio at 100 items", ratio, 1.02, ""));
                settled_us = median(&through.micros);
            }
            _ => {}
        }
    }
    table.print();
    Ok((aims, settled_us))
}

/// What a guest pays for what it reads.
async fn reading(plugins: &Plugins, component: &Path) -> Result<()> {
    println!("\na call of a guest that reads, us\n");
    let mut table = Table::new(&["reads", "1 item", "100", "5000"]);
    for what in ["nothing", "select", "numbers", "texts", "fields", "json"] {
        let sink = Sink {
            plugin: component.display().to_string(),
            config: serde_json::json!({ "what": what }),
            ..Sink::default()
        };
        let plugin = plugins.load(&sink)?;
        let mut row = vec![what.to_owned()];
        for size in SIZES {
            row.push(format!("{:.1}", calls(&plugin, &sink, size).await?));
        }
        table.row(row);
    }
    table.print();
    Ok(())
}

/// Median time of a call with batches of this size, µs.
async fn calls(plugin: &Plugin, sink: &Sink, size: u32) -> Result<f64> {
    let mut instance = start(plugin, sink, None).await?;
    let mut batches = Batches::new(size);
    let count = (WINDOW_ITEMS / size).clamp(1, BATCHES_MAX);
    let mut times = Vec::new();
    for _ in 0..WINDOWS / 4 {
        let made = batches.take(count);
        let begun = Instant::now();
        for batch in made {
            if instance.recycle_reason().is_some() {
                instance = start(plugin, sink, None).await?;
            }
            instance.write(batch).await?;
        }
        times.push(micros(begun.elapsed(), count));
    }
    Ok(median(&times))
}

/// Compiling, instantiating, and what an instance holds.
async fn starting(plugins: &Plugins, reads: &Path, components: &[(String, String)]) -> Result<()> {
    println!("\nstarting, and batches of 100\n");
    let mut table = Table::new(&[
        "component",
        "compile ms",
        "start us",
        "memory KiB",
        "100 items us",
    ]);
    let own = [
        ("pool".to_owned(), "pool".to_owned(), "{}"),
        (
            "reads".to_owned(),
            reads.display().to_string(),
            r#"{"what": "numbers"}"#,
        ),
    ];
    let named = components
        .iter()
        .map(|(name, file)| (name.clone(), file.clone(), r#"{"least": 0}"#));
    for (name, plugin, config) in own.into_iter().chain(named) {
        let sink = Sink {
            plugin,
            config: serde_json::from_str(config)?,
            ..Sink::default()
        };
        let begun = Instant::now();
        let plugin = plugins.load(&sink)?;
        let compile = begun.elapsed();
        let mut starts = Vec::new();
        let mut memory = 0;
        for _ in 0..STARTS {
            let begun = Instant::now();
            let instance = start(&plugin, &sink, None).await?;
            starts.push(micros(begun.elapsed(), 1));
            memory = instance.memory_bytes();
        }
        table.row([
            name,
            format!("{:.0}", compile.as_secs_f64() * 1e3),
            format!("{:.0}", median(&starts)),
            (memory >> 10).to_string(),
            format!("{:.1}", calls(&plugin, &sink, 100).await?),
        ]);
    }
    table.print();
    Ok(())
}

async fn start(plugin: &Plugin, sink: &Sink, pool: Option<&Arc<Pool>>) -> Result<Instance> {
    let context = SinkContext::new(
        sink,
        pool,
        &Arc::new(Metrics::new()),
        &GuestLog::new(&sink.name),
    );
    Ok(plugin.start(&context).await?)
}

/// The upper one of the two in the middle.
fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

fn micros(time: Duration, count: u32) -> f64 {
    time.as_secs_f64() * 1e6 / f64::from(count)
}

/// The folder with the guests, compiled as plugins are.
fn guests() -> Result<PathBuf> {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/guests");
    let target = Path::new(TARGET_TMP).with_file_name("guests");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--quiet"])
        .args(["--target", "wasm32-wasip2", "--target-dir"])
        .arg(&target)
        .args(["--example", "reads", "--example", "wicked"])
        .current_dir(sources)
        .status()?;
    if !status.success() {
        return Err("the guests do not compile".into());
    }
    Ok(target.join("wasm32-wasip2/release/examples"))
}
