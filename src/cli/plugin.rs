//! `headgate plugin`: what the author of a sink needs, without a daemon; and which plugins a daemon has.
//!
//! **Invariant**: a plugin's effects are printed, not done; nothing is written but the files of a new project.

mod expect;
mod new;
mod trial;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::error::CliError;
use super::output::{json_pretty, print, shown};
use super::{ConfigArgs, tentative};
use client::plugin::{
    self as added, PluginAddArgs, PluginExportArgs, PluginListArgs, PluginNameArgs,
};
use observe::metrics::Metrics;
use plugin::{Failure, FolderRoots, GuestLog, Instance, Plugin, Plugins, SinkContext};
use settings::{
    Endpoint, Folder, Host, Http, Log, Network, Postgres, Secret, Settings, Sink, Wire,
};

/// Arguments of `headgate plugin`.
#[derive(Debug, clap::Args)]
pub struct PluginArgs {
    #[command(subcommand)]
    command: PluginCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PluginCommand {
    /// Create a directory with a sink to start from
    New(new::NewArgs),
    /// Load and start a component, send it an item, and print its version and permissions
    Check(CheckArgs),
    /// Send items to a component and print what it would do with them
    Test(trial::TestArgs),
    /// List the plugins of a running daemon, used or not
    #[command(after_help = "\
Examples:
  headgate plugin list --data-dir /var/lib/headgate
  headgate plugin list --output json")]
    List(PluginListArgs),
    /// Add a component to a running daemon, or replace one that was added
    Add(PluginAddArgs),
    /// Fetch a plugin again from where it came from
    Update(PluginNameArgs),
    /// Go back to the component before the last one; a second time takes that back
    Rollback(PluginNameArgs),
    /// Remove a plugin that no sink uses
    Remove(PluginNameArgs),
    /// Write plugins into one file, for a daemon on another machine
    Export(PluginExportArgs),
}

/// Arguments of `headgate plugin check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  headgate plugin check sinks/mine.wasm
  headgate plugin check sinks/mine.wasm --settings '{\"least\": 10}' --output json")]
struct CheckArgs {
    #[command(flatten)]
    subject: Subject,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: PluginOutput,
}

/// The component and its settings.
#[derive(Debug, clap::Args)]
struct Subject {
    /// Component file, or the name of a built-in plugin
    plugin: String,
    /// `config` of the sink's section, as JSON
    #[arg(long, value_name = "JSON", default_value = "{}")]
    settings: String,
    /// Stream that it can write in the data pool, as in `writes` of the sink's section
    #[arg(long, value_name = "STREAM", default_value = "*")]
    writes: Vec<String>,
    /// Stream whose items it can make, as in `makes` of the sink's section
    #[arg(long, value_name = "STREAM")]
    makes: Vec<String>,
    /// A host that it may call over HTTP, as in `http.hosts` of the sink's section: what it sends there is really sent,
    /// also the made-up item of `check`
    #[arg(long, value_name = "HOST")]
    host: Vec<Host>,
    /// Private network that it can reach, as in `http.networks` and `wire.networks`
    #[arg(long, value_name = "NETWORK")]
    network: Vec<Network>,
    /// Secret that it can read, as in `secrets` of the sink's section; other users of this machine see it among the
    /// processes, so use a test secret
    #[arg(long, value_name = "NAME=VALUE", value_parser = secret)]
    secret: Vec<(String, Secret)>,
    /// Database that it can write to, as in `postgres.url`: postgresql://user:password@host/database; prefer
    /// the environment variable
    #[arg(
        long,
        value_name = "URL",
        env = "HEADGATE_PLUGIN_POSTGRES",
        hide_env_values = true
    )]
    postgres: Option<String>,
    /// Place that it can connect to, as in `wire.to`: what it sends there is really sent
    #[arg(long, value_name = "URL")]
    wire: Vec<Endpoint>,
    /// Folder that it can write files in, as `folder` of the sink's section; it is made if it is missing
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Directory for compiled code, so that the next run does not compile the same file again; only you can write to it;
    /// otherwise that of the data folder of the configuration, if there is one
    #[arg(long, value_name = "DIR", env = "HEADGATE_PLUGIN_CACHE")]
    cache_dir: Option<PathBuf>,
}

fn secret(text: &str) -> Result<(String, Secret), String> {
    match text.split_once('=') {
        Some((name, value)) if !value.is_empty() => Ok((name.to_owned(), Secret::new(value))),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PluginOutput {
    Text,
    Json,
}

/// Runs the verb.
///
/// # Errors
/// Exit code 2 for a plugin that cannot be used.
pub async fn run(args: PluginArgs) -> Result<(), CliError> {
    // What the guest writes is part of what its author wants to see.
    super::logging::start(&Log {
        level: "warn,headgate::guest=debug".to_owned(),
        ..Log::default()
    })?;
    match args.command {
        PluginCommand::New(args) => new::run(&args),
        PluginCommand::Check(args) => check(&args).await,
        PluginCommand::Test(args) => trial::run(&args).await,
        PluginCommand::List(args) => added::list(&args).await,
        PluginCommand::Add(args) => added::add(&args).await,
        PluginCommand::Update(args) => added::update(&args).await,
        PluginCommand::Rollback(args) => added::roll_back(&args).await,
        PluginCommand::Remove(args) => added::remove(&args).await,
        PluginCommand::Export(args) => added::export(&args).await,
    }
}

/// A plugin that was started, with what that took.
struct Started {
    plugin: Plugin,
    instance: Instance,
    load_time: Duration,
    start_time: Duration,
}

impl Started {
    /// What is known of it before it is tried.
    fn report(&self) -> Value {
        let (limits, descriptor) = (self.plugin.limits(), self.instance.descriptor());
        json!({
            "plugin": null,
            "name": descriptor.name,
            "version": descriptor.version,
            "bytes": null,
            "sha256": self.plugin.sha256(),
            "imports": self.plugin.imports(),
            "exports": self.plugin.exports(),
            "asks_for_pool": self.plugin.asks_for_pool(),
            "limits": {
                "memory_max_bytes": limits.memory_bytes_max,
                "cpu_timeout_ms": limits.cpu_time_max.as_millis(),
                "write_timeout_ms": limits.call_time_max.as_millis(),
            },
            "trial": null,
            "config_schema": null,
            "memory_bytes": null,
            "load_ms": self.load_time.as_secs_f64() * 1e3,
            "start_ms": self.start_time.as_secs_f64() * 1e3,
        })
    }
}

impl Subject {
    async fn start(&self) -> Result<Started, CliError> {
        let wrong = |error: &dyn std::fmt::Display| CliError::wrong_use(shown(&error.to_string()));
        let config: Value = serde_json::from_str(&self.settings)
            .map_err(|error| wrong(&format!("--settings is not JSON: {error}")))?;
        let limits = &Settings::default().plugins;
        let plugins = match &self.cache_dir {
            Some(folder) => {
                let folder = Plugins::cache_within(folder).map_err(|error| wrong(&error))?;
                let program = super::program()?;
                Plugins::new(Some(&folder), Some(&program), limits.into())
                    .map_err(|error| wrong(&error))?
            }
            None => super::plugins(&data_dir(), limits.into())?,
        };
        let folder = self.folder.as_ref().map(std::path::absolute).transpose();
        let folder = folder.map_err(|error| wrong(&error))?;
        let plugins = plugins.with_roots(FolderRoots::only(folder.as_deref()));
        let sink = Sink {
            name: "test".to_owned(),
            plugin: self.plugin.clone(),
            config,
            writes: Some(self.writes.clone()),
            makes: self.makes.clone(),
            // Whoever tries a plugin out wants to see it start; without hosts it can call nobody.
            http: Some(Http {
                hosts: self.host.iter().map(ToString::to_string).collect(),
                networks: self.network.iter().map(ToString::to_string).collect(),
                ..Http::default()
            }),
            postgres: self.postgres.as_ref().map(|url| Postgres {
                url: Secret::new(url),
                ..Postgres::default()
            }),
            wire: Some(Wire {
                to: self.wire.iter().map(ToString::to_string).collect(),
                networks: self.network.iter().map(ToString::to_string).collect(),
            }),
            folder: folder.map(|path| Folder {
                path: path.to_string_lossy().into_owned(),
            }),
            secrets: self.secret.iter().cloned().collect(),
            ..Sink::default()
        };
        let before = Instant::now();
        let plugin = plugins.load(&sink).map_err(|error| wrong(&error))?;
        let load_time = before.elapsed();
        let metrics = Arc::new(Metrics::new());
        let context = SinkContext::new(&sink, None, &metrics, &GuestLog::new(&sink.name));
        let before = Instant::now();
        let instance = plugin
            .start(&context)
            .await
            .map_err(|error| wrong(&error))?;
        Ok(Started {
            plugin,
            instance,
            load_time,
            start_time: before.elapsed(),
        })
    }
}

/// The data folder that the configuration of this directory names, whatever else is wrong with it.
fn data_dir() -> PathBuf {
    let file = std::env::var_os("HEADGATE_CONFIG").map(PathBuf::from);
    let args = ConfigArgs::of_file(file);
    let read = tentative(&args, Vec::new());
    read.map_or_else(PathBuf::new, |loaded| loaded.settings.storage.data_dir)
}

/// What a component is given to try it out.
const TRIAL: &[u8] =
    br#"{"id": "trial", "number": 1.5, "text": "a text", "yes": true, "nothing": null}"#;

async fn check(args: &CheckArgs) -> Result<(), CliError> {
    let mut started = args.subject.start().await?;
    let memory_bytes = started.instance.memory_bytes();
    let batch = trial::batch_of(TRIAL, "trial", None, 1).map_err(CliError::failed)?;
    let result = started.instance.write(batch).await;
    let summary = trial::summary(&result, 1);
    let trapped = result.is_err_and(|failed| matches!(failed.failure, Failure::Trap { .. }));
    report(args, &started, memory_bytes, &summary)?;
    if trapped {
        return Err(CliError::wrong_use(format!(
            "the trial run {}",
            shown(&summary)
        )));
    }
    Ok(())
}

fn report(
    args: &CheckArgs,
    started: &Started,
    memory_bytes: usize,
    summary: &str,
) -> Result<(), CliError> {
    let limits = started.plugin.limits();
    let descriptor = started.instance.descriptor();
    let imports = started.plugin.imports();
    let path = PathBuf::from(&args.subject.plugin);
    let bytes = std::fs::metadata(&path).ok().map(|file| file.len());
    let asks_for_pool = started.plugin.asks_for_pool();
    let schema: Value = serde_json::from_str(&descriptor.config_schema).unwrap_or(Value::Null);
    if args.output == PluginOutput::Json {
        let mut report = started.report();
        report["plugin"] = args.subject.plugin.as_str().into();
        report["bytes"] = bytes.into();
        report["trial"] = summary.into();
        report["config_schema"] = schema;
        report["memory_bytes"] = memory_bytes.into();
        return print(&json_pretty(&report)?);
    }
    let size = bytes.map_or("built in".to_owned(), |bytes| format!("{bytes} bytes"));
    let mut text = format!(
        "{} {}, {size}\nsha256 = \"{}\"\n\nloaded in {:.0} ms, started in {:.1} ms, {} KiB of memory\n\nasks for:\n",
        shown(&descriptor.name),
        shown(&descriptor.version),
        started.plugin.sha256(),
        started.load_time.as_secs_f64() * 1e3,
        started.start_time.as_secs_f64() * 1e3,
        memory_bytes / 1_024,
    );
    let list = |text: &mut String, names: Vec<String>| {
        for name in names {
            text.push_str(&format!("  {}\n", shown(&name)));
        }
    };
    list(&mut text, imports);
    if asks_for_pool {
        text.push_str("\ncan write the data pool; its section lists the allowed streams: writes = [\"orders\"]\n");
    }
    text.push_str("\nhas:\n");
    list(&mut text, started.plugin.exports());
    text.push_str(&format!(
        "\nlimits of a call, unless its section sets others: {} MiB of memory, {} ms of CPU time, {} ms in total\n",
        limits.memory_bytes_max >> 20,
        limits.cpu_time_max.as_millis(),
        limits.call_time_max.as_millis(),
    ));
    text.push_str(match schema {
        Value::Null => "\nhas no settings\n",
        _ => "\nhas settings, and these are valid; --output json shows the schema\n",
    });
    text.push_str(&format!("\ntried with one item: it {}\n", shown(summary)));
    print(&text)
}
