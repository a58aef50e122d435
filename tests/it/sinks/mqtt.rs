//! Sinks that publish MQTT messages, to a broker that is stopped and cut off: in the end it keeps what the pool has.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::copy::pool_of;
use crate::faults::{number, pause, random};
use crate::process::{BY_ID, skipped};
use crate::program::Lines;
use crate::setup::Setup;
use crate::wait::eventually;
use postgres_server::free_port;

/// Faults of a run.
const FAULTS: u64 = 20;

/// A broker that keeps its messages over restarts, and ends with the test.
struct Broker {
    child: Child,
    port: u16,
    settings: std::path::PathBuf,
}

impl Broker {
    /// None where there is no broker; the test is skipped.
    fn start(test: &str, setup: &Setup, more: &str) -> Option<Self> {
        for program in ["mosquitto", "mosquitto_sub", "mosquitto_passwd"] {
            if Command::new(program).arg("--help").output().is_err() {
                skipped(test, &format!("there is no {program}"));
                return None;
            }
        }
        let port = free_port();
        let settings = setup.path("mosquitto.conf");
        // As root it would become a user who cannot write here.
        let text = format!(
            "user root\nlistener {port} 127.0.0.1\npersistence true\npersistence_location {}/\n{more}\n",
            setup.path("").display()
        );
        std::fs::write(&settings, text).expect("room");
        let child = Self::spawn(&settings, port);
        Some(Self {
            child,
            port,
            settings,
        })
    }

    fn spawn(settings: &std::path::Path, port: u16) -> Child {
        let mut command = Command::new("mosquitto");
        command.arg("-c").arg(settings);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("it starts");
        eventually("the broker listens", || {
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        child
    }

    /// Ends it in order, which writes what it acknowledged, and starts it again.
    fn restart(&mut self) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        let id = Pid::from_raw(id).expect("not 0");
        kill_process(id, Signal::TERM).expect("a child");
        self.child.wait().expect("a child");
        self.child = Self::spawn(&self.settings, self.port);
    }

    fn subscriber(&self, topics: &str) -> Command {
        let mut command = Command::new("mosquitto_sub");
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        command.args(["-q", "1", "-F", "%t %p", "-t", topics]);
        command
    }

    /// What it keeps.
    fn kept(&self, topics: &str) -> BTreeMap<String, String> {
        let mut command = self.subscriber(topics);
        let output = command.args(["--retained-only", "-W", "1"]).output();
        let text = String::from_utf8(output.expect("it runs").stdout).expect("text");
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .map(|(topic, payload)| (topic.to_owned(), payload.to_owned()))
            .collect()
    }
}

/// Waits until the broker keeps what is wanted: who asks it gives up after a second, however busy the machine is.
fn keeps(broker: &Broker, topics: &str, wanted: impl Fn(&BTreeMap<String, String>) -> bool) {
    eventually(&format!("the broker keeps the right {topics}"), || {
        wanted(&broker.kept(topics)).then_some(())
    });
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What stands before a broker, and can hold back everything that is sent in either direction.
#[derive(Clone)]
struct Between {
    port: u16,
    holds: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Between {
    fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let between = Self {
            port: listener.local_addr().expect("an address").port(),
            holds: Arc::default(),
            open: Arc::default(),
        };
        let shared = between.clone();
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(to) = TcpStream::connect(("127.0.0.1", to)) else {
                    continue;
                };
                for (from, to) in [(&from, &to), (&to, &from)] {
                    let clone = |one: &TcpStream| one.try_clone().expect("a handle");
                    let (from, to) = (clone(from), clone(to));
                    let between = shared.clone();
                    std::thread::spawn(move || between.pass(&from, &to));
                }
                let mut open = shared.open.lock().expect("no panic while held");
                open.extend([from, to]);
            }
        });
        between
    }

    fn pass(&self, mut from: &TcpStream, mut to: &TcpStream) {
        use std::io::{Read as _, Write as _};
        let mut chunk = [0; 4 << 10];
        while let Ok(count @ 1..) = from.read(&mut chunk) {
            while self.holds.load(Ordering::Relaxed) {
                pause(Duration::from_millis(1));
            }
            if to.write_all(&chunk[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }

    fn cut(&self) {
        let mut open = self.open.lock().expect("no panic while held");
        for stream in open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A sink that publishes to a port.
fn publishes(name: &str, port: u16, config: Value, more: Value) -> Value {
    let to = format!("tcp://127.0.0.1:{port}");
    let mut section = json!({
        "name": name,
        "plugin": "mqtt",
        "streams": ["orders"],
        "batch": {"linger_ms": 0},
        "retry": {"first_ms": 1, "max_ms": 20},
        "config": {"to": to, "client_id": name},
        "wire": {"to": [to], "networks": ["127.0.0.0/8"]},
    });
    let members = section.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    let members = section["config"].as_object_mut().expect("an object");
    members.extend(config.as_object().expect("an object").clone());
    section
}

#[test]
fn items_are_retained_messages_in_order_and_removals_empty_topics() {
    let setup = Setup::with_streams(&["orders"]).unlimited();
    const TEST: &str = "items_are_retained_messages";
    let Some(broker) = Broker::start(TEST, &setup, "allow_anonymous true") else {
        return;
    };
    let mut subscriber = broker.subscriber("#");
    let mut subscriber = subscriber.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut seen = Lines::of(subscriber.stdout.take().expect("piped"));
    let process = setup.spawn();
    let config = json!({"status_topic": "state/team"});
    process
        .make(
            "/api/admin/sinks",
            &publishes("team", broker.port, config, json!({})),
        )
        .data(201);
    // The subscriber may come after the first message, which it gets as one that was retained.
    process.processed("orders", BY_ID, r#"[{"id": "first"}]"#);
    process.drained();
    let first = seen.find(|line| line.starts_with("orders/first"));
    assert_eq!(first.as_deref(), Some(r#"orders/first {"id":"first"}"#));
    let items: Value = (0..50)
        .map(|n| json!({"id": format!("k{}", n % 7), "n": n}))
        .collect();
    process.processed("orders", BY_ID, &items.to_string());
    process.removed("orders", "k3");
    process.drained();
    for n in 0..50 {
        let expected = format!(r#"orders/k{} {{"id":"k{}","n":{n}}}"#, n % 7, n % 7);
        let line = seen.find(|line| line.starts_with("orders/"));
        assert_eq!(line, Some(expected));
    }
    let line = seen.find(|line| line.starts_with("orders/"));
    assert_eq!(line.as_deref().map(str::trim_end), Some("orders/k3"));
    keeps(&broker, "#", |kept| {
        let of = |topic: &str| kept.get(topic).map(String::as_str);
        kept.len() == 8
            && of("orders/k0") == Some(r#"{"id":"k0","n":49}"#)
            && of("state/team") == Some("online")
    });
    // Values make neither levels nor wildcards, and no empty level.
    let items = json!([{"id": "a/+#%\u{0}"}, {"id": "$SYS"}]);
    process.processed("orders", BY_ID, &items.to_string());
    process.drained();
    keeps(&broker, "orders/#", |kept| {
        kept.contains_key("orders/a%2F%2B%23%25%00") && kept.contains_key("orders/$SYS")
    });
    process.stop();
    keeps(&broker, "state/#", |kept| {
        kept.get("state/team")
            .is_some_and(|state| state == "offline")
    });
    subscriber.kill().expect("a child");
    subscriber.wait().expect("a child");
}

#[test]
fn topics_of_the_broker_and_empty_payloads_are_refused() {
    let setup = Setup::with_streams(&["orders"]).unlimited();
    const TEST: &str = "topics_of_the_broker";
    let Some(broker) = Broker::start(TEST, &setup, "allow_anonymous true") else {
        return;
    };
    let process = setup.spawn();
    let config = json!({"topic": "{_key}", "payload": "{text|or:}"});
    process
        .make(
            "/api/admin/sinks",
            &publishes("team", broker.port, config, json!({})),
        )
        .data(201);
    let items = json!([{"id": "$a", "text": "x"}, {"id": "b", "text": "y"}, {"id": "c"}]);
    process.failed("orders", BY_ID, &items.to_string());
    process.drained();
    let expected = BTreeMap::from([("b".to_owned(), "y".to_owned())]);
    keeps(&broker, "#", |kept| *kept == expected);
    let letters = json!(process.dead_letters("team")).to_string();
    assert!(letters.contains("begins with `$`"), "{letters}");
    assert!(letters.contains("its payload is empty"), "{letters}");
}

#[test]
fn a_wrong_password_says_what_to_correct() {
    let setup = Setup::with_streams(&["orders"]).unlimited();
    let passwords = setup.path("passwords");
    let more = format!("password_file {}", passwords.display());
    std::fs::write(&passwords, "").expect("room");
    let made = Command::new("mosquitto_passwd")
        .args(["-b".as_ref(), passwords.as_os_str()])
        .args(["team", "right"])
        .output();
    if made.is_err() {
        return skipped("a_wrong_password", "there is no mosquitto_passwd");
    }
    let Some(broker) = Broker::start("a_wrong_password", &setup, &more) else {
        return;
    };
    let process = setup.spawn();
    let make = |name: &str, password: &str| {
        let more = json!({"secrets": {"password": password}});
        let section = publishes(name, broker.port, json!({"user": "team"}), more);
        process.make("/api/admin/sinks", &section).data(201);
    };
    make("wrong", "wrong");
    process.accepted("orders", BY_ID, r#"[{"id": "a"}]"#);
    let sink = process.sink_becomes("wrong", "not sending", |sink| !sink["last_error"].is_null());
    let told = sink["last_error"].to_string();
    assert!(told.contains("correct `user`"), "{told}");
    process
        .call("DELETE", "/api/admin/sinks/wrong?discard=true", "")
        .data(200);
    make("right", "right");
    process.processed("orders", BY_ID, r#"[{"id": "b"}]"#);
}

#[test]
fn a_broker_keeps_what_the_pool_has_whatever_happens_between() {
    let setup = Setup::with_streams(&["orders"]).unlimited();
    const TEST: &str = "a_broker_keeps_what_the_pool_has";
    let Some(mut broker) = Broker::start(TEST, &setup, "allow_anonymous true") else {
        return;
    };
    let mut random = random("MQTT");
    let between = Between::start(broker.port);
    let process = setup.spawn();
    for (name, more) in [
        (
            "rows",
            json!({"retry": {"first_ms": 1, "max_ms": 20, "attempts": 1000}}),
        ),
        ("newest", json!({"mode": "latest", "max_rate": 1000})),
    ] {
        let config = json!({"topic": format!("{name}/{{_key}}"), "timeout_ms": 500});
        let section = publishes(name, between.port, config, more);
        process.make("/api/admin/sinks", &section).data(201);
    }
    let agree = |broker: &Broker, about: &str| {
        process.drained();
        for name in ["rows", "newest"] {
            let what = format!("{about}: {name}, {}", process.log());
            eventually(&what, || {
                let kept = broker.kept(&format!("{name}/#")).into_iter();
                let kept: BTreeMap<String, Value> = kept
                    .map(|(topic, payload)| {
                        let payload = serde_json::from_str(&payload).expect("JSON");
                        (topic[name.len() + 1..].to_owned(), payload)
                    })
                    .collect();
                let pool = pool_of(&setup).into_iter();
                let pool: BTreeMap<_, _> = pool.map(|((_, key), row)| (key, row)).collect();
                (kept == pool).then_some(())
            });
        }
    };
    let mut n = 0;
    for round in 0..number("HEADGATE_FAULT_ROUNDS").unwrap_or(FAULTS) {
        let fault = random.within(0..3);
        let held = Duration::from_micros(random.within(0..900_000));
        if fault == 0 {
            between.holds.store(true, Ordering::Relaxed);
        }
        for _ in 0..random.within(1..12) {
            n += 1;
            let key = format!("k{}", random.within(0..20));
            if random.once_in(4) {
                process.removed("orders", &key);
                continue;
            }
            let items = json!([{"id": key, "n": n}]).to_string();
            process.accepted("orders", BY_ID, &items);
        }
        match fault {
            0 => {
                pause(held);
                between.holds.store(false, Ordering::Relaxed);
            }
            1 => between.cut(),
            _ => broker.restart(),
        }
        if random.once_in(5) {
            agree(&broker, &format!("round {round}"));
        }
    }
    agree(&broker, "the end");
    for sink in ["rows", "newest"] {
        assert_eq!(process.dead_letters(sink), [] as [Value; 0]);
    }
    process.stop();
}
