//! The real program in a process of its own, for tests that kill it, starve it or give it hostile plugins.
//!
//! A [`Setup`] holds the configuration and the data of one daemon; a [`Process`] is one life of it. Everything goes
//! over real sockets with a small blocking client.
//!
//! **Invariant**: a process never outlives its [`Process`].

mod asked;
mod client;
mod log;

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Lines, RUN_MAX, ends_within};
use crate::setup::Setup;
use crate::wait::{PROCESS_DEADLINE, eventually, eventually_within};

pub(crate) use asked::value_of;
pub(crate) use client::{Answer, BY_ID, Client, JSON, bearer};
use log::Log;

/// What stands before a link to sign in.
pub(crate) const INVITATION: &str = "one-time link, valid for 10 minutes: ";

/// Sets a flag when it is dropped: threads that wait for it end also when the test fails.
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// How a process ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit status.
    pub(crate) status: ExitStatus,
    /// Its standard error.
    pub(crate) log: String,
}

/// One life of a daemon.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// What is configured, and where it lives.
    pub(crate) setup: Setup,
    log: Arc<Log>,
    log_ended: mpsc::Receiver<()>,
    /// The lines of standard output after the addresses.
    printed: Mutex<Lines>,
    /// Where requests go.
    pub(crate) service: SocketAddr,
    /// Where the admin API is.
    pub(crate) admin: SocketAddr,
}

impl Process {
    /// Waits until it listens; [`Setup::spawn`] is what tests call.
    pub(crate) fn watch(mut child: Child, setup: Setup) -> Result<Self, Ended> {
        let log = Arc::new(Log::of(child.stderr.take()));
        let (ended, log_ended) = mpsc::channel();
        let read = Arc::clone(&log);
        std::thread::spawn(move || {
            read.to_its_end();
            let _ = ended.send(());
        });
        let stdout = child.stdout.take().expect("piped");
        let lines = Lines::of(stdout);
        let address = |begin: &str| {
            let line = lines.next_within(RUN_MAX)?;
            let address = line
                .strip_prefix(begin)?
                .strip_prefix(" listening on ")?
                .split_once("://")?
                .1;
            address.parse::<SocketAddr>().ok()
        };
        let (service, admin) = (address("service"), address("admin"));
        let (Some(service), Some(admin)) = (service, admin) else {
            let status = ends_within(PROCESS_DEADLINE, &mut child);
            let _ = log_ended.recv_timeout(PROCESS_DEADLINE);
            let log = log.so_far();
            let status = status.unwrap_or_else(|| panic!("it neither listens nor ends:\n{log}"));
            return Err(Ended { status, log });
        };
        Ok(Self {
            child,
            setup,
            log,
            log_ended,
            printed: Mutex::new(lines),
            service,
            admin,
        })
    }

    /// A link that signs in to the pages, once.
    pub(crate) fn sign_in_link(&self) -> String {
        let told = crate::command_line::operate(self, ["sign-in"]).ok();
        let (_, link) = told.split_once(INVITATION).expect("a link");
        link.trim().to_owned()
    }

    /// The next line of standard output after the addresses.
    pub(crate) fn printed(&self) -> String {
        let printed = self.printed.lock().expect("no panic while held");
        printed.next_within(PROCESS_DEADLINE).expect("a line")
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kilobytes.expect("a line").parse::<u64>().expect("a number") << 10
    }

    /// What it wrote to standard error so far: what it wrote before it answered is in it.
    pub(crate) fn log(&self) -> String {
        self.log.so_far()
    }

    /// Waits until its log says something: what it writes after an answer, or beside it, may be still to come.
    pub(crate) fn says(&self, words: &str) {
        eventually_within(
            PROCESS_DEADLINE,
            || format!("it says {words}: {}", self.log()),
            || self.log().contains(words).then_some(()),
        );
    }

    /// Ends it as a power switch would, only that the operating system lives on.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGHUP.
    pub(crate) fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        let pid = Pid::from_raw(id).expect("not 0");
        kill_process(pid, signal).expect("a child");
    }

    /// Waits for the end.
    pub(crate) fn ended(mut self) -> Ended {
        let status = eventually("the process ends", || {
            self.child.try_wait().expect("a child")
        });
        let _ = self.log_ended.recv_timeout(PROCESS_DEADLINE);
        let log = self.log();
        Ended { status, log }
    }

    /// SIGTERM, and the exit code must be 0.
    pub(crate) fn stop(self) {
        self.terminate();
        let ended = self.ended();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    }

    /// Whether it is still there.
    pub(crate) fn lives(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says loudly that a test did not run; on machines that set `CI` a test may only be skipped for a reason that lies
/// in what the machine permits.
pub(crate) fn skipped(test: &str, reason: &str) {
    // Not eprintln!, which the test harness keeps to itself while tests pass.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}
