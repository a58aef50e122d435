//! One fault after the other while requests come, and the books of everybody afterwards.
//!
//! Who sends knows what was accepted, the receiver of a sink what was sent on, a renderer what it was shown on its way from node
//! to node. `HEADGATE_FAULT_ROUNDS` says how many faults there are, `HEADGATE_FAULTS` which ones, such as `Killed,FailedOver`.
//!
//! **Invariant**: what got a 202 is on every node and at the receiver, under one request ID, in its order; a renderer goes on where
//! it was, on any node.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use super::faults::damage::{cut_the_log, zero_a_page};
use super::load::{Load, Nodes, Sent, agreed, calling, mark, receiver};
use super::times::{Recovery, Times};
use super::*;
use crate::app::Random;
use crate::faults::{number, pause, random};
use crate::process::SetOnDrop;
use crate::setup::key_of;

/// What happens.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// `kill -9` to any node.
    Killed,
    /// The same, and something is done to its copy of the data pool: each of [`HARMS`].
    CopyGone,
    /// The node that runs the sinks, until another one does.
    Frozen,
    /// An operator gives the sinks to another node.
    Given,
    /// A transaction of somebody else has a number, and goes on; one is prepared, and stays so until the next time; others are
    /// rolled back.
    HeldUp,
    /// PostgreSQL ends at once and comes back.
    Crashed,
    /// It does not come back: its standby takes its place.
    FailedOver,
}

const FAULTS: [Fault; 7] = [
    Fault::Killed,
    Fault::Frozen,
    Fault::Crashed,
    Fault::HeldUp,
    Fault::Given,
    Fault::FailedOver,
    Fault::CopyGone,
];

/// What is done to a copy while its node is away.
#[derive(Debug, Clone, Copy)]
enum Harm {
    Deleted,
    /// A part of its write-ahead log is lost, as by a power cut.
    LogCut,
    PageZeroed,
}

const HARMS: [Harm; 3] = [Harm::Deleted, Harm::LogCut, Harm::PageZeroed];

/// What somebody else does and takes back; the second has the lock of a node that accepts.
const ROLLED_BACK: [&str; 2] = [
    "BEGIN; CREATE TABLE of_somebody_else (n int); INSERT INTO of_somebody_else VALUES (1); ROLLBACK",
    "BEGIN; LOCK TABLE headgate.writers IN ROW EXCLUSIVE MODE; SELECT pg_current_xact_id(); SELECT pg_sleep(0.02); ROLLBACK",
];

/// Three nodes, and the servers below them.
struct Cluster {
    nodes: Nodes,
    primary: Postgres,
    standby: Postgres,
    /// Somebody else has a prepared transaction.
    is_prepared: bool,
    times: Times,
}

impl Cluster {
    /// Where the node is that runs the sinks.
    fn owner(&self) -> usize {
        let name = owner(self.nodes.any());
        usize::from(name.as_bytes()[0] - b'a')
    }

    fn suffer(&mut self, fault: Fault, load: &Load, random: &mut Random) {
        let at = usize::try_from(random.within(0..3)).expect("small");
        match fault {
            Fault::Killed => self.kill(at, load, random),
            Fault::CopyGone => {
                for harm in HARMS {
                    self.harm(at, harm, load, random);
                }
            }
            Fault::Frozen => {
                let frozen = self.owner();
                let (frozen, other) = (self.nodes.at(frozen), self.nodes.at((frozen + 1) % 3));
                let (name, begun) = (owner(other), Instant::now());
                frozen.signal(Signal::STOP);
                moved_from(&name, other);
                self.times.note(Recovery::OwnerFrozen, begun.elapsed());
                frozen.signal(Signal::CONT);
            }
            Fault::Given => {
                let name = ["a", "b", "c"][(self.owner() + 1) % 3];
                let path = format!("/api/admin/cluster/nodes/{name}/claim");
                let given = self.nodes.any().call("POST", &path, "");
                assert_eq!(given.status, 200, "{}", given.body);
            }
            Fault::HeldUp => self.hold_up(load),
            Fault::Crashed => {
                self.primary.crash();
                self.nodes
                    .live()
                    .for_each(|node| ready_becomes(node, Some("database")));
                self.primary.resume();
            }
            Fault::FailedOver => self.fail_over(load),
        }
        for node in self.nodes.live() {
            mark(node);
            ready_becomes(node, None);
        }
    }
}

impl Cluster {
    /// Kills a node, every other time the one that runs the sinks, and starts it again.
    fn kill(&mut self, at: usize, load: &Load, random: &mut Random) {
        let owner = self.owner();
        let at = if random.once_in(2) { owner } else { at };
        let (setup, begun) = self.nodes.end(at, &load.nodes);
        if at == owner {
            moved_from(["a", "b", "c"][at], self.nodes.any());
            self.times.note(Recovery::OwnerKilled, begun.elapsed());
        }
        mark(self.nodes.any());
        self.nodes.begin(at, supervised(&setup), &load.nodes);
    }

    /// Kills a node, and starts it again on a copy that was harmed.
    fn harm(&mut self, at: usize, harm: Harm, load: &Load, random: &mut Random) {
        let (setup, _) = self.nodes.end(at, &load.nodes);
        mark(self.nodes.any());
        let pool = setup.data_dir().join("pool.db");
        match harm {
            Harm::Deleted => fs::remove_file(pool).expect("it is there"),
            Harm::LogCut => cut_the_log(&pool, random),
            Harm::PageZeroed => zero_a_page(&pool),
        }
        let node = supervised(&setup);
        if matches!(harm, Harm::PageZeroed) {
            // It takes a new copy before it listens, or starts again when it meets the page.
            node.looked_through();
        }
        self.nodes.begin(at, node, &load.nodes);
        load.goes_on(5);
    }

    /// Somebody else works in the same database while requests are accepted.
    fn hold_up(&mut self, load: &Load) {
        if self.is_prepared {
            self.primary.query("ROLLBACK PREPARED 'of somebody else'");
        }
        let open = self.primary.begin();
        let prepare = "BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'of somebody else'";
        self.primary.query(prepare);
        self.is_prepared = true;
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let ends = SetOnDrop(&ended);
            scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    for rolled_back in ROLLED_BACK {
                        self.primary.query(rolled_back);
                    }
                    pause(Duration::from_millis(20));
                }
            });
            load.goes_on(50);
            drop(ends);
        });
        drop(open);
    }

    /// The primary ends, and its standby takes its place.
    fn fail_over(&mut self, load: &Load) {
        self.primary.crash();
        self.standby.promote();
        let begun = Instant::now();
        let (took, another) = std::thread::scope(|scope| {
            let accepts = scope.spawn(|| {
                load.goes_on(1);
                begun.elapsed()
            });
            // The new primary waits for a standby, too, which listens where the old primary did.
            let another = self.standby.standby(Some(&self.primary));
            (accepts.join().expect("no panic"), another)
        });
        self.primary = std::mem::replace(&mut self.standby, another);
        self.times.note(Recovery::Promotion, took);
    }
}

/// Starts a node as a supervisor does: one that the database does not answer in time ends, and is started again.
fn supervised(setup: &Setup) -> Process {
    eventually("a node starts", || setup.try_spawn().ok())
}

/// Waits until another node runs the sinks than this one.
fn moved_from(name: &str, asked: &Process) {
    eventually("another node runs the sinks", || {
        (owner(asked) != name).then_some(())
    });
}

/// The faults that the environment names, or all.
fn chosen() -> Vec<Fault> {
    let named = std::env::var_os("HEADGATE_FAULTS").unwrap_or_default();
    let named = named.to_string_lossy();
    let is_named = |fault: &Fault| {
        let name = format!("{fault:?}");
        named.is_empty() || named.split(',').any(|one| one == name)
    };
    let chosen: Vec<Fault> = FAULTS.into_iter().filter(is_named).collect();
    assert!(!chosen.is_empty(), "no such fault: {named}");
    chosen
}

#[test]
fn one_fault_after_the_other_loses_and_doubles_nothing() {
    let Some(primary) = Postgres::start("one_fault_after_the_other") else {
        return;
    };
    let standby = primary.standby(None);
    let urls = [primary.url(), standby.url()];
    let sent = Sent::default();
    let receiver = receiver(&sent);
    let more = calling(&receiver, "127.0.0.0/8");
    let nodes = ["a", "b", "c"].map(|name| {
        let node = node(&primary, name)
            .stream("marks")
            .given_key("tests", "marks", &key_of("marks"), "")
            .sink("books", "http-forward", "orders", &more)
            .set("cluster.urls", urls.to_vec())
            .set("cluster.durability", "standby");
        Some(node.spawn())
    });
    let mut cluster = Cluster {
        nodes: Nodes(nodes),
        primary,
        standby,
        is_prepared: false,
        times: Times::default(),
    };
    let rounds = number("HEADGATE_FAULT_ROUNDS").unwrap_or(FAULTS.len() as u64);
    let faults = chosen();
    let mut random = random("one_fault_after_the_other");
    let seed = random.next();
    let load = Load::to(cluster.nodes.live().map(|node| node.service).collect());
    mark(cluster.nodes.any());
    load.beside(
        (4, 2),
        seed,
        &mut cluster,
        |cluster| {
            for round in 0..rounds {
                load.goes_on(20);
                let at = usize::try_from(round).expect("few") % faults.len();
                eprintln!("round {round}: {:?}", faults[at]);
                cluster.suffer(faults[at], &load, &mut random);
            }
        },
        |cluster, known| agreed(&cluster.nodes.live().collect::<Vec<_>>(), known, &sent),
    );
    let chains: BTreeSet<String> = (cluster.nodes.live())
        .map(|node| node.admin("/api/admin/audit/verify").to_string())
        .collect();
    assert_eq!(chains.len(), 1, "{chains:?}");
    eprint!("{}", cluster.times);
    cluster.nodes.stop();
}
