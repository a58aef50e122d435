//! Every way to misbehave that the fixtures know, over and over, side by side in one daemon. `HEADGATE_ROUNDS=100` is
//! the long form.
//!
//! Sinks that misbehave with a batch all get the same items, every other one of which is bad; what they do with it is
//! in their settings. Between two bad items stands a good one, because a lane pauses when batch after batch fails. Sinks
//! that cannot be started are paused after each attempt, for longer and longer: there are several of each.
//!
//! **Invariant**: one process lives through all of it, and is afterwards what it was before.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::supplied::children;
use super::{guest, http, keys, nobody_else_suffers, wasm};
use crate::process::{BY_ID, Process};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::wait::{PROCESS_DEADLINE, eventually_within};

/// Unless `HEADGATE_ROUNDS` says otherwise; more than [`WARM`].
const ROUNDS_DEFAULT: u64 = 20;
/// Rounds before what the daemon holds is taken as its base: by then every sink has misbehaved, every lane has an
/// instance, every connection is open, every statement prepared.
const WARM: u64 = 10;
/// For all rounds.
/// Short, so that a guest which uses them up a hundred times is done in time.
const LIMITS: &str = "[plugins]\nmemory_max_bytes = 4194304\ncpu_timeout_ms = 60\nwrite_timeout_ms = 150\n\
                      compile_memory_max_bytes = 300000000\ncompile_cpu_seconds = 1\n";
/// One item to a batch, one attempt.
const SINGLE: &str =
    "batch = { items_max = 1 }\nretry = { first_ms = 1, max_ms = 1, attempts = 1 }\n";
/// Sinks of each that cannot be started. A pause doubles from 1 s on: the fourth attempt comes after seven.
const TWINS: u64 = 25;
/// Growth from the base that is no leak: memory that the allocator keeps for more than thirty instances and threads
/// and for what SQLite caches of 9,000 further dead letters. 90 further rounds of more than thirty sinks are 3,000
/// bad calls: one that leaked 16 KiB, a quarter of one page of WebAssembly, would come to 48 MiB.
const GROWTH_BYTES_MAX: u64 = 40 << 20;

/// What `wicked` can do.
const WAYS: [&str; 33] = [
    "loop",
    "panic",
    "exit",
    "recurse",
    "grow",
    "sleep",
    "wait for ever",
    "wait in small steps",
    "print",
    "log",
    "leak handles",
    "leak pollables",
    "forge",
    "forge the largest",
    "forge others",
    "drop twice",
    "use after drop",
    "stage",
    "keys of state",
    "values of state",
    "long value of state",
    "derive",
    "indexes",
    "index that is not there",
    "no text",
    "no text as key",
    "odd text",
    "beyond its memory",
    "long reason",
    "long retry",
    "many rejections",
    "reject the same",
    "an unknown way",
];

/// Sinks that cannot be started, and files that are no plugins.
fn unstartable(folder: &Setup) -> Vec<(&'static str, Vec<u8>)> {
    let good = std::fs::read(guest("stages_twice")).expect("a guest");
    let read = |name: &str| std::fs::read(guest(name)).expect("a guest");
    let large = std::fs::File::create(folder.path("large.wasm")).expect("a file");
    large.set_len(100 << 20).expect("a length");
    vec![
        ("loops-at-start", read("loops_at_start")),
        ("loops-in-describe", read("loops_in_describe")),
        ("bad-schema", read("brings_a_bad_schema")),
        ("wants-files", read("wants_files")),
        (
            "starts-endless",
            wasm::with_module(&good, &wasm::endless_start(), 1),
        ),
        (
            "large-table",
            wasm::with_module(&good, &wasm::tables(1, 9_000_000), 1),
        ),
        (
            "many-tables",
            wasm::with_module(&good, &wasm::tables(90, 90_000), 10),
        ),
        (
            "many-memories",
            wasm::with_module(&good, &wasm::memory(), 900),
        ),
        (
            "many-instances",
            wasm::with_module(&good, &wasm::tables(0, 0), 999),
        ),
        ("garbage", b"\0asm and nothing that follows".to_vec()),
        ("empty", Vec::new()),
        ("core-module", wasm::endless_start()),
        ("truncated", good[..good.len() / 2].to_vec()),
        ("bomb-of-blocks", wasm::many_blocks(400_000)),
        ("bomb-of-locals", wasm::many_locals(20_000)),
    ]
}

/// What the daemon has of the system.
#[derive(Debug, Clone, Copy)]
struct Held {
    resident_bytes: u64,
    threads: usize,
    files: usize,
}

impl Held {
    fn by(process: &Process) -> Self {
        let folder = format!("/proc/{}", process.id());
        let count = |name: &str| {
            let entries = std::fs::read_dir(format!("{folder}/{name}"));
            entries.expect("the process lives").count()
        };
        Self {
            resident_bytes: process.memory_bytes(),
            threads: count("task"),
            files: count("fd"),
        }
    }
}

/// Sends these rounds: a good item and a bad one for each.
fn send(process: &Process, rounds: std::ops::Range<u64>) {
    let mut client = process.client();
    for round in rounds {
        for (id, bad) in [(2 * round, false), (2 * round + 1, true)] {
            let body = format!("{{\"id\": \"{id}\", \"bad\": {bad}}}");
            let answer = client.post("hostile", BY_ID, &body);
            assert_eq!(answer.expect("an answer").status, 202);
        }
        let body = format!("{{\"id\": \"{round}\"}}");
        let answer = client.post("innocent", BY_ID, &body);
        assert_eq!(answer.expect("an answer").status, 202);
    }
}

fn sinks(process: &Process) -> BTreeMap<String, Value> {
    let sinks = process.list("/api/admin/sinks");
    let named = |sink: Value| (sink["name"].as_str().expect("a name").to_owned(), sink);
    sinks.into_iter().map(named).collect()
}

/// Waits until these sinks have everything behind them.
fn done(process: &Process, names: &[String]) {
    let waiting = || {
        let sinks = sinks(process);
        let waits = |name: &&String| sinks[*name]["lag"] != 0 || sinks[*name]["retries"] != 0;
        names.iter().filter(waits).cloned().collect::<Vec<_>>()
    };
    eventually_within(
        PROCESS_DEADLINE,
        || format!("these are not done: {:?}", waiting()),
        || waiting().is_empty().then_some(()),
    );
}

/// When each sink that cannot be started was seen to fail. Pauses last a second and more: looking oftener than that
/// misses none.
#[derive(Default)]
struct Attempts(BTreeMap<String, BTreeSet<String>>);

impl Attempts {
    /// How often the sinks of each group were tried so far.
    fn look(&mut self, process: &Process) -> BTreeMap<String, usize> {
        for (name, sink) in sinks(process) {
            if name.contains('.') && sink["state"] == "paused" {
                let at = sink["last_error"]["at"].to_string();
                self.0.entry(name).or_default().insert(at);
            }
        }
        let mut groups = BTreeMap::new();
        for (name, attempts) in &self.0 {
            let (group, _) = name.split_once('.').expect("a group");
            *groups.entry(group.to_owned()).or_default() += attempts.len();
        }
        groups
    }

    /// Waits until every group was tried so often.
    fn reach(&mut self, process: &Process, groups: usize, least: usize) {
        let last = RefCell::new(BTreeMap::new());
        eventually_within(
            PROCESS_DEADLINE,
            || format!("each was tried {least} times: {:?}", last.borrow()),
            || {
                last.replace(self.look(process));
                let last = last.borrow();
                (last.len() == groups && last.values().all(|count| *count >= least)).then_some(())
            },
        );
    }
}

#[test]
fn what_every_hostile_sink_does_over_and_over_costs_nobody_else_anything() {
    let rounds = crate::faults::number("HEADGATE_ROUNDS").unwrap_or(ROUNDS_DEFAULT);
    let receiver = Receiver::start(|_, _| {
        answer(
            302,
            "location: http://169.254.169.254/latest/meta-data\r\n",
            "",
        )
    });
    let mut folder = Setup::with_streams(&["hostile", "innocent", "never"]).toml(LIMITS);
    let mut busy = Vec::new();
    for (number, how) in WAYS.iter().enumerate() {
        let name = format!("way-{number}");
        let more = format!("{SINGLE}config = {{ how = \"{how}\" }}\n");
        folder = folder.sink(&name, &guest("wicked"), "hostile", &more);
        busy.push(name);
    }
    let host = receiver.url("");
    let port = receiver.address.port();
    let nowhere = format!("http://localhost:{port}");
    for (name, script, hosts) in [
        (
            "denied",
            "get http://192.0.2.1/".to_owned(),
            format!("{host:?}"),
        ),
        (
            "redirected",
            format!("follow {host}/"),
            format!("{host:?}, \"http://169.254.169.254\""),
        ),
        ("private", format!("get {nowhere}/"), format!("{nowhere:?}")),
    ] {
        let networks = if name == "redirected" {
            http::LOOPBACK
        } else {
            "networks = []"
        };
        let more = format!(
            "{SINGLE}config = {{ script = \"{script}\" }}\nhttp = {{ hosts = [{hosts}], {networks} }}\n"
        );
        folder = folder.sink(name, &guest("calls"), "hostile", &more);
        busy.push(name.to_owned());
    }
    let mut groups = Vec::new();
    for (group, bytes) in unstartable(&folder) {
        for twin in 0..TWINS {
            let file = folder.path(&format!("{group}.{twin}.wasm"));
            // Bombs that differ are compiled one by one.
            let bytes = match group.starts_with("bomb") && twin < 5 {
                true => wasm::variant(&bytes, u8::try_from(twin).expect("small")),
                false => bytes.clone(),
            };
            std::fs::write(&file, bytes).expect("a file");
            let name = format!("{group}.{twin}");
            folder = folder.sink(&name, &file.display().to_string(), "hostile", "");
        }
        groups.push(group);
    }
    for (group, file, config) in [
        (
            "refuses-to-open",
            guest("wicked"),
            "config = { how = \"open and refuse\" }\n",
        ),
        (
            "loops-in-open",
            guest("wicked"),
            "config = { how = \"open and loop\" }\n",
        ),
        ("large", folder.path("large.wasm").display().to_string(), ""),
    ] {
        for twin in 0..TWINS {
            folder = folder.sink(&format!("{group}.{twin}"), &file, "hostile", config);
        }
        groups.push(group);
    }
    folder = folder.sink("pool", "pool", "innocent", "");
    let mut process = folder.spawn();

    send(&process, 0..WARM);
    done(&process, &busy);
    let mut attempts = Attempts::default();
    attempts.reach(
        &process,
        groups.len(),
        usize::try_from(TWINS).expect("small"),
    );
    let base = Held::by(&process);

    send(&process, WARM..rounds);
    done(&process, &busy);
    let least = usize::try_from(rounds.max(TWINS)).expect("small");
    attempts.reach(&process, groups.len(), least);

    let sinks = sinks(&process);
    let mut report = String::new();
    for name in &busy {
        let sink = &sinks[name];
        let letters = sink["dead_letters"].as_u64().expect("a number");
        let _ = writeln!(report, "{name}: {letters} {}", sink["last_error"]["reason"]);
        assert!(letters >= rounds, "{name}: {sink}");
        let reason = sink["last_error"]["reason"].to_string();
        assert!(!reason.contains("let through"), "{name}: {sink}");
    }
    eprintln!("{report}");
    assert!(process.lives());
    assert_eq!(
        children(process.id()),
        [0_u32; 0],
        "a compiler is left over"
    );
    assert_eq!(sinks["pool"]["dead_letters"], 0);
    process.sink_becomes("pool", "done", |sink| sink["lag"] == 0);
    assert_eq!(keys(&folder, "innocent").len() as u64, rounds);
    assert!(
        keys(&folder, "hostile").is_empty(),
        "nothing of theirs happened"
    );
    assert!(receiver.connections() >= 1);

    let held = eventually_within(
        Duration::from_secs(30),
        || format!("it holds {:?}, and held {base:?}", Held::by(&process)),
        || {
            let held = Held::by(&process);
            let slim = held.resident_bytes < base.resident_bytes + GROWTH_BYTES_MAX;
            let few = held.threads <= base.threads + 4 && held.files <= base.files + 8;
            (slim && few).then_some(held)
        },
    );
    eprintln!("base {base:?}, in the end {held:?}");
    nobody_else_suffers(process);
}
