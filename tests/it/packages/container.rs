//! The image: its last stage is built of the tested program, and run as a container is run that may do nothing.
//!
//! The first stage, which compiles, is replaced by a folder of the script that it calls at its end.
//!
//! **Invariant**: images, containers and volumes lie in the folder of a test, and end with it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{deploy, there_are};
use crate::command_line::{Done, finish};
use crate::process::{BY_ID, Client, JSON, bearer};
use crate::setup::key_of;
use crate::wait::eventually;
use postgres_server::free_port;

/// The read key of tests.
pub(super) const SCREEN: &str = "rk_live_for_the_screen_of_a_container";

/// More than the libraries, the certificates and everything else beside the program take.
const BESIDE_BYTES_MAX: u64 = 8 << 20;

/// A podman of a test's own.
pub(super) struct Podman {
    folder: TempDir,
}

impl Podman {
    /// `None` where there is none.
    pub(super) fn new(test: &str) -> Option<Self> {
        if !there_are(&["podman", "runc"], test) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        // Bounds that every machine allows; and runc, which works with cgroups of both kinds.
        let conf = "[containers]\ndefault_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]\n\
                    [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";
        fs::write(folder.path().join("containers.conf"), conf).expect("a file");
        let podman = Self { folder };
        // What compose and the like start in podman's place.
        let begins = podman.arguments().join(" ");
        let conf = podman.path("containers.conf");
        let script = format!(
            "#!/bin/sh\nCONTAINERS_CONF={} exec podman {begins} \"$@\"\n",
            conf.display()
        );
        fs::write(podman.path("podman"), script).expect("a file");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(podman.path("podman"), mode).expect("its mode");
        Some(podman)
    }

    /// A file of the test.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn arguments(&self) -> Vec<String> {
        let at = |name: &str| self.path(name).display().to_string();
        let mut arguments = vec!["--storage-driver".to_owned(), "vfs".to_owned()];
        for (option, folder) in [
            ("--root", "storage"),
            ("--runroot", "run"),
            ("--tmpdir", "tmp"),
            ("--network-config-dir", "networks"),
        ] {
            arguments.extend([option.to_owned(), at(folder)]);
        }
        arguments
    }

    /// Runs it to its end.
    pub(super) fn run(&self, args: &[&str]) -> Done {
        finish(Command::new(self.path("podman")).args(args), "")
    }

    /// What it says of a container or an image.
    pub(super) fn inspect(&self, name: &str) -> Value {
        let said = self.run(&["inspect", name]).ok();
        let said: Value = serde_json::from_str(&said).expect("JSON");
        said[0].clone()
    }

    /// Builds the image `localhost/headgate`.
    pub(super) fn build(&self) {
        let rootfs = deploy("container/rootfs");
        let mut lay_out = Command::new(rootfs);
        lay_out.args([env!("CARGO_BIN_EXE_headgate")]);
        finish(lay_out.arg(self.path("build")), "").ok();
        let file = deploy("container/Containerfile").display().to_string();
        let context = format!("build={}", self.path("build").display());
        let built = self.run(&[
            "build",
            "--isolation=chroot",
            "--format=docker",
            "--layers=false",
            "--build-context",
            &context,
            "--file",
            &file,
            "--tag=localhost/headgate",
            env!("CARGO_MANIFEST_DIR"),
        ]);
        built.ok();
    }

    /// Waits until the daemon in a container takes requests, as an engine asks it.
    pub(super) fn healthy(&self, name: &str) {
        eventually("the container is healthy", || {
            let running = &self.inspect(name)["State"]["Running"];
            let said = || self.run(&["logs", name]);
            assert_eq!(running, true, "{:?}", said());
            let asked = self.run(&["healthcheck", "run", name]);
            (asked.code == Some(0)).then_some(())
        });
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        for args in [
            &["rm", "--all", "--force", "--time=0", "--volumes"][..],
            &["network", "prune", "--force"],
        ] {
            let _ = Command::new(self.path("podman")).args(args).output();
        }
    }
}

fn configure(folder: &Path) {
    let configuration = format!(
        "[[streams]]\nname = \"orders\"\n\
         [[connectors]]\nname = \"shop\"\nkind = \"ingest\"\n\
         keys = [{{ name = \"main\", stream = \"orders\", secret = {{ file = \"/run/secrets/shop\" }} }}]\n\
         [[read_keys]]\nname = \"screen\"\nstreams = [\"orders\"]\nsecret = \"{SCREEN}\"\n"
    );
    fs::write(folder.join("headgate.toml"), configuration).expect("a file");
    fs::write(folder.join("shop"), key_of("orders")).expect("a file");
}

/// The items of `orders`.
fn orders(address: SocketAddr) -> Vec<Value> {
    let mut client = Client::connect(address).expect("it listens");
    let answer = client.get("/api/streams/orders/items", SCREEN);
    let items = answer.expect("an answer").data(200);
    items.as_array().expect("a list").clone()
}

#[test]
fn the_image_runs_without_root_without_a_root_to_write_and_keeps_its_data() {
    let test = "the_image_runs_without_root_without_a_root_to_write_and_keeps_its_data";
    let Some(podman) = Podman::new(test) else {
        return;
    };
    podman.build();
    the_image_is_as_engines_expect(&podman);
    configure(podman.folder.path());
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mount = |file: &str, to: &str| {
        format!(
            "--volume={}:{to}:ro",
            podman.folder.path().join(file).display()
        )
    };
    for round in ["first", "second"] {
        let started = podman.run(&[
            "run",
            "--detach",
            "--name=headgate",
            "--read-only",
            "--read-only-tmpfs=false",
            "--cap-drop=all",
            "--security-opt=no-new-privileges",
            "--volume=data:/data",
            &mount("headgate.toml", "/etc/headgate/headgate.toml"),
            &mount("shop", "/run/secrets/shop"),
            &format!("--publish={address}:8080"),
            "localhost/headgate",
        ]);
        started.ok();
        podman.healthy("headgate");

        let mut client = Client::connect(address).expect("it listens");
        let headers = format!("{}{JSON}{BY_ID}", bearer(&key_of("orders")));
        let body = json!({ "id": round }).to_string();
        let sent = client.request("POST", "/api/ingest", &headers, &body);
        assert_eq!(sent.expect("an answer").status, 202);
        let expected = if round == "first" { 1 } else { 2 };
        eventually("all items are there", || {
            (orders(address).len() == expected).then_some(())
        });

        // Operators are inside, and need no argument.
        let sinks = podman.run(&["exec", "headgate", "headgate", "sink", "list"]);
        assert!(sinks.ok().contains("pool"));
        let checked = podman.run(&["exec", "headgate", "headgate", "check"]).ok();
        assert!(
            checked.contains("the configuration is valid: profile container"),
            "{checked}"
        );
        is_alone_and_may_nothing(&podman);

        podman.run(&["stop", "--time=120", "headgate"]).ok();
        let ended = podman.inspect("headgate");
        assert_eq!(ended["State"]["ExitCode"], 0, "killed, or failed");
        let log = podman.run(&["logs", "headgate"]);
        assert!(log.err.contains("\"stopped\""), "{}", log.err);
        podman.run(&["rm", "headgate"]).ok();
    }
}

fn the_image_is_as_engines_expect(podman: &Podman) {
    let image = podman.inspect("localhost/headgate");
    let config = &image["Config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["StopSignal"], "SIGTERM");
    assert_eq!(config["Entrypoint"], json!(["/usr/bin/headgate"]));
    assert_eq!(config["Cmd"], json!(["serve"]));
    assert_eq!(config["Volumes"], json!({ "/data": {} }));
    let health = &image["Healthcheck"]["Test"];
    assert_eq!(*health, json!(["CMD", "headgate", "healthcheck"]));
    let size = image["Size"].as_u64().expect("a size");
    let program = fs::metadata(env!("CARGO_BIN_EXE_headgate")).expect("the program");
    let beside = size - program.len();
    assert!(beside < BESIDE_BYTES_MAX, "{beside} bytes");
}

/// The only process of its container, without root and without rights.
fn is_alone_and_may_nothing(podman: &Podman) {
    let told = podman.run(&["top", "headgate", "user", "pid", "args"]).ok();
    let lines: Vec<&str> = told.lines().skip(1).collect();
    assert_eq!(lines.len(), 1, "{told}");
    let words: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(words, ["headgate", "1", "/usr/bin/headgate", "serve"]);
    let id = &podman.inspect("headgate")["State"]["Pid"];
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("it lives");
    for (name, value) in [("CapEff", 0), ("CapBnd", 0), ("NoNewPrivs", 1)] {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.strip_prefix(':')).map(str::trim);
        let number = u64::from_str_radix(number.expect("a line"), 16);
        assert_eq!(number, Ok(value), "{name}");
    }
}
