//! Two nodes, PostgreSQL with a standby and a load balancer: the Compose file as it stands, started by podman-compose, and the
//! commands that it begins with.
//!
//! The images of PostgreSQL and Caddy are on another machine; those programs of this one stand in for them.
//!
//! **Invariant**: a command that the file shows is run as it is shown, in its order.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use postgres_server::free_port;
use serde_json::{Map, Value, json};

use super::container::Podman;
use super::{deploy, is_root, skipped, there_are};
use crate::command_line::{finish, finish_within};
use crate::process::{Answer, Client, JSON, bearer};
use crate::program::BUILD_MAX;
use crate::wait::eventually;

/// Lays out what the images are built of.
const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/packages/servers.sh");
/// The images, and the folders that it lays out for them.
const IMAGES: [(&str, &str); 2] = [
    ("docker.io/library/postgres:17", "postgres"),
    ("docker.io/library/caddy:2", "caddy"),
];
const NODES: [&str; 2] = ["headgate-a", "headgate-b"];

/// docker, by podman and podman-compose, which has no `rm`. Nobody is at a terminal.
const DOCKER: &str = r#"#!/bin/sh
case "$1 $2" in
"compose rm")
    for service; do :; done
    exec "$TEST_PODMAN" rm --force "cluster_${service}_1"
    ;;
"compose exec")
    shift 2
    set -- exec -T "$@"
    ;;
"compose "*) shift ;;
*) exec "$TEST_PODMAN" "$@" ;;
esac
exec podman-compose --podman-path "$TEST_PODMAN" "$@"
"#;

/// What the Compose file starts.
struct Started {
    podman: Podman,
    folder: PathBuf,
    /// The load balancer's listener for senders and screens.
    service: SocketAddr,
    /// How many items were accepted.
    items: usize,
}

impl Started {
    /// Everything that it takes, and nothing started yet; `None` where the machine lacks something.
    fn prepare(test: &str) -> Option<Self> {
        if std::env::var_os("HEADGATE_TEST_CONTAINERS").is_none() {
            skipped(test, "it takes minutes; HEADGATE_TEST_CONTAINERS=1 runs it");
            return None;
        }
        let needed = ["podman-compose", "caddy", "openssl"];
        if !there_are(&needed, test) || !is_root(test) {
            return None;
        }
        let programs = postgres_server::programs_for(test)?;
        let podman = Podman::new(test)?;
        podman.build();
        let servers = podman.path("servers");
        let mut lay_out = Command::new("bash");
        finish(lay_out.arg(SERVERS).arg(programs).arg(&servers), "").ok();
        for (image, folder) in IMAGES {
            let tag = format!("--tag={image}");
            let context = servers.join(folder).display().to_string();
            let build = ["build", "--isolation=chroot", "--layers=false"];
            let names = [tag.as_str(), context.as_str()];
            podman.run(&[&build[..], &names[..]].concat()).ok();
        }
        let docker = podman.path("bin/docker");
        fs::create_dir(podman.path("bin")).expect("a folder");
        fs::write(&docker, DOCKER).expect("a file");
        fs::set_permissions(&docker, fs::Permissions::from_mode(0o755)).expect("its mode");
        let ports = [free_port(), free_port()];
        Some(Self {
            folder: copied(&podman.path("files"), ports),
            podman,
            service: SocketAddr::from(([127, 0, 0, 1], ports[0])),
            items: 0,
        })
    }

    /// Runs commands in the folder of the Compose file; what they print.
    fn run(&self, commands: &str) -> String {
        let mut path = self.podman.path("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", commands]);
        shell.current_dir(&self.folder).env("PATH", path);
        shell.env("TEST_PODMAN", self.podman.path("podman"));
        finish_within(BUILD_MAX, &mut shell, "").ok()
    }

    /// What a container of a service says of itself now.
    fn state(&self, service: &str) -> Value {
        self.podman.inspect(&container(service))
    }

    /// Waits until both nodes are ready. They may end and be started again before.
    fn both_are_ready(&self) {
        for node in NODES {
            let name = container(node);
            eventually("the node is ready", || {
                let asked = (self.podman).run(&["exec", &name, "headgate", "healthcheck"]);
                (asked.code == Some(0)).then_some(())
            });
        }
    }

    /// A secret of the file that the first commands write.
    fn secret(&self, name: &str) -> String {
        let text = fs::read_to_string(self.folder.join(".env")).expect("it is written");
        let begins = format!("{name}=");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(&begins));
        lines.next().expect("it is set").to_owned()
    }

    /// Sends an item to a node or to the load balancer.
    fn send(&self, to: SocketAddr, id: &str) -> Answer {
        let mut client = Client::connect(to).expect("it listens");
        let headers = format!("{}{JSON}", bearer(&self.secret("SHOP_KEY")));
        let body = json!({ "id": id }).to_string();
        let answer = client.request("POST", "/api/webhook/orders", &headers, &body);
        answer.expect("an answer")
    }

    /// Sends a new item to the load balancer until it is accepted. Until then a sender sees a 503, or a 502 if its request was
    /// under way to a node that is lost.
    fn accepted(&mut self, id: &str) {
        eventually("it is accepted", || {
            let answer = self.send(self.service, id);
            let is_expected = matches!(answer.status, 202 | 502 | 503);
            assert!(is_expected, "{} {}", answer.status, answer.body);
            (answer.status == 202).then_some(())
        });
        self.items += 1;
    }

    /// The service listener of a node, at its own address.
    fn node(&self, node: &str) -> SocketAddr {
        let networks = &self.state(node)["NetworkSettings"]["Networks"];
        let address = networks["cluster_default"]["IPAddress"].as_str();
        let address = address.and_then(|address| address.parse::<IpAddr>().ok());
        SocketAddr::new(address.expect("an address"), 8080)
    }

    /// Waits until both nodes show every item that was accepted.
    fn both_show_all(&self) {
        let key = self.secret("SCREEN_KEY");
        for node in NODES {
            let address = self.node(node);
            eventually("the node shows every item", || {
                let mut client = Client::connect(address).expect("it listens");
                let answer = client.get("/api/streams/orders/items", &key);
                let answer = answer.expect("an answer");
                let shown = (answer.status == 200).then(|| answer.data(200))?;
                (shown.as_array()?.len() == self.items).then_some(())
            });
        }
    }
}

/// The container of a service.
fn container(service: &str) -> String {
    format!("cluster_{service}_1")
}

/// The files as they stand, but for the ports, in a folder of the test.
fn copied(folder: &Path, ports: [u16; 2]) -> PathBuf {
    // Its name is that of the project, and so the beginning of all names.
    let to = folder.join("cluster");
    fs::create_dir_all(&to).expect("a folder");
    for file in ["Caddyfile", "db1.sh", "headgate.toml", "standby.sh"] {
        fs::copy(deploy(&format!("cluster/{file}")), to.join(file)).expect("a copy");
    }
    let mut compose = compose_file();
    for (image, _) in IMAGES {
        assert!(compose.contains(&format!("image: {image}\n")), "{image}");
    }
    for (from, port) in ["127.0.0.1:8080:", "127.0.0.1:8081:"].iter().zip(ports) {
        let published = format!("- \"{from}");
        assert!(compose.contains(&published), "{published}");
        compose = compose.replace(&published, &format!("- \"127.0.0.1:{port}:"));
    }
    fs::write(to.join("compose.yaml"), compose).expect("a file");
    fs::write(to.join("compose.override.yaml"), addresses()).expect("a file");
    to
}

/// What is added to the file: an address for each service, and the names of all. podman does not find names everywhere.
fn addresses() -> String {
    let network = format!("10.203.{}", std::process::id() % 256);
    let services = ["headgate-a", "headgate-b", "proxy", "db1", "db2"];
    let address = |at: usize| format!("{network}.{}", at + 11);
    let names = services.iter().enumerate();
    let names: Vec<String> = names
        .map(|(at, service)| format!("{service}:{}", address(at)))
        .collect();
    let services = services.iter().enumerate().map(|(at, service)| {
        let networks = json!({ "default": { "ipv4_address": address(at) } });
        let added = json!({ "networks": networks, "extra_hosts": names });
        ((*service).to_owned(), added)
    });
    let services: Map<String, Value> = services.collect();
    let subnet = format!("{network}.0/24");
    let networks = json!({ "default": { "ipam": { "config": [{ "subnet": subnet }] } } });
    json!({ "services": services, "networks": networks }).to_string()
}

fn compose_file() -> String {
    fs::read_to_string(deploy("cluster/compose.yaml")).expect("a file")
}

/// The commands that the Compose file begins with; those between two texts are run together.
fn commands() -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in compose_file()
        .lines()
        .take_while(|line| line.starts_with('#'))
    {
        let block = blocks.last_mut().expect("there is one");
        match line.strip_prefix("#   ") {
            Some(command) => {
                block.push_str(command);
                block.push('\n');
            }
            None if block.is_empty() => {}
            None => blocks.push(String::new()),
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

#[test]
fn the_compose_file_keeps_every_item_when_a_node_and_the_primary_are_lost() {
    let test = "the_compose_file_keeps_every_item_when_a_node_and_the_primary_are_lost";
    let Some(mut started) = Started::prepare(test) else {
        return;
    };
    let commands = commands();
    let [start, look, promote, replace, end] = &commands[..] else {
        panic!("other commands: {commands:#?}");
    };
    started.run(start);
    started.both_are_ready();
    let said = started.run(look);
    assert!(said.contains("Standby: db2."), "{said}");
    assert_eq!(said.matches(" live ").count(), 2, "{said}");
    assert!(said.contains("one-time link"), "{said}");

    // What a node accepts, the other one shows.
    let answer = started.send(started.node(NODES[0]), "first");
    assert_eq!(answer.status, 202, "{}", answer.body);
    started.items += 1;
    started.both_show_all();

    a_node_is_lost(&mut started);

    started.run(promote);
    started.accepted("after the primary was lost");
    started.both_show_all();
    // Who starts a node again does not start the lost server.
    started.run("docker compose stop headgate-b && docker compose start headgate-b");
    let name = container("headgate-b");
    eventually("it ends, because it has no standby", || {
        let log = started.podman.run(&["logs", &name]);
        let why = "no commit of the server waits for a standby";
        log.err.contains(why).then_some(())
    });
    assert_eq!(started.state("db1")["State"]["Running"], false);

    started.run(replace);
    started.both_are_ready();
    eventually("the node sees the new standby", || {
        let said = started.run(look);
        said.contains("Standby: db1.").then_some(())
    });
    started.accepted("with another standby");
    started.both_show_all();

    started.run(end);
    started.run("docker compose up --detach");
    started.both_are_ready();
    started.both_show_all();
    started.accepted("after the end");
    started.both_show_all();
    started.run(end);
}

/// The node that runs the sinks is killed: the other one accepts, shows and runs the sinks. It comes back with what it missed.
fn a_node_is_lost(started: &mut Started) {
    started.run("docker compose exec headgate-b headgate cluster claim a");
    started.run("docker compose kill headgate-a");
    started.accepted("after a node was lost");
    eventually("the other node runs the sinks", || {
        let said = started.run("docker compose exec headgate-b headgate cluster status");
        let mut lines = said.lines();
        lines
            .any(|line| line.starts_with("b ") && line.contains("runs them"))
            .then_some(())
    });
    started.run("docker compose start headgate-a");
    started.both_are_ready();
    started.both_show_all();
}
