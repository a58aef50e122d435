//! The servers under measurement, as child processes: the daemon, and the empty handler.
//!
//! Called by the bench's main file; the rounds get a running [`Server`].
//!
//! **Invariant:** a child never outlives its [`Server`]; the daemon sees no setting of the user's environment or
//! working folder, only the configuration file written here.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Result;
use crate::floor;
use crate::http::{Client, get_json};
use crate::payload::Shape;
use crate::pool::{PROBE_KEY, PROBE_STREAM, probe_request};
use crate::process::Process;

/// Longest wait for the line that says where a child listens, or for the first 202.
const START_WAIT: Duration = Duration::from_secs(60);

/// Longest wait for the end after SIGTERM.
const STOP_WAIT: Duration = Duration::from_secs(40);

const ADMIN_TOKEN: &str = "bench-admin-token-0123456789abcdef";

/// A running child that listens on loopback.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Where requests go.
    pub(crate) service: SocketAddr,
    /// Its counters under `/proc`.
    pub(crate) process: Process,
}

impl Server {
    /// Starts the empty handler: this executable, with another first argument.
    pub(crate) fn start_floor() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(floor::ARGUMENT).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let lines = read_lines(&mut child);
        let process = Process::new(child.id());
        let service = address(&mut child, &lines, "service")?;
        Ok(Self {
            child,
            service,
            process,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder of one daemon: configuration, data, log.
#[derive(Debug)]
pub(crate) struct Home {
    folder: PathBuf,
}

/// A running daemon.
#[derive(Debug)]
pub(crate) struct Daemon {
    /// The child.
    pub(crate) server: Server,
    admin: SocketAddr,
    /// From starting the executable to the first 202.
    pub(crate) first_accepted: Duration,
}

impl Home {
    /// Makes an empty one at `folder`.
    pub(crate) fn create(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(folder.join("data"))?;
        Ok(Self { folder })
    }

    /// Where `journal.db` and `pool.db` are.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Starts the daemon and sends requests until one is answered 202.
    pub(crate) fn start(&self) -> Result<Daemon> {
        // A port that is known beforehand, so that the first request need not wait for the line on stdout.
        let service = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = self.folder.join("headgate.toml");
        fs::write(&config, configuration(service, &self.data_dir()))?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("log"))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HEADGATE_") {
                command.env_remove(name);
            }
        }
        command
            .args(["serve", "--config"])
            .arg(&config)
            .env("HEADGATE_PROFILE", "production")
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let started = Instant::now();
        let mut child = command.spawn()?;
        let lines = read_lines(&mut child);
        let mut server = Server {
            process: Process::new(child.id()),
            child,
            service,
        };
        let first_accepted = first_accepted(&mut server, started)?;
        let admin = address(&mut server.child, &lines, "admin")?;
        Ok(Daemon {
            server,
            admin,
            first_accepted,
        })
    }

    /// Adds the end of the daemon's log to an error.
    pub(crate) fn explain(&self, error: crate::Error) -> crate::Error {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(20)..].join("\n");
        format!("{error}\nthe daemon's last words:\n{tail}").into()
    }
}

impl Daemon {
    /// What the pool's sink has yet to take, in journal entries, as the admin listener says.
    pub(crate) fn pool_lag(&self) -> Result<u64> {
        let answer = get_json(self.admin, "/api/admin/sinks", ADMIN_TOKEN)?;
        answer["data"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|sink| sink["name"] == "pool")
            .and_then(|sink| sink["lag"].as_u64())
            .ok_or_else(|| format!("no lag for the sink pool in {answer}").into())
    }

    /// Sends SIGTERM; returns how long the end took.
    pub(crate) fn stop(mut self) -> Result<Duration> {
        let begun = Instant::now();
        let child = &mut self.server.child;
        rustix::process::kill_process(
            rustix::process::Pid::from_child(child),
            rustix::process::Signal::TERM,
        )?;
        while begun.elapsed() < STOP_WAIT {
            if let Some(status) = child.try_wait()? {
                let took = begun.elapsed();
                return match status.code() {
                    Some(0) => Ok(took),
                    _ => Err(format!("the daemon ended with {status} after SIGTERM").into()),
                };
            }
            sleep(Duration::from_micros(500));
        }
        Err(format!("the daemon was still there {STOP_WAIT:?} after SIGTERM").into())
    }
}

/// Connects and sends until the answer is 202.
fn first_accepted(server: &mut Server, started: Instant) -> Result<Duration> {
    let request = probe_request("start");
    while started.elapsed() < START_WAIT {
        if let Ok(mut client) = Client::connect(server.service) {
            match client.exchange(&request) {
                Ok((202, _)) => return Ok(started.elapsed()),
                Ok((503, _)) | Err(_) => {}
                Ok((status, body)) => {
                    let body = String::from_utf8_lossy(body);
                    return Err(format!("the first request was answered {status}: {body}").into());
                }
            }
        } else if let Some(status) = server.child.try_wait()? {
            return Err(format!("the daemon ended with {status} before it answered").into());
        }
        sleep(Duration::from_micros(100));
    }
    Err(format!("failed to get a 202 within {START_WAIT:?}").into())
}

/// Waits for `NAME listening on http://ADDRESS`.
fn address(child: &mut Child, lines: &Receiver<String>, name: &str) -> Result<SocketAddr> {
    let prefix = format!("{name} listening on http://");
    let begun = Instant::now();
    while let Ok(line) = lines.recv_timeout(START_WAIT.saturating_sub(begun.elapsed())) {
        if let Some(address) = line.strip_prefix(&prefix) {
            return Ok(address.trim().trim_end_matches('/').parse()?);
        }
    }
    let state = child.try_wait()?;
    Err(format!("failed to read a line `{prefix}ADDRESS` from the child (exit: {state:?})").into())
}

/// Reads standard output to its end, so that the child never waits for a full pipe.
fn read_lines(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(|line| line.ok()) {
                let _ = sender.send(line);
            }
        });
    }
    receiver
}

fn configuration(service: SocketAddr, data_dir: &Path) -> String {
    let names: Vec<&str> = Shape::ALL
        .iter()
        .map(|shape| shape.name())
        .chain([PROBE_STREAM])
        .collect();
    let streams: String = names
        .iter()
        .map(|name| format!("[[streams]]\nname = \"{name}\"\n"))
        .collect();
    let secrets = Shape::ALL
        .iter()
        .map(|shape| shape.ingest_key())
        .chain([PROBE_KEY.to_owned()]);
    let keys: Vec<String> = names
        .iter()
        .zip(secrets)
        .map(|(name, secret)| {
            format!("{{ name = \"{name}\", stream = \"{name}\", secret = \"{secret}\" }}")
        })
        .collect();
    format!(
        "[server]\nlisten = \"{service}\"\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"{ADMIN_TOKEN}\"\n\
         [storage]\ndata_dir = {data_dir:?}\ndurability = \"fsync\"\n\
         [limits]\nrequests_per_second = 10000000\nburst = 10000000\n{streams}\
         [[connectors]]\nname = \"bench\"\nkind = \"ingest\"\nkeys = [{}]\n",
        keys.join(", "),
    )
}
