//! Networks that are split: a node without the database, a primary without its standby.
//!
//! Nodes and database servers are on hosts of their own, senders and the receiver of a sink on another one, which reaches every
//! node at all times. `HEADGATE_FAULT_ROUNDS` says how many splits there are.
//!
//! **Invariant**: what got a 202 is on every node and at the receiver, once. Who is cut off acknowledges nothing, and neither
//! writes nor calls anybody once another node runs the sinks.

mod net;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::load::{Load, Sent, agreed, calling, mark, receiver_at};
use super::times::{Recovery, Times};
use super::*;
use crate::app::Random;
use crate::faults::{number, random};
use crate::setup::key_of;
use net::{Cut, Host, Net};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// Where senders and the receiver are.
const FRONT: &str = "198.18.0.0/16";

/// What is cut off from what.
#[derive(Debug, Clone, Copy)]
enum Split {
    /// The node that runs the sinks from the database, and nobody sees why.
    Owner,
    /// Another node from the database, which sees that its link is down.
    Node,
    /// The primary from its standby, which takes its place while every node still reaches the old one. That is then gone from
    /// the network, and goes on.
    Standby,
}

const SPLITS: [Split; 3] = [Split::Owner, Split::Node, Split::Standby];

/// How often the receiver was called, by whom.
#[derive(Debug, Clone, Default)]
struct Calls(Arc<Mutex<BTreeMap<IpAddr, u64>>>);

impl Calls {
    fn note(&self, from: Option<IpAddr>) {
        if let Some(from) = from {
            let mut calls = self.0.lock().expect("no panic while held");
            *calls.entry(from).or_default() += 1;
        }
    }

    fn of(&self, host: &Host) -> u64 {
        let calls = self.0.lock().expect("no panic while held");
        calls.get(&host.front.into()).copied().unwrap_or(0)
    }
}

/// A database server, and its host.
struct Server {
    postgres: Postgres,
    host: Host,
}

/// Three nodes, and the servers below them.
struct Cluster {
    nodes: [Process; 3],
    hosts: [Host; 3],
    primary: Server,
    standby: Server,
    calls: Calls,
    /// Numbers of requests that nobody may accept.
    tried: AtomicU64,
    times: Times,
    /// Dropped last: the others are in it.
    net: Net,
}

impl Cluster {
    fn start(test: &str, sent: &Sent) -> Option<(Self, Receiver)> {
        let mut net = Net::new(test)?;
        let [host, other] = ["db1", "db2"].map(|name| net.host(name));
        let postgres = Postgres::start_in(test, &host.place())?;
        let standby = Server {
            postgres: postgres.standby_in(&other.place()),
            host: other,
        };
        let primary = Server { postgres, host };
        let calls = Calls::default();
        let notes = calls.clone();
        let address = SocketAddr::new(net.front().into(), 0);
        let receiver = receiver_at(address, sent, move |from| notes.note(from));
        let urls = [primary.postgres.url(), standby.postgres.url()];
        let hosts = NAMES.map(|name| net.host(name));
        let start = |name: &str, host: &Host| {
            let node = node_at(&urls[0], name)
                .stream("marks")
                .given_key("tests", "marks", &key_of("marks"), "")
                .sink(
                    "books",
                    "http-forward",
                    "orders",
                    &calling(&receiver, FRONT),
                )
                .set("cluster.urls", urls.to_vec())
                .set("cluster.durability", "standby")
                .set("admin.insecure", true);
            host.listening(node).spawn_by(host.daemon())
        };
        let nodes = [0, 1, 2].map(|at| start(NAMES[at], &hosts[at]));
        let cluster = Self {
            nodes,
            hosts,
            primary,
            standby,
            calls,
            tried: AtomicU64::new(0),
            times: Times::default(),
            net,
        };
        Some((cluster, receiver))
    }

    /// The place of the node that runs the sinks, as this one says.
    fn owner_by(&self, asked: usize) -> usize {
        let name = owner(&self.nodes[asked]);
        let found = NAMES.iter().position(|one| *one == name);
        found.expect("it is one of them")
    }

    /// Sends something new that cannot be stored.
    fn is_not_accepted(&self, node: &Process) {
        let number = self.tried.fetch_add(1, Ordering::Relaxed);
        let once = format!("{BY_ID}Idempotency-Key: tried-{number}\r\n");
        let answer = node.post("marks", &once, r#"{"id": "tried"}"#);
        assert_eq!(answer.status, 503, "{}", answer.body);
    }

    fn suffer(&mut self, split: Split, load: &Load, random: &mut Random) {
        match split {
            Split::Owner => {
                let took = self.without_owner(load);
                self.times.note(Recovery::OwnerCutOff, took);
            }
            Split::Node => {
                let more = usize::try_from(random.within(1..3)).expect("small");
                let at = (self.owner_by(0) + more) % 3;
                self.without(at, Cut::Down, load);
            }
            Split::Standby => {
                let took = self.without_standby(load);
                self.times.note(Recovery::Promotion, took);
            }
        }
        for node in &self.nodes {
            mark(node);
            ready_becomes(node, None);
        }
    }

    /// How long it took until another node ran the sinks.
    fn without_owner(&self, load: &Load) -> Duration {
        let at = self.owner_by(0);
        let asked = (at + 1) % 3;
        let (host, node) = (&self.hosts[at], &self.nodes[at]);
        self.net.cut(host, Cut::Silent);
        let begun = Instant::now();
        let next = eventually("another node runs the sinks", || {
            let next = self.owner_by(asked);
            (next != at).then_some(next)
        });
        let took = begun.elapsed();
        eventually("it does no longer", || {
            (node.metric("headgate_runs_sinks") == Some(0.0)).then_some(())
        });
        // What the one before has begun has ended by the time that the next one calls.
        let before = self.calls.of(&self.hosts[next]);
        eventually("the next one calls the receiver", || {
            (self.calls.of(&self.hosts[next]) > before + 10).then_some(())
        });
        let calls = self.calls.of(host);
        self.without(at, Cut::Silent, load);
        assert_eq!(self.calls.of(host), calls, "calls of node {}", NAMES[at]);
        took
    }

    /// A node is cut off while the others go on, and comes back.
    fn without(&self, at: usize, cut: Cut, load: &Load) {
        let (host, node) = (&self.hosts[at], &self.nodes[at]);
        self.net.cut(host, cut);
        ready_becomes(node, Some("database"));
        let shown = items(node);
        load.goes_on(50);
        self.is_not_accepted(node);
        load.goes_on(50);
        assert_eq!(items(node), shown, "the last state of node {}", NAMES[at]);
        self.net.mend(host);
    }

    /// How long the first 202 took after the promotion.
    fn without_standby(&mut self, load: &Load) -> Duration {
        let hosts = [&self.primary.host, &self.standby.host];
        self.net.part(hosts);
        self.nodes
            .iter()
            .for_each(|node| self.is_not_accepted(node));
        self.standby.postgres.promote();
        let begun = Instant::now();
        // Now there are two that say that they are the primary. Whoever manages failovers takes the old one off the network.
        self.net.cut(&self.primary.host, Cut::Silent);
        mark(&self.nodes[0]);
        let took = begun.elapsed();
        self.nodes.iter().for_each(mark);
        load.goes_on(50);
        let listeners = "SELECT count(DISTINCT application_name) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'";
        eventually("each node gets its hints from the new primary", || {
            (self.standby.postgres.query(listeners) == "3").then_some(())
        });
        self.primary.postgres.crash();
        hosts.iter().for_each(|host| self.net.mend(host));
        // The new primary waits for a standby, too, which is where the old primary was.
        let another = self.standby.postgres.standby(Some(&self.primary.postgres));
        let host = self.primary.host.clone();
        let next = Server {
            postgres: another,
            host,
        };
        self.primary = std::mem::replace(&mut self.standby, next);
        took
    }
}

#[test]
fn whoever_is_cut_off_acknowledges_and_writes_nothing() {
    let sent = Sent::default();
    let test = "whoever_is_cut_off_acknowledges_and_writes_nothing";
    let Some((mut cluster, _receiver)) = Cluster::start(test, &sent) else {
        return;
    };
    let rounds = number("HEADGATE_FAULT_ROUNDS").unwrap_or(SPLITS.len() as u64);
    let mut random = random(test);
    let seed = random.next();
    let load = Load::to(cluster.nodes.iter().map(|node| node.service).collect());
    cluster.nodes.iter().for_each(mark);
    let mut accepted = 0;
    load.beside(
        (3, 1),
        seed,
        &mut cluster,
        |cluster| {
            for round in 0..rounds {
                load.goes_on(20);
                let at = usize::try_from(round).expect("few") % SPLITS.len();
                eprintln!("split {round}: {:?}", SPLITS[at]);
                cluster.suffer(SPLITS[at], &load, &mut random);
            }
        },
        |cluster, known| {
            accepted = known.values().sum();
            agreed(&cluster.nodes.each_ref(), known, &sent)
        },
    );
    // Each number was accepted once, under one key.
    let sql = "SELECT count(*), count(DISTINCT idempotency_key) FROM headgate.requests WHERE stream = 'orders' AND outcome = 0";
    let stored = cluster.primary.postgres.query(sql);
    assert_eq!(stored, format!("{accepted}|{accepted}"));
    let chains: BTreeSet<String> = (cluster.nodes.iter())
        .map(|node| node.admin("/api/admin/audit/verify").to_string())
        .collect();
    assert_eq!(chains.len(), 1, "{chains:?}");
    eprint!("{}", cluster.times);
    cluster.nodes.into_iter().for_each(Process::stop);
}
