//! Kills at random moments of every change: afterwards it is as it was before, or as it was to be.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::forwards;
use crate::app::Random;
use crate::faults::{pause, random};
use crate::process::Process;
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;

/// Kills of each change.
const KILLS: u64 = 6;

/// Runs a call that a kill meets at a random moment of its first milliseconds; the status, if it was answered.
fn killed(process: Process, random: &mut Random, call: (&str, &str, &str)) -> Option<u16> {
    let time = Duration::from_micros(random.within(0..60_000));
    let id = i32::try_from(process.id()).expect("a process id");
    let id = Pid::from_raw(id).expect("not 0");
    let answered = std::thread::scope(|scope| {
        scope.spawn(move || {
            pause(time);
            kill_process(id, Signal::KILL).expect("a child");
        });
        process.try_call(call.0, call.1, call.2)
    });
    process.kill();
    answered
}

#[test]
fn a_kill_finds_every_change_before_or_after_and_never_between() {
    let receiver = Receiver::start(|_, _| answer(200, "", ""));
    let mut random = random("kills of sinks");
    let folder = Setup::with_streams(&["orders"]);
    let sink = forwards(&receiver, "team", "orders");
    let path = "/api/admin/sinks/team";
    let state = |process: &Process| -> Option<Value> {
        let answer = process.call("GET", path, "");
        (answer.status == 200).then(|| answer.data(200))
    };
    for _ in 0..KILLS {
        let process = folder.spawn();
        let answered = killed(
            process,
            &mut random,
            ("POST", "/api/admin/sinks", &sink.to_string()),
        );
        let process = folder.spawn();
        let found = state(&process);
        assert!(
            found.is_some() || answered != Some(201),
            "it was answered and is gone"
        );
        if found.is_none() {
            process.make("/api/admin/sinks", &sink).data(201);
        }
        // Something that only deleting takes away.
        process.call("POST", &format!("{path}/pause"), "").data(200);
        process.accepted("orders", "", r#"{"number": 1}"#);

        let change = json!({"where": "number>=7", "fields": "number"}).to_string();
        let answered = killed(process, &mut random, ("PATCH", path, &change));
        let process = folder.spawn();
        let found = state(&process).expect("it was there");
        let both = (&found["where"], &found["fields"]);
        let after = (&json!("number>=7"), &json!("number"));
        assert!(both == after || (both == (&Value::Null, &Value::Null) && answered != Some(200)));
        assert_eq!(found["paused_by"], "admin token");

        let answered = killed(
            process,
            &mut random,
            ("DELETE", &format!("{path}?discard=true"), ""),
        );
        let process = folder.spawn();
        match state(&process) {
            None => assert!(
                !process.problems().contains("team"),
                "nothing is kept of it"
            ),
            Some(found) => {
                assert_ne!(answered, Some(200));
                assert_eq!(found["lag"], 1, "what waited still waits");
                process
                    .call("DELETE", &format!("{path}?discard=true"), "")
                    .data(200);
            }
        }
        process.kill();
    }
}
