//! The same history on a daemon alone and on a cluster: both answer, show, log and deliver the same.
//!
//! Each operation goes to the daemon alone, and to a node of the cluster that is chosen at random; the next one follows when
//! both have answered. Each side has a receiver of its own, which refuses items of one key and is away for those of another
//! until it is opened. When every sink is done, all nodes are compared with the daemon: items with their versions, answers,
//! what became of each request, the log by outcome, dead letters, and what the receivers took of each item, in order.
//!
//! Histories have keys of their own and run one after the other on the same daemons. `HEADGATE_TEST_HISTORIES` sets their
//! number, `HEADGATE_SEED` repeats a run's choices.
//!
//! When something expires depends on the moment in which somebody looks. So histories of items that expire come in parts: within
//! one, nothing is old enough on either side; between them both sides wait until everything has expired that can. Where the
//! machine is too slow for that, the history says nothing, and is played again with a longer time.
//!
//! **Invariant**: nothing is compared before the sinks of both sides are done with it.

mod expiry;
mod history;
mod outcome;
mod side;
mod taken;

use super::*;
use crate::faults::{number, pause, random};
use history::{Op, STREAMS, shortened};
use outcome::differences;
use side::{SECRET, SIGNED, Side};

const HISTORIES: u64 = 20;
/// How often a history that fails is played again to shorten it.
const TRIES: usize = 12;
/// The copies of nodes are equal after this time, or differ.
const EQUAL_WITHIN: Duration = Duration::from_secs(90);
const NAMES: [&str; 3] = ["a", "b", "c"];

/// What both sides are configured with. Items expire after this time, if there is one.
fn configured(setup: Setup, receiver: &Receiver, expires: Option<Duration>) -> Setup {
    let (url, host) = (receiver.url("/in"), receiver.url(""));
    // Nothing is tried again until somebody asks for it, and each item is a call.
    let copy = format!(
        "retry = {{ first_ms = 86400000, max_ms = 86400000, attempts = 1000 }}\n\
         batch = {{ items_max = 1, linger_ms = 0 }}\n\
         config = {{ url = {url:?}, max_items = 1 }}\n\
         http = {{ hosts = [{host:?}], networks = [\"127.0.0.0/8\"] }}\n"
    );
    let rules = "version = \"rev\"\ndelete_when = { field = \"op\", is = [\"del\"] }";
    let setup = setup
        .of_stream("versioned", rules)
        .of_stream("merged", rules)
        .merging("merged")
        .given_read_key("screen", &STREAMS, READ_KEY, "")
        .sink("pool", "pool", "*", "")
        .sink("copy", "http-forward", "*", &copy);
    let verify = format!("verify = {{ scheme = \"github\", secret = \"{SECRET}\" }}");
    let setup = setup.connector(SIGNED, "kind = \"webhook\"\nitem_key = \"id\"");
    let signing = |setup: Setup, stream: &&str| setup.signing_key(SIGNED, stream, stream, &verify);
    let setup = STREAMS.iter().fold(setup, signing);
    let Some(expires) = expires else {
        return setup;
    };
    let rule = format!("expire_after_seconds = {}", expires.as_secs());
    let of_each = |setup: Setup, stream: &&str| setup.of_stream(stream, &rule);
    STREAMS.iter().fold(setup, of_each)
}

fn alone(expires: Option<Duration>) -> Side {
    let setup = Setup::with_streams(&STREAMS).set("storage.engine", "file");
    Side::start(|receiver| vec![configured(setup, receiver, expires).spawn()])
}

fn cluster(server: &Postgres, expires: Option<Duration>) -> Side {
    Side::start(|receiver| {
        let of = |name: &&str| {
            let setup = in_cluster(Setup::with_streams(&STREAMS), &server.url(), name);
            // Who waits longer is not answered otherwise.
            let setup = setup.set("cluster.commit_wait_seconds", 120);
            let setup = match expires {
                Some(expires) => setup.set("cluster.schema", format!("in_{}_s", expires.as_secs())),
                None => setup,
            };
            configured(setup, receiver, expires).spawn()
        };
        NAMES.iter().map(of).collect()
    })
}

/// Both sides.
struct Both {
    alone: Side,
    cluster: Side,
    played: u64,
}

impl Both {
    /// Plays a history on keys of its own; what differs then.
    fn play(&mut self, ops: &[Op]) -> Vec<String> {
        let prefix = format!("h{}-", self.played);
        self.played += 1;
        self.alone.begin(&prefix);
        self.cluster.begin(&prefix);
        for op in ops {
            self.alone.act(op, ops);
            self.cluster.act(op, ops);
        }
        let found = self.compared(EQUAL_WITHIN);
        self.alone.end();
        self.cluster.end();
        found
    }

    /// What differs, once every sink is done.
    fn compared(&mut self, within: Duration) -> Vec<String> {
        self.alone.wait_for_sinks();
        self.cluster.wait_for_sinks();
        let started = Instant::now();
        loop {
            let expected = self.alone.outcome(0);
            let of = |(node, name): (usize, &&str)| {
                differences(
                    &format!("node {name}"),
                    &expected,
                    &self.cluster.outcome(node),
                )
            };
            let found: Vec<String> = NAMES.iter().enumerate().flat_map(of).collect();
            if found.is_empty() || started.elapsed() > within {
                return found;
            }
            pause(Duration::from_millis(50));
        }
    }

    fn stop(self) {
        for node in self.alone.nodes.into_iter().chain(self.cluster.nodes) {
            node.stop();
        }
    }
}

#[test]
fn any_history_gives_the_same_on_one_daemon_and_on_a_cluster() {
    let Some(server) = Postgres::start("any_history_gives_the_same_on_a_cluster") else {
        return;
    };
    let histories = number("HEADGATE_TEST_HISTORIES").unwrap_or(HISTORIES);
    let mut random = random("histories on one daemon and on a cluster");
    let seed = random.0;
    let mut both = Both {
        alone: alone(None),
        cluster: cluster(&server, None),
        played: 0,
    };
    for at in 0..histories {
        let ops = history::history(&mut random, NAMES.len());
        let found = both.play(&ops);
        if found.is_empty() {
            continue;
        }
        let (ops, found) = shortened(ops, found, TRIES, |fewer| both.play(fewer));
        let ops: Vec<String> = ops.iter().map(|op| format!("{op:?}")).collect();
        panic!(
            "history {at} with HEADGATE_SEED={seed} differs:\n{}\nwith these operations:\n{}",
            found.join("\n"),
            ops.join("\n")
        );
    }
    let taken = [&both.alone, &both.cluster].map(Side::taken_so_far);
    assert_eq!(taken[0], taken[1], "items that the receivers took");
    assert!(taken[0] > histories, "{taken:?}");
    both.stop();
}
