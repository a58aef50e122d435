//! A node of the bench: a process of this program.
//!
//! **Invariant**: it does not outlive the bench. It is killed when it is dropped, and on Linux by the kernel if the bench is
//! killed. Nothing of the environment of the bench reaches its configuration but the URLs of the database.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser as _;
use rustix::process::{Pid, Signal, kill_process};

use super::place::{BenchFolder, CONFIG, DATABASE};
use super::schema::BenchSchema;
use crate::cli::error::CliError;
use crate::cli::{program, serve};
use ::client::bench::nodes::{BenchKeys, BenchNode};

/// What stands in place of a verb: no verb for people.
pub(super) const VERB: &str = "bench-node";
/// What a node prints, in its directory.
const LOG: &str = "log";
/// Lines of the log that an error has.
const LOG_LINES: usize = 20;
/// A debug build starts slowly.
const READY_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 600 } else { 60 });
/// Open requests have 30 s by default.
const STOP_MAX: Duration = Duration::from_secs(40);
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Fields of `/proc/PID/stat` before the user time, counted after the name, and the microseconds of its unit.
const STAT_FIELDS: usize = 11;
const TICK_MICROS: f64 = 10_000.0;

/// Arguments of a node.
#[derive(Debug, clap::Parser)]
#[command(name = VERB, no_binary_name = true)]
struct BenchNodeArgs {
    /// The process id of the bench
    #[arg(long)]
    parent: u32,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

/// Serves as `headgate serve` until the bench ends.
///
/// # Errors
/// As `headgate serve`.
pub(super) fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), CliError> {
    let args = BenchNodeArgs::parse_from(arguments);
    end_with(args.parent)?;
    serve::run(&args.serve)
}

/// Has the kernel kill this process when its parent ends, which may have been already.
#[cfg(target_os = "linux")]
fn end_with(parent: u32) -> Result<(), CliError> {
    let failed = |why: &dyn std::fmt::Display| CliError::failed(format!("cannot start: {why}"));
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| failed(&error))?;
    let now = rustix::process::getppid().map(Pid::as_raw_pid);
    match now.and_then(|id| u32::try_from(id).ok()) {
        Some(id) if id == parent => Ok(()),
        _ => Err(failed(&"the benchmark has ended")),
    }
}

/// This system has no such request: a bench that is killed leaves its nodes.
#[cfg(not(target_os = "linux"))]
fn end_with(_parent: u32) -> Result<(), CliError> {
    Ok(())
}

/// A node that was started.
pub(super) struct ChildNode {
    name: String,
    folder: PathBuf,
    process: Child,
    id: Pid,
}

impl ChildNode {
    /// Starts it: over the schema, or with the embedded engine.
    ///
    /// # Errors
    /// Its directory cannot be written, or the system starts no process.
    pub(super) fn start(
        folder: &BenchFolder,
        name: &str,
        keys: &BenchKeys,
        schema: Option<&BenchSchema>,
    ) -> Result<Self, CliError> {
        let folder = folder.of_node(name, keys, schema)?;
        let failed = |error: io::Error| {
            CliError::failed(format!(
                "cannot start the node {name} of the benchmark: {error}"
            ))
        };
        let log = fs::File::create(folder.join(LOG)).map_err(failed)?;
        let mut command = Command::new(program()?);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("HEADGATE_") {
                command.env_remove(variable);
            }
        }
        if let Some(schema) = schema {
            command.env(DATABASE, schema.urls());
        }
        command
            .args([VERB, "--parent", &std::process::id().to_string()])
            .args(["--config", CONFIG])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            // Ctrl-C is for the bench alone, which then ends its nodes.
            .process_group(0);
        // The kernel kills it when the thread ends that starts it: this one is there to the end.
        let process = command.spawn().map_err(failed)?;
        Ok(Self {
            name: name.to_owned(),
            folder,
            id: Pid::from_child(&process),
            process,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Waits until it can accept requests.
    ///
    /// # Errors
    /// It ended, or was not ready in time: with the last lines of its log.
    pub(super) async fn ready(&mut self, keys: &BenchKeys) -> Result<BenchNode, CliError> {
        let begun = Instant::now();
        let node = loop {
            match self.addresses() {
                Some((service, admin)) => {
                    break BenchNode::new(&self.name, &service, &admin, keys)?;
                }
                None => self.wait(begun).await?,
            }
        };
        while !node.is_ready().await {
            self.wait(begun).await?;
        }
        Ok(node)
    }

    async fn wait(&mut self, begun: Instant) -> Result<(), CliError> {
        if let Some(explained) = self.explain_end() {
            return Err(CliError::failed(explained));
        }
        if begun.elapsed() > READY_MAX {
            let what = format!("was not ready within {} s", READY_MAX.as_secs());
            return Err(CliError::failed(self.explain(&what)));
        }
        tokio::time::sleep(LOOK_PAUSE).await;
        Ok(())
    }

    /// Where the service and the admin API listen, as soon as it has printed that.
    fn addresses(&self) -> Option<(String, String)> {
        let log = self.log();
        let address = |begin: &str| {
            let (_, rest) = log.split_once(begin)?;
            let (address, _) = rest.split_once('\n')?;
            Some(address.to_owned())
        };
        Some((
            address("service listening on ")?,
            address("admin listening on ")?,
        ))
    }

    fn log(&self) -> String {
        let log = fs::read(self.folder.join(LOG)).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// How it ended, if it did.
    pub(super) fn explain_end(&mut self) -> Option<String> {
        let status = self.process.try_wait().ok()??;
        Some(self.explain(&format!("ended with {status}")))
    }

    fn explain(&self, what: &str) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        let name = &self.name;
        format!("the node {name} of the benchmark {what}; the last lines of its log:\n{last}")
    }

    /// CPU time so far of all its threads, in µs, exact to 10 ms; `None` where the system does not report it.
    pub(super) fn cpu_micros(&self) -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).ok()?;
        // The name is in brackets and can contain anything.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut ticks = fields.split_ascii_whitespace().skip(STAT_FIELDS);
        let mut next = || ticks.next()?.parse::<f64>().ok();
        Some((next()? + next()?) * TICK_MICROS)
    }

    /// Kills it.
    ///
    /// # Errors
    /// It has ended already.
    pub(super) fn kill(&self) -> Result<(), CliError> {
        kill_process(self.id, Signal::KILL).map_err(|error| {
            CliError::failed(format!("cannot kill the node {}: {error}", self.name))
        })
    }

    /// Asks it to end.
    pub(super) fn terminate(&self) {
        // It may have ended already.
        let _ = kill_process(self.id, Signal::TERM);
    }

    /// Waits for its end; what to say if it had to be killed.
    pub(super) async fn stop(mut self) -> Option<String> {
        let begun = Instant::now();
        while begun.elapsed() < STOP_MAX {
            match self.process.try_wait() {
                Ok(None) => tokio::time::sleep(LOOK_PAUSE).await,
                _ => return None,
            }
        }
        Some(format!(
            "the node {} did not end within {} s after SIGTERM and was killed",
            self.name,
            STOP_MAX.as_secs()
        ))
    }
}

impl Drop for ChildNode {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
