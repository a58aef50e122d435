//! Standard output and standard error that cannot be written: a full disk, a reader that is gone, one that stopped reading.

use std::fs::File;
use std::io::{PipeReader, pipe};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::{STREAM, folder};
use crate::process::{BY_ID, Client, value_of};
use crate::program::wait;
use crate::setup::{ADMIN_TOKEN, Setup};
use crate::wait::eventually;
use postgres_server::free_port;

/// A daemon whose output goes where a test sends it.
struct Muted {
    child: Child,
    setup: Setup,
    service: SocketAddr,
    admin: SocketAddr,
}

impl Muted {
    /// Waits until it takes requests.
    fn start(setup: Setup, stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Self {
        let [service, admin] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
        let setup = setup
            .set("server.listen", service.to_string())
            .set("admin.listen", admin.to_string())
            .set("log.level", "debug")
            .set("log.requests", true);
        let child = setup.spawn_to(stdout.into(), stderr.into());
        let muted = Self {
            child,
            setup,
            service,
            admin,
        };
        eventually("it takes requests", || {
            let ready = muted.ask(service, "/readyz").ok()?;
            (ready.0 == 200).then_some(())
        });
        muted
    }

    fn ask(&self, address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
        let answer = Client::connect(address)?.get(path, ADMIN_TOKEN)?;
        Ok((answer.status, answer.body))
    }

    fn submit(&self, key: &str) {
        let mut client = Client::connect(self.service).expect("a connection");
        let body = format!("{{\"id\": \"{key}\"}}");
        let answer = client.post(STREAM, BY_ID, &body).expect("an answer");
        assert_eq!(answer.status, 202, "{}", answer.body);
    }

    fn dropped(&self) -> f64 {
        let (_, metrics) = self.ask(self.admin, "/metrics").expect("metrics");
        value_of(&metrics, "headgate_log_lines_dropped_total").expect("a metric")
    }

    fn problems(&self) -> String {
        let (_, status) = (self.ask(self.admin, "/api/admin/status")).expect("a status");
        let status: Value = serde_json::from_str(&status).expect("JSON");
        status["data"]["problems"].to_string()
    }

    /// It has dropped lines and says so, takes requests all the same, and ends as it always does.
    fn goes_on(mut self, reason: &str) {
        for number in 0..20 {
            self.submit(&number.to_string());
        }
        assert!(self.dropped() > 0.0);
        let problems = self.problems();
        assert!(problems.contains("log lines are dropped"), "{problems}");
        assert!(problems.contains(reason), "{problems}");
        let id = i32::try_from(self.child.id()).expect("a process id");
        let id = rustix::process::Pid::from_raw(id).expect("not 0");
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("a child");
        assert_eq!(wait(&mut self.child).code(), Some(0));
        // What was accepted is there.
        assert_eq!(self.setup.items(STREAM).len(), 20);
    }
}

impl Drop for Muted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn full() -> File {
    let full = File::options().write(true).open("/dev/full");
    full.expect("a device that is always full")
}

fn piped() -> (PipeReader, Stdio) {
    let (reader, writer) = pipe().expect("a pipe");
    (reader, OwnedFd::from(writer).into())
}

#[test]
fn a_log_on_a_full_disk_costs_its_lines_and_nothing_else() {
    Muted::start(folder(), full(), full()).goes_on("No space left on device");
}

#[test]
fn a_log_whose_reader_is_gone_costs_its_lines_and_nothing_else() {
    let ((out, stdout), (err, stderr)) = (piped(), piped());
    drop((out, err));
    Muted::start(folder(), stdout, stderr).goes_on("Broken pipe");
}

#[test]
fn a_log_that_nobody_reads_holds_no_request_up() {
    let (_reader, stderr) = piped();
    let muted = Muted::start(folder(), Stdio::null(), stderr);
    // Each of these requests is a line of the log.
    let mut client = Client::connect(muted.admin).expect("a connection");
    eventually("its pipe and its memory for lines are full", || {
        for _ in 0..100 {
            let answer = client.get("/healthz", ADMIN_TOKEN);
            assert_eq!(answer.expect("an answer").status, 200);
        }
        (muted.dropped() > 0.0).then_some(())
    });
    muted.goes_on("nothing reads it");
}

#[test]
fn a_configuration_that_cannot_be_used_ends_with_2_whatever_hears_it() {
    let setup = folder().set("storage.durability", "never");
    let mut child = setup.spawn_to(full().into(), full().into());
    assert_eq!(wait(&mut child).code(), Some(2));
    // A folder that another daemon has: the reason comes after the start of the log.
    let first = folder();
    let running = first.spawn();
    let mut child = first.spawn_to(full().into(), full().into());
    assert_eq!(wait(&mut child).code(), Some(1));
    running.stop();
}
