//! The program at one address over all its lives, with a read key.
//!
//! **Invariant**: pages find each life where the last one was.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::process::{Answer, BY_ID, Client, Process, bearer};
use crate::setup::{Setup, key_of};

/// The read key of every daemon, for all its streams.
pub(super) const READ_KEY: &str = "rk_live_for_the_screens_of_the_tests";
/// The operate key of daemons that have one, for all their streams; its name is `desk`.
const OPERATE_KEY: &str = "ok_live_for_the_desks_of_the_tests";
/// Ports that the system gives to nobody by itself, so that one is still free after a kill.
static NEXT_PORT: AtomicU16 = AtomicU16::new(21_000);

/// A daemon and its address.
#[derive(Debug)]
pub(super) struct Daemon {
    folder: Setup,
    address: SocketAddr,
    process: Option<Process>,
}

impl Daemon {
    /// Starts one with these streams.
    pub(super) fn start(streams: &[&str]) -> Self {
        Self::start_with(streams, "")
    }

    /// Starts one that lets pages of these origins read, a TOML list.
    pub(super) fn start_for(streams: &[&str], origins: &str) -> Self {
        Self::start_with(streams, &format!("[live]\norigins = {origins}"))
    }

    /// Starts one with an operate key.
    pub(super) fn start_operated(streams: &[&str]) -> Self {
        let key = format!(
            "[[read_keys]]\nname = \"desk\"\nstreams = {streams:?}\nsecret = \"{OPERATE_KEY}\"\noperate = true"
        );
        Self::start_with(streams, &key)
    }

    /// Starts one with an operator of this name, whose token is the name behind `token-of-the-operator-`.
    pub(super) fn start_with_operator(streams: &[&str], name: &str) -> Self {
        let token = format!(
            "[[admin.tokens]]\nname = \"{name}\"\nrole = \"operator\"\nsecret = \"token-of-the-operator-{name}\""
        );
        Self::start_with(streams, &token)
    }

    fn start_with(streams: &[&str], settings: &str) -> Self {
        let folder = Setup::with_streams(streams)
            .sink("pool", "pool", "*", "")
            .given_read_key("screen", streams, READ_KEY, "")
            .toml(settings);
        let mut daemon = Self {
            folder,
            address: free_address(),
            process: None,
        };
        daemon.start_again();
        daemon
    }

    /// The next life.
    pub(super) fn start_again(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
        command
            .args(["serve", "--config", "headgate.toml"])
            .env("HEADGATE_SERVER__LISTEN", self.address.to_string());
        let process = self.folder.spawn_as(command);
        self.process = Some(process.unwrap_or_else(|ended| panic!("it did not start: {ended:?}")));
    }

    /// Ends it as a power switch would.
    pub(super) fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    /// Ends it in order.
    pub(super) fn stop(&mut self) {
        self.process.take().expect("it runs").stop();
    }

    /// The folder of its data, while it does not run.
    pub(super) fn data_dir(&self) -> &std::path::Path {
        assert!(self.process.is_none(), "it runs");
        self.folder.data_dir()
    }

    /// Takes the read key away from whoever has it.
    pub(super) fn revoke_read_key(&self) {
        self.replace_key(READ_KEY, "rk_live_for_nobody_that_the_tests_know");
    }

    /// The same of the operate key.
    pub(super) fn revoke_operate_key(&self) {
        self.replace_key(OPERATE_KEY, "ok_live_for_nobody_that_the_tests_know");
    }

    /// As an operator does: another in the file, and SIGHUP.
    fn replace_key(&self, key: &str, other: &str) {
        let file = self.folder.path("headgate.toml");
        let settings = std::fs::read_to_string(&file).expect("the configuration");
        let settings = settings.replace(key, other);
        std::fs::write(&file, settings).expect("the configuration");
        let id = i32::try_from(self.process().id()).expect("a process id");
        let pid = Pid::from_raw(id).expect("not 0");
        kill_process(pid, Signal::HUP).expect("it runs");
    }

    /// Its life of now.
    pub(super) fn process(&self) -> &Process {
        self.process.as_ref().expect("it runs")
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its origin.
    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The page that shows a stream.
    pub(super) fn page(&self, stream: &str) -> String {
        format!("http://{}/render/{stream}#{READ_KEY}", self.address)
    }

    /// The page that acts in a stream.
    pub(super) fn operate_page(&self, stream: &str) -> String {
        format!("http://{}/operate/{stream}#{OPERATE_KEY}", self.address)
    }

    /// What a path answers to who has the read key.
    pub(super) fn read(&self, path: &str) -> Value {
        let mut client = Client::connect(self.address).expect("it listens");
        let answer = client.request("GET", path, &bearer(READ_KEY), "");
        answer.expect("an answer").data(200)
    }

    /// A page of its origin that follows nothing by itself.
    pub(super) fn blank_page(&self) -> String {
        format!("http://{}/render/nothing", self.address)
    }

    /// Submits items that have their key in the field `id`.
    pub(super) fn post(&self, stream: &str, body: &str) {
        let process = self.process();
        process.accepted(stream, BY_ID, body);
    }

    /// Removes an item that is there.
    pub(super) fn remove(&self, stream: &str, key: &str) {
        self.process().removed(stream, key);
    }
}

/// Asks to remove an item, whose key needs no encoding.
pub(super) fn remove(client: &mut Client, stream: &str, key: &str) -> std::io::Result<Answer> {
    let path = format!("/api/streams/{stream}/items/{key}");
    client.request("DELETE", &path, &bearer(&key_of(stream)), "")
}

fn free_address() -> SocketAddr {
    loop {
        let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        assert!(port < 32_000, "no free port");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}
