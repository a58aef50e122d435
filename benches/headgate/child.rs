//! A server as a child process that cannot outlive the bench.
//!
//! Called by whatever starts a server.
//!
//! **Invariant:** the child is killed and waited for when its [`Child`] is dropped, on a panic too, and by the
//! kernel if the bench itself is killed.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, getrlimit, kill_process,
    set_parent_process_death_signal, setrlimit, waitid,
};

use crate::Result;

/// Longest wait for a child to accept connections.
const START_WAIT: Duration = Duration::from_secs(60);

/// Longest wait for the end after SIGTERM.
const STOP_WAIT: Duration = Duration::from_secs(40);

/// The file in a child's folder with what it said.
const LOG: &str = "log";

/// Lines of a child's log that are shown with an error.
const LAST_LINES: usize = 20;

/// A running child.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    folder: PathBuf,
}

impl Child {
    /// Starts `command` in `folder`; both its outputs go to a file `log` there.
    pub(crate) fn start(mut command: Command, folder: &Path) -> Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(folder.join(LOG))?;
        command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let end_with_parent = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
        // SAFETY: the closure runs between fork and exec and makes one system call: it takes no lock, allocates
        // nothing and touches no state of the parent.
        #[expect(unsafe_code, reason = "argued above")]
        unsafe {
            command.pre_exec(end_with_parent);
        }
        Ok(Self {
            process: command.spawn()?,
            folder: folder.to_owned(),
        })
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until `address` accepts a connection.
    pub(crate) fn wait_for(&mut self, address: SocketAddr) -> Result<()> {
        self.wait_long_for(address, START_WAIT)
    }

    /// The same, not longer than this.
    pub(crate) fn wait_long_for(&mut self, address: SocketAddr, longest: Duration) -> Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = self.ended()? {
                return Err(self.explain(format!("the child ended with {status} at its start")));
            }
            if begun.elapsed() > longest {
                return Err(self.explain(format!("nobody listens on {address}")));
            }
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.process.try_wait()?)
    }

    /// Sends SIGTERM; returns how long the end took.
    pub(crate) fn stop(mut self) -> Result<Duration> {
        let begun = Instant::now();
        kill_process(Pid::from_child(&self.process), Signal::TERM)?;
        while begun.elapsed() < STOP_WAIT {
            if let Some(status) = self.ended()? {
                let took = begun.elapsed();
                return match status.code() {
                    Some(0) => Ok(took),
                    _ => Err(format!("the child ended with {status} after SIGTERM").into()),
                };
            }
            sleep(Duration::from_micros(500));
        }
        Err(format!("the child was still there {STOP_WAIT:?} after SIGTERM").into())
    }

    /// Sends SIGTERM, and reads what the kernel has counted of it when it has ended.
    pub(crate) fn stop_and_read<T>(self, read: impl FnOnce() -> T) -> Result<T> {
        let id = Pid::from_child(&self.process);
        kill_process(id, Signal::TERM)?;
        let begun = Instant::now();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while waitid(WaitId::Pid(id), options)?.is_none() && begun.elapsed() < STOP_WAIT {
            sleep(Duration::from_micros(500));
        }
        let counted = read();
        self.stop()?;
        Ok(counted)
    }

    /// Adds the end of the child's log to an error.
    pub(crate) fn explain(&self, error: impl std::fmt::Display) -> crate::Error {
        explain(&self.folder, error)
    }
}

/// Adds the last lines of the log in `folder` to an error.
pub(crate) fn explain(folder: &Path, error: impl std::fmt::Display) -> crate::Error {
    let log = std::fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let tail = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    format!("{error}\nthe server's last words:\n{tail}").into()
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A port that nobody has at the moment.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Lets this process and its children have as many open files as the system allows, and at least `files` if it
/// may raise that limit too; returns how many that are.
pub(crate) fn raise_open_files(files: usize) -> Result<usize> {
    let files = files as u64;
    let limit = getrlimit(Resource::Nofile);
    let unlimited = Rlimit {
        current: Some(files),
        maximum: Some(files),
    };
    let enough = limit.maximum.is_none_or(|maximum| maximum >= files);
    if enough || setrlimit(Resource::Nofile, unlimited).is_err() {
        let all = Rlimit {
            current: limit.maximum.or(Some(files)),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, all)?;
    }
    let current = getrlimit(Resource::Nofile).current;
    Ok(current.map_or(usize::MAX, |files| {
        usize::try_from(files).unwrap_or(usize::MAX)
    }))
}
