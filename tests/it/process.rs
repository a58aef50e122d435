//! The real program in a process of its own, for tests that kill it, starve it or give it hostile plugins.
//!
//! A [`Setup`] holds the configuration and the data of one daemon; a [`Process`] is one life of it. Everything goes
//! over real sockets with a small blocking client.
//!
//! **Invariant**: a process never outlives its [`Process`].
#![expect(
    clippy::disallowed_methods,
    reason = "blocking helpers around a child process: they poll"
)]

mod client;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Lines, RUN_MAX, ends_within};
use crate::setup::{Setup, key_of};

pub(crate) use client::{Answer, Client};

/// Longest wait for anything that should happen at once, on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(180);
/// How much of its log a process is remembered by.
const LOG_BYTES_MAX: usize = 1 << 20;

/// Polls until `found` has something, or fails with `what` after [`DEADLINE`].
pub(crate) fn eventually<T>(what: &str, found: impl FnMut() -> Option<T>) -> T {
    eventually_within(DEADLINE, || what.to_owned(), found)
}

/// The same for what takes longer; `what` is asked when it was in vain.
pub(crate) fn eventually_within<T>(
    deadline: Duration,
    what: impl FnOnce() -> String,
    mut found: impl FnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        if started.elapsed() >= deadline {
            panic!("in vain: {}", what());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

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
    setup: Setup,
    log: Arc<Mutex<String>>,
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
        let log = Arc::new(Mutex::new(String::new()));
        let (ended, log_ended) = mpsc::channel();
        let stderr = child.stderr.take().expect("piped");
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stderr);
            let mut line = Vec::new();
            while lines
                .read_until(b'\n', &mut line)
                .is_ok_and(|read| read > 0)
            {
                let mut kept = kept.lock().expect("no panic while held");
                if kept.len() < LOG_BYTES_MAX {
                    kept.push_str(&String::from_utf8_lossy(&line));
                }
                line.clear();
            }
            let _ = ended.send(());
        });
        let stdout = child.stdout.take().expect("piped");
        let lines = Lines::of(stdout);
        let address = |begin: &str| {
            let line = lines.next_within(RUN_MAX)?;
            let address = line
                .strip_prefix(begin)?
                .strip_prefix(" listening on http://")?;
            address.parse::<SocketAddr>().ok()
        };
        let (service, admin) = (address("service"), address("admin"));
        let (Some(service), Some(admin)) = (service, admin) else {
            let status = ends_within(DEADLINE, &mut child);
            let _ = log_ended.recv_timeout(DEADLINE);
            let log = log.lock().expect("no panic while held").clone();
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

    /// The link to sign in with that it printed; once.
    pub(crate) fn sign_in_link(&self) -> String {
        let printed = self.printed.lock().expect("no panic while held");
        loop {
            let line = printed.next_within(DEADLINE).expect("it prints a link");
            if let Some((_, link)) = line.split_once("sign in within ten minutes, once: ") {
                return link.to_owned();
            }
        }
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

    /// What it wrote to standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("no panic while held").clone()
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
        let _ = self.log_ended.recv_timeout(DEADLINE);
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

    /// Submits a body to a stream; the answer's status and body.
    pub(crate) fn post(&self, stream: &str, headers: &str, body: &str) -> Answer {
        let mut client = Client::connect(self.service).expect("the daemon listens");
        client.post(stream, headers, body).expect("an answer")
    }

    /// Submits a body that must be accepted; its request id.
    pub(crate) fn accepted(&self, stream: &str, headers: &str, body: &str) -> String {
        let answer = self.post(stream, headers, body);
        assert_eq!(answer.status, 202, "{}", answer.body);
        answer.request_id()
    }

    /// Removes an item; the request id.
    pub(crate) fn removed(&self, stream: &str, key: &str) -> String {
        let mut client = Client::connect(self.service).expect("the daemon listens");
        let path = format!("/api/streams/{stream}/items/{key}");
        let answer = client.call("DELETE", &path, &key_of(stream), "");
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 202, "{}", answer.body);
        answer.request_id()
    }

    /// What the admin listener answers. A daemon that has met damage says so and starts again: it is away for a moment.
    fn try_get(&self, path: &str) -> Option<Answer> {
        let mut client = Client::connect(self.admin).ok()?;
        let answer = client.get(path, &self.setup.admin_token()).ok()?;
        (answer.status != 503).then_some(answer)
    }

    fn get(&self, path: &str) -> Answer {
        let answer = eventually("the daemon answers", || self.try_get(path));
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer
    }

    /// Gets something from the admin API; what stands under `data`.
    pub(crate) fn admin(&self, path: &str) -> Value {
        self.get(path).json()["data"].take()
    }

    /// The metrics, as text.
    pub(crate) fn metrics(&self) -> String {
        self.get("/metrics").body
    }

    /// Waits until the files were looked through: damage is repaired then, whoever met it.
    pub(crate) fn looked_through(&self) {
        const SERIES: &str = "headgate_files_checked_timestamp_seconds ";
        eventually("the files are looked through", || {
            let metrics = self.try_get("/metrics")?.body;
            let at = metrics.lines().find_map(|line| line.strip_prefix(SERIES))?;
            (at != "0").then_some(())
        });
    }

    /// Calls the admin API.
    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut client = Client::connect(self.admin).expect("the daemon listens");
        let answer = client.call(method, path, &self.setup.admin_token(), body);
        answer.expect("an answer")
    }

    /// Calls the admin API of a daemon that may be gone; the status of the answer, if there is one.
    pub(crate) fn try_call(&self, method: &str, path: &str, body: &str) -> Option<u16> {
        let mut client = Client::connect(self.admin).ok()?;
        let answer = client
            .call(method, path, &self.setup.admin_token(), body)
            .ok()?;
        Some(answer.status)
    }

    /// How a sink is.
    pub(crate) fn sink(&self, name: &str) -> Value {
        let Value::Array(sinks) = self.admin("/api/admin/sinks") else {
            panic!("not a list");
        };
        let sink = sinks.into_iter().find(|sink| sink["name"] == name);
        sink.expect("a sink of this name")
    }

    /// Waits until a sink is as wanted.
    pub(crate) fn sink_becomes(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        eventually_within(
            DEADLINE,
            || {
                let sink = self.sink(name);
                format!(
                    "the sink {name} becomes {what}; it is {sink}\n{}",
                    self.log()
                )
            },
            || Some(self.sink(name)).filter(&wanted),
        )
    }

    /// Waits until nothing waits for any sink, retries included.
    pub(crate) fn drained(&self) {
        eventually_within(
            DEADLINE,
            || {
                let sinks = self.admin("/api/admin/sinks");
                format!("the sinks have everything: {sinks}\n{}", self.log())
            },
            || self.is_drained().then_some(()),
        );
    }

    /// Whether every sink has everything.
    pub(crate) fn is_drained(&self) -> bool {
        let Value::Array(sinks) = self.admin("/api/admin/sinks") else {
            return false;
        };
        let done = |sink: &Value| sink["lag"] == 0 && sink["retries"] == 0;
        sinks.iter().all(done)
    }

    /// A sink's dead letters, newest first.
    pub(crate) fn dead_letters(&self, sink: &str) -> Vec<Value> {
        match self.admin(&format!("/api/admin/sinks/{sink}/dead-letters?limit=500")) {
            Value::Array(letters) => letters,
            other => panic!("not a list: {other}"),
        }
    }

    /// A request as the admin API tells of it.
    pub(crate) fn request(&self, request_id: &str) -> Value {
        self.admin(&format!("/api/admin/requests/{request_id}"))
    }

    /// Waits until a request has this status.
    pub(crate) fn request_becomes(&self, request_id: &str, status: &str) -> Value {
        eventually_within(
            DEADLINE,
            || {
                let request = self.request(request_id);
                format!(
                    "a request becomes {status}; it is {request}\n{}",
                    self.log()
                )
            },
            || Some(self.request(request_id)).filter(|request| request["status"] == status),
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The items of a stream in the pool of a data folder, by key: key, fields, request id.
pub(crate) fn items(data_dir: &Path, stream: &str) -> Vec<(String, Value, String)> {
    let rows = pool_rows(data_dir, stream).into_iter();
    rows.map(|row| {
        let fields = serde_json::from_str(&row.fields).expect("fields are JSON");
        (row.key, fields, row.request_id)
    })
    .collect()
}

/// A row of the table `items`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) key: String,
    pub(crate) fields: String,
    pub(crate) seq: i64,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) request_id: String,
}

/// The items of a stream in a pool, by key, as any SQLite client reads them.
pub(crate) fn pool_rows(data_dir: &Path, stream: &str) -> Vec<Item> {
    let pool = read_only(&data_dir.join("pool.db"));
    let sql = "SELECT key, fields, seq, created_at, updated_at, request_id FROM items \
               WHERE stream = ?1 ORDER BY key";
    let mut statement = pool.prepare(sql).expect("the table items");
    let rows = statement.query_map([stream], |row| {
        Ok(Item {
            key: row.get(0)?,
            fields: row.get(1)?,
            seq: row.get(2)?,
            created_at: row.get(3)?,
            updated_at: row.get(4)?,
            request_id: row.get(5)?,
        })
    });
    rows.expect("the table can be read")
        .collect::<Result<_, _>>()
        .expect("every row can be read")
}

/// Opens a database as a reader beside the daemon.
pub(crate) fn read_only(path: &Path) -> rusqlite::Connection {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = rusqlite::Connection::open_with_flags(path, flags).expect("a database");
    connection
        .busy_timeout(DEADLINE)
        .expect("a setting of SQLite");
    connection
}

/// Says loudly that a test did not run; on machines that set `CI` a test may only be skipped for a reason that lies
/// in what the machine permits.
pub(crate) fn skipped(test: &str, reason: &str) {
    // Not eprintln!, which the test harness keeps to itself while tests pass.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}
