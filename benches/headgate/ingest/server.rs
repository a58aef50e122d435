//! The servers under measurement, as child processes: the daemon, and the empty handler.
//!
//! Called by the bench's main file; the rounds get a running [`Server`].
//!
//! **Invariant:** each start of the daemon finds what the one before left in its folder, and the same configuration
//! but for the ports.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::payload::Shape;
use super::pool::{PROBE_KEY, PROBE_STREAM, probe_request};
use crate::Result;
use crate::child::{self, Child, free_address};
use crate::daemon::{self, ADMIN_TOKEN};
use crate::http::{Client, get_json};
use crate::process::Process;

/// Longest wait for the first 202.
const START_WAIT: Duration = Duration::from_secs(60);

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
    fn start(command: Command, folder: &Path, service: SocketAddr) -> Result<Self> {
        let child = Child::start(command, folder)?;
        Ok(Self {
            process: Process::new(child.id()),
            child,
            service,
        })
    }

    /// Starts the empty handler: this executable, with another command.
    pub(crate) fn start_floor(folder: &Path) -> Result<Self> {
        let service = free_address()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["empty-handler", &service.to_string(), "--bench"]);
        Self::start_and_wait(command, folder, service)
    }

    /// Starts what listens on `service` and waits until it does.
    pub(crate) fn start_and_wait(
        command: Command,
        folder: &Path,
        service: SocketAddr,
    ) -> Result<Self> {
        let mut server = Self::start(command, folder, service)?;
        server.child.wait_for(service)?;
        Ok(server)
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
        let (service, admin) = (free_address()?, free_address()?);
        let configuration = configuration(service, admin, &self.data_dir());
        let command = daemon::command(&self.folder, &configuration)?;
        let started = Instant::now();
        let mut server = Server::start(command, &self.folder, service)?;
        let first_accepted = first_accepted(&mut server, started)?;
        Ok(Daemon {
            server,
            admin,
            first_accepted,
        })
    }

    /// Adds the end of the daemon's log to an error.
    pub(crate) fn explain(&self, error: crate::Error) -> crate::Error {
        child::explain(&self.folder, error)
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

    /// Ends it; returns how long that took.
    pub(crate) fn stop(self) -> Result<Duration> {
        self.server.child.stop()
    }

    /// Ends it; returns what it had written until then, if that can be read.
    pub(crate) fn stop_written(self) -> Result<Option<u64>> {
        let Server { child, process, .. } = self.server;
        child.stop_and_read(|| process.written_bytes().ok())
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
        } else if let Some(status) = server.child.ended()? {
            return Err(format!("the daemon ended with {status} before it answered").into());
        }
        sleep(Duration::from_micros(100));
    }
    Err(format!("failed to get a 202 within {START_WAIT:?}").into())
}

fn configuration(service: SocketAddr, admin: SocketAddr, data_dir: &Path) -> String {
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
        "[server]\nlisten = \"{service}\"\n[admin]\nlisten = \"{admin}\"\ntoken = \"{ADMIN_TOKEN}\"\n\
         [storage]\ndata_dir = {data_dir:?}\ndurability = \"fsync\"\n\
         [limits]\nrequests_per_second = 10000000\nburst = 10000000\n{streams}\
         [[connectors]]\nname = \"bench\"\nkind = \"ingest\"\nkeys = [{}]\n",
        keys.join(", "),
    )
}
