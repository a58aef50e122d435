//! Hosts in network namespaces, whose links to others can be cut.
//!
//! Each host has two links: one to a network where senders and receivers are, and one to a network of the database. The bridges
//! of both are in a namespace of their own, so that no rule of the machine is between hosts. It needs root and `ip`; where
//! namespaces cannot be made tests are skipped and say so, and with `CI` set that is a failure.
//!
//! **Invariant**: nothing is left of a network when it is dropped, and nothing of the machine's own networks is changed.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

use postgres_server::Place;

use crate::process::skipped;
use crate::program::output;
use crate::setup::Setup;

/// Bridges are named by where they lead, and so are the links of hosts.
const FRONT: &str = "front";
const BACK: &str = "back";
/// What the tests have of each network; hosts follow.
const TESTS: u8 = 1;

/// How a link fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The other end is switched off: the host sees that its link is down.
    Down,
    /// Packets are lost, and nobody sees why.
    Silent,
}

/// The networks.
#[derive(Debug)]
pub(super) struct Net {
    /// Names of namespaces and of the tests' own links begin with it.
    name: String,
    /// The third number of all addresses.
    number: u8,
    hosts: u8,
}

/// A host of it.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// Its namespace.
    namespace: String,
    /// Its links at the bridges end with it.
    link: String,
    /// Where senders reach it.
    pub(super) front: Ipv4Addr,
    /// Where the database and its clients reach it.
    back: Ipv4Addr,
}

impl Host {
    /// The file of its namespace.
    fn file(&self) -> String {
        format!("/run/netns/{}", self.namespace)
    }

    /// Where a database server runs on it.
    pub(super) fn place(&self) -> Place {
        Place {
            namespace: self.file(),
            host: self.back.to_string(),
        }
    }

    /// What starts the daemon on it, whose process it becomes.
    pub(super) fn daemon(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.file()));
        command.args(["--", env!("CARGO_BIN_EXE_headgate")]);
        command.args(["serve", "--config", "headgate.toml"]);
        command
    }

    /// The daemon listens where senders reach it.
    pub(super) fn listening(&self, setup: Setup) -> Setup {
        let listen = format!("{}:0", self.front);
        setup
            .set("server.listen", listen.as_str())
            .set("admin.listen", listen.as_str())
    }
}

impl Net {
    /// Networks without hosts; `None` where they cannot be made and need not be.
    pub(super) fn new(test: &str) -> Option<Self> {
        static MADE: AtomicU8 = AtomicU8::new(0);
        let id = std::process::id();
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let [.., last] = id.wrapping_add(u32::from(made)).to_be_bytes();
        let net = Self {
            // As short as names of links must be.
            name: format!("hg{id}x{made}"),
            number: last,
            hosts: 0,
        };
        let Err(reason) = net.make() else {
            return Some(net);
        };
        assert!(std::env::var_os("CI").is_none(), "{test}: {reason}");
        skipped(test, &format!("no network namespaces: {reason}"));
        None
    }

    fn make(&self) -> Result<(), String> {
        let hub = self.hub();
        ip(&["netns", "add", &hub])?;
        for bridge in [FRONT, BACK] {
            let name = self.own_link(bridge);
            ip(&[
                "-n",
                &hub,
                "link",
                "add",
                "dev",
                bridge,
                "type",
                "bridge",
                "forward_delay",
                "0",
            ])?;
            ip(&["-n", &hub, "link", "set", "dev", bridge, "up"])?;
            ip(&[
                "link",
                "add",
                "dev",
                &name,
                "type",
                "veth",
                "peer",
                "name",
                &to("tests", bridge),
                "netns",
                &hub,
            ])?;
            self.plug("tests", bridge)?;
            let address = format!("{}/24", self.address(bridge, TESTS));
            ip(&["addr", "add", &address, "dev", &name])?;
            ip(&["link", "set", "dev", &name, "up"])?;
        }
        Ok(())
    }

    /// The tests' own address where senders are.
    pub(super) fn front(&self) -> Ipv4Addr {
        self.address(FRONT, TESTS)
    }

    /// A host with this name of a few letters.
    pub(super) fn host(&mut self, name: &str) -> Host {
        self.hosts += 1;
        let number = TESTS + self.hosts;
        let host = Host {
            namespace: format!("{}-{name}", self.name),
            link: name.to_owned(),
            front: self.address(FRONT, number),
            back: self.address(BACK, number),
        };
        let (hub, own) = (self.hub(), &host.namespace);
        let made = || -> Result<(), String> {
            ip(&["netns", "add", own])?;
            ip(&["-n", own, "link", "set", "dev", "lo", "up"])?;
            for (bridge, address) in [(FRONT, host.front), (BACK, host.back)] {
                ip(&[
                    "-n",
                    &hub,
                    "link",
                    "add",
                    "dev",
                    &to(name, bridge),
                    "type",
                    "veth",
                    "peer",
                    "name",
                    bridge,
                    "netns",
                    own,
                ])?;
                self.plug(name, bridge)?;
                let address = format!("{address}/24");
                ip(&["-n", own, "addr", "add", &address, "dev", bridge])?;
                ip(&["-n", own, "link", "set", "dev", bridge, "up"])?;
            }
            Ok(())
        };
        made().expect("a host");
        host
    }

    /// Cuts a host off from the database's network; if its server runs there, from everybody.
    pub(super) fn cut(&self, host: &Host, cut: Cut) {
        let (hub, link) = (self.hub(), to(&host.link, BACK));
        let how = match cut {
            Cut::Down => "down",
            Cut::Silent => "nomaster",
        };
        ip(&["-n", &hub, "link", "set", "dev", &link, how]).expect("it is cut off");
    }

    /// Undoes what was [cut](Self::cut) or [parted](Self::part) of a host.
    pub(super) fn mend(&self, host: &Host) {
        // One that comes back to the bridge is not isolated.
        let (hub, link) = (self.hub(), to(&host.link, BACK));
        ip(&["-n", &hub, "link", "set", "dev", &link, "nomaster"]).expect("it is taken off");
        self.plug(&host.link, BACK).expect("it is back");
    }

    /// Cuts hosts off from each other on the database's network; everybody else reaches them.
    pub(super) fn part(&self, hosts: [&Host; 2]) {
        let hub = self.hub();
        for host in hosts {
            let link = to(&host.link, BACK);
            ip(&[
                "-n",
                &hub,
                "link",
                "set",
                "dev",
                &link,
                "type",
                "bridge_slave",
                "isolated",
                "on",
            ])
            .expect("it is cut off");
        }
    }

    /// Plugs a link into its bridge.
    fn plug(&self, name: &str, bridge: &str) -> Result<(), String> {
        let (hub, link) = (self.hub(), to(name, bridge));
        ip(&[
            "-n", &hub, "link", "set", "dev", &link, "master", bridge, "up",
        ])
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.name)
    }

    /// The tests' own link.
    fn own_link(&self, bridge: &str) -> String {
        let end = if bridge == FRONT { 'f' } else { 'b' };
        format!("{}{end}", self.name)
    }

    /// Of the range that is kept for tests of networks.
    fn address(&self, bridge: &str, host: u8) -> Ipv4Addr {
        let second = if bridge == FRONT { 18 } else { 19 };
        Ipv4Addr::new(198, second, self.number, host)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for bridge in [FRONT, BACK] {
            let _ = ip(&["link", "del", "dev", &self.own_link(bridge)]);
        }
        let Ok(all) = std::fs::read_dir("/run/netns") else {
            return;
        };
        let begin = format!("{}-", self.name);
        let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        for name in names.filter(|name| name.starts_with(&begin)) {
            let _ = ip(&["netns", "del", &name]);
        }
    }
}

/// The end at a bridge of a host's link.
fn to(host: &str, bridge: &str) -> String {
    format!("{host}-{bridge}")
}

/// Runs `ip`; why it failed.
fn ip(arguments: &[&str]) -> Result<(), String> {
    let ran = output(Command::new("ip").args(arguments));
    let ran = ran.map_err(|error| format!("`ip` does not run: {error}"))?;
    match ran.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&ran.stderr);
            Err(format!("ip {}: {}", arguments.join(" "), said.trim()))
        }
    }
}
