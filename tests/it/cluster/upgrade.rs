//! Nodes of two versions: one that is too old ends, and one that is newer waits for the older ones.
//!
//! There is one program. A trigger in the database makes a node say that it is older, and the log is set back to a format that
//! nobody has.
//!
//! **Invariant**: whichever version a node has, what got a 202 is shown by all nodes of the newest one.

use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, kill_process};

use postgres_server::free_port;

use super::*;
use crate::process::{Client, SetOnDrop};
use crate::program::ends_within;
use crate::wait::PROCESS_DEADLINE;

/// Node `a` says that it has an older version, and the log has the format of that.
const OLDER: &str = "
    CREATE FUNCTION headgate.says_older() RETURNS trigger LANGUAGE plpgsql AS $f$
      BEGIN NEW.format := 1; NEW.version := '0.0.9'; RETURN NEW; END $f$;
    CREATE TRIGGER says_older BEFORE INSERT OR UPDATE ON headgate.nodes
      FOR EACH ROW WHEN (NEW.name = 'a') EXECUTE FUNCTION headgate.says_older();
    UPDATE headgate.log_head SET format = 1, version = '0.0.9'";

/// The exit code and the output of a verb with the configuration of a node.
fn run(setup: &Setup, verb: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
    let ran = output(command.args(verb).arg("--config").arg(setup.write()));
    let ran = ran.expect("it runs");
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.code(), String::from_utf8(said).expect("a text"))
}

#[test]
fn a_node_that_is_too_old_ends_with_78_and_names_the_version() {
    let Some(server) = Postgres::start("a_node_that_is_too_old_ends") else {
        return;
    };
    let runs = node(&server, "a").spawn();
    accepted(&runs, "one");
    let shown = shows(&runs, 1);
    let setup = runs.setup.clone();
    let before = server.query("SELECT format FROM headgate.log_head");
    assert_ne!(before, "0", "the first node has begun the log");
    let version = server.query("SELECT version FROM headgate.log_head");
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let needs = "install headgate 9.8.7 or newer on this node";
    let must_end = |status: std::process::ExitStatus, log: &str| {
        assert_eq!(status.code(), Some(78), "{log}");
        assert!(log.contains(needs), "{log}");
    };
    server.query("UPDATE headgate.log_head SET format = 999999999, version = '9.8.7'");
    let ended = runs.ended();
    must_end(ended.status, &ended.log);
    let refused = setup.try_spawn().expect_err("it is too old");
    must_end(refused.status, &refused.log);
    let back = format!("UPDATE headgate.log_head SET format = {before}, version = ''");
    server.query(&back);
    let again = setup.spawn();
    assert_eq!(shows(&again, 1), shown);
    accepted(&again, "two");
    shows(&again, 2);
    again.stop();
    // Tables of which only newer versions can make use.
    server.query("UPDATE headgate.cluster SET oldest = 99, needs = '9.8.7'");
    let refused = setup.try_spawn().expect_err("it is too old");
    must_end(refused.status, &refused.log);
    for (verb, expected) in [(&["cluster", "init"][..], 78), (&["check"][..], 2)] {
        let (code, said) = run(&setup, verb);
        assert_eq!(code, Some(expected), "{said}");
        assert!(said.contains(needs), "{said}");
    }
}

/// What is accepted by whoever accepts something, until `ended`.
fn submitted(at: &Mutex<SocketAddr>, name: &str, ended: &AtomicBool) -> Vec<String> {
    let mut accepted = Vec::new();
    let mut client = None;
    for number in 0.. {
        if ended.load(Ordering::SeqCst) {
            break;
        }
        let address = *at.lock().expect("no panic while held");
        let connected = match client.take() {
            Some((of, client)) if of == address => Ok(client),
            _ => Client::connect(address),
        };
        // Who stops closes connections, and who has not started yet has none.
        let Ok(mut connected) = connected else {
            std::thread::yield_now();
            continue;
        };
        let id = format!("{name}-{number}");
        let body = json!({ "id": id, "n": 1 }).to_string();
        match connected.post("orders", BY_ID, &body) {
            Ok(answer) if answer.status == 202 => accepted.push(id),
            Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.body),
            Err(_) => continue,
        }
        client = Some((address, connected));
    }
    accepted
}

/// Waits until a node that has not started says on its own port what it waits for; that sentence.
fn waits(port: u16) -> String {
    eventually("it waits", || {
        let mut client = Client::connect(SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
        let healthy = client.request("GET", "/healthz", "", "").ok()?;
        assert_eq!(healthy.status, 200, "{}", healthy.body);
        let ready = client.request("GET", "/readyz", "", "").ok()?;
        assert_eq!(ready.status, 503, "{}", ready.body);
        ready.body.contains("waits until").then_some(ready.body)
    })
}

/// A process that waits, which ends however the test ends.
struct Waiting(Option<Child>);

impl Waiting {
    /// SIGTERM, and the exit code must be 0.
    fn stop(mut self) {
        let child = self.0.as_mut().expect("it waits");
        kill_process(Pid::from_child(child), Signal::TERM).expect("a child");
        let ended = ends_within(PROCESS_DEADLINE, child).expect("it ends");
        assert_eq!(ended.code(), Some(0));
    }

    /// Waits until it is ready.
    fn starts(mut self, setup: &Setup) -> Process {
        let child = self.0.take().expect("it waits");
        let started = Process::watch(child, setup.clone());
        started.unwrap_or_else(|ended| panic!("it did not start: {ended:?}"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_newer_node_waits_for_older_ones_under_load_and_nothing_is_lost() {
    let Some(server) = Postgres::start("a_newer_node_waits_for_older_ones") else {
        return;
    };
    let format = "SELECT format FROM headgate.log_head";
    let old = node(&server, "a").spawn();
    accepted(&old, "first");
    shows(&old, 1);
    let own = server.query(format);
    server.query(OLDER);
    // It says so with its next beat.
    let said = "SELECT max(format) FROM headgate.nodes WHERE name = 'a'";
    eventually("the first node is older", || {
        (server.query(said) == "1").then_some(())
    });
    let port = free_port();
    let newer = node(&server, "b").set("server.listen", format!("127.0.0.1:{port}"));
    // It ends when it is told to, also while it waits.
    let waiting = Waiting(Some(newer.spawn_to(Stdio::null(), Stdio::null())));
    let sentence = waits(port);
    assert!(sentence.contains("a (headgate 0.0.9)"), "{sentence}");
    waiting.stop();
    let (ended, at) = (AtomicBool::new(false), Mutex::new(old.service));
    let setup = old.setup.clone();
    let (mut all, new) = std::thread::scope(|scope| {
        let senders = ["one", "two", "three"].map(|name| {
            let (at, ended) = (&at, &ended);
            scope.spawn(move || submitted(at, name, ended))
        });
        let ends = SetOnDrop(&ended);
        let waiting = Waiting(Some(newer.spawn_child()));
        waits(port);
        let problem = eventually("the older node says who waits", || {
            let nodes = nodes(&old);
            let waits = nodes.iter().find(|node| node["name"] == "b")?;
            waits["problems"][0].as_str().map(str::to_owned)
        });
        assert!(problem.contains("waits until"), "{problem}");
        let before = items(&old).len();
        eventually("it accepts meanwhile", || {
            (items(&old).len() > before + 20).then_some(())
        });
        assert_eq!(server.query(format), "1", "nobody has raised it");
        *at.lock().expect("no panic while held") = SocketAddr::from(([127, 0, 0, 1], port));
        old.stop();
        let new = waiting.starts(&newer);
        assert_eq!(server.query(format), own);
        let before = items(&new).len();
        eventually("the newer one accepts", || {
            (items(&new).len() > before + 20).then_some(())
        });
        drop(ends);
        let accepted = senders.map(|sender| sender.join().expect("no panic"));
        (accepted.concat(), new)
    });
    assert!(all.len() > 40, "{}", all.len());
    all.push("first".to_owned());
    all.sort();
    let raised = "SELECT count(*) FROM headgate.log WHERE get_byte(change, 0) = 0";
    assert_eq!(server.query(raised), "1");
    // The other node is upgraded, too.
    server.query("DROP TRIGGER says_older ON headgate.nodes");
    let other = setup.spawn();
    eventually("both show everything, and the same", || {
        let shown = [items(&new), items(&other)];
        let has = |id: &String| shown[0].binary_search_by(|(key, _)| key.cmp(id)).is_ok();
        (shown[0] == shown[1] && all.iter().all(has)).then_some(())
    });
    for node in [new, other] {
        node.stop();
    }
}
