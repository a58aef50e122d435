//! `headgate demo`: what a newcomer sees first must work as printed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process};

use super::{finish, headgate, run};
use crate::program::{Lines, wait};
use crate::setup::Setup;

/// Two demos that look for free ports at the same moment could choose the same ones.
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A folder whose name a shell would obey, if it came to it unquoted.
const HOSTILE: &str = "it's $(touch pwned) my demo";

/// The printed command that begins with this word: its line, and those that it goes on in.
pub(crate) fn printed_command(text: &str, begins: &str) -> String {
    let mut command = String::new();
    for line in text
        .lines()
        .skip_while(|line| !line.trim_start().starts_with(begins))
    {
        command += line;
        command.push('\n');
        if !line.ends_with('\\') {
            return command;
        }
    }
    panic!("no {begins} in:\n{text}");
}

#[test]
fn a_demo_sends_itself_something_and_shows_it() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = tempfile::tempdir().expect("a folder");
    let text = run(folder.path(), ["demo", "--once", "--data-dir", "try/it"]).ok();
    for says in [
        "202, request ",
        "In the data pool:",
        "hcl-2025-r09-m4",
        "curl -i http://127.0.0.1:",
        "-H 'Authorization: Bearer ik_live_",
    ] {
        assert!(text.contains(says), "{says} in:\n{text}");
    }
    let data_dir = folder.path().join("try/it");
    assert_eq!(Setup::new().data_in(&data_dir).rows("scoreboard").len(), 3);
    let key = |text: &str| {
        let (_, rest) = text.split_once("Bearer ").expect("a key");
        rest.split('\'').next().map(str::to_owned)
    };
    let again = run(folder.path(), ["demo", "--once", "--data-dir", "try/it"]).ok();
    assert_eq!(key(&again), key(&text), "the key stays the same");
    assert_eq!(Setup::new().data_in(&data_dir).rows("scoreboard").len(), 3);
}

/// A demo that keeps serving; killed when dropped.
pub(crate) struct Demo {
    child: Child,
    text: String,
}

impl Demo {
    pub(crate) fn start(folder: &Path) -> Self {
        let mut command = headgate(folder);
        command.args(["demo", "--data-dir", HOSTILE]);
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the program starts");
        let mut text = String::new();
        let mut lines = Lines::of(child.stdout.take().expect("piped"));
        while !text.contains("Serving until Ctrl-C") {
            let line = lines.next();
            let line = line.unwrap_or_else(|| panic!("it ended:\n{text}"));
            text += &line;
            text.push('\n');
        }
        Self { child, text }
    }

    /// What it printed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn stop(mut self) -> Option<i32> {
        let id = i32::try_from(self.child.id()).expect("a process id");
        kill_process(Pid::from_raw(id).expect("not 0"), Signal::TERM).expect("it runs");
        wait(&mut self.child).code()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the machine has a program; without it the named step is skipped, except under CI.
pub(crate) fn there_is(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    if !found {
        assert!(
            std::env::var_os("CI").is_none(),
            "{program} is needed under CI"
        );
        let reason = format!("there is no {program}");
        crate::process::skipped("the_demos_commands_work_as_printed", &reason);
    }
    found
}

#[test]
fn the_demos_commands_work_as_printed() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = tempfile::tempdir().expect("a folder");
    let demo = Demo::start(folder.path());
    let shell = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(folder.path());
        finish(&mut shell, "").ok()
    };
    if there_is("curl") {
        let answer = shell(&printed_command(&demo.text, "curl"));
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
        assert!(answer.contains("\"items_received\":1"), "{answer}");
        crate::wait::eventually("the goal is in the pool, and all that was there", || {
            let rows = Setup::new()
                .data_in(folder.path().join(HOSTILE))
                .rows("scoreboard");
            let scored = |fields: &str| {
                fields.contains(r#""home.score":3"#) && fields.contains("Musterstadt")
            };
            rows.iter().any(|row| scored(&row.fields)).then_some(())
        });
        if there_is("sqlite3") {
            let rows = shell(&printed_command(&demo.text, "sqlite3"));
            assert!(
                rows.contains("hcl-2025-r09-m3") && rows.contains("Musterstadt United"),
                "{rows}"
            );
        }
    }
    let requests = printed_command(&demo.text, "headgate requests");
    let program = env!("CARGO_BIN_EXE_headgate");
    let log = shell(&requests.replace("headgate requests", &format!("{program} requests")));
    assert!(
        log.contains("scoreboard") && log.contains("processed"),
        "{log}"
    );
    assert!(!folder.path().join("pwned").exists());
    assert_eq!(demo.stop(), Some(0));
}
