//! The command line: the real binary with real arguments, against a real daemon.

mod bench; // measures a running daemon, tidies up behind itself
mod catalog; // stream, connector, key and read-key against a running daemon
mod configuration; // check, config show, key new, serve's refusals
pub(crate) mod demo; // the newcomer's first command, and the curl line that it prints
mod found; // the daemon of the configuration, by every verb of operators
mod healthcheck; // against a daemon that takes requests, refuses them, is not there
mod hostile; // what listings print of hostile texts
mod plugin; // check and test, without a daemon
mod preset; // presets listed, printed and tried
mod screen; // screen new, url and save
mod send; // send and requests against a running daemon
mod sign_in; // links to the admin pages
mod sink; // sink list, dead-letters, retry, discard
mod spool; // send --spool, against a daemon that refuses, is killed, is not there
mod status; // status, item, times, nobody there, a port that is taken
mod tail_log; // the request log as it grows
mod tools; // tools that sign, connected from the command line

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process::Process;
use crate::program::{RUN_MAX, output_within};

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The program, without the settings of whoever runs the tests.
pub(crate) fn headgate(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HEADGATE_") {
            command.env_remove(name);
        }
    }
    command
        .env("TZ", "UTC")
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn run<A: AsRef<OsStr>>(folder: &Path, args: impl IntoIterator<Item = A>) -> Done {
    finish(headgate(folder).args(args), "")
}

/// Where the operator of a process finds it, and how he shows that he is one.
pub(crate) fn admin_args(process: &Process) -> [String; 4] {
    let url = format!("http://{}", process.admin);
    let token = process.setup.admin_token();
    ["--admin-url", &url, "--token", &token].map(str::to_owned)
}

/// Runs the program to its end as the operator of a process, in its folder.
pub(crate) fn operate<A: AsRef<OsStr>>(
    process: &Process,
    args: impl IntoIterator<Item = A>,
) -> Done {
    let mut command = headgate(&process.setup.path(""));
    finish(command.args(args).args(admin_args(process)), "")
}

/// Runs a command to its end, with this on its standard input.
pub(crate) fn finish(command: &mut Command, input: &str) -> Done {
    finish_within(RUN_MAX, command, input)
}

/// The same for a command that may take longer.
pub(crate) fn finish_within(time_max: Duration, command: &mut Command, input: &str) -> Done {
    let output = output_within(time_max, command, input.as_bytes()).expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("it prints UTF-8");
    Done {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

impl Done {
    /// The output of a command that succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }

    /// What a command said that failed with this code.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        assert!(!self.err.is_empty(), "a failure is explained");
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }
}

#[test]
fn wrong_use_exits_with_2_and_says_what_is_right() {
    let folder = tempfile::tempdir().expect("a folder");
    for (args, says) in [
        (&[][..], "Usage"),
        (&["serv"], "serve"),
        (&["serve", "--port", "80"], "--port"),
        (&["serve", "--config", "missing.toml"], "missing.toml"),
        (&["check", "extra"], "extra"),
        (&["config"], "show"),
        (&["key", "new", "--read", "--test"], "--test"),
        (
            &["send", "missing.json", "--key", "ik_live_0123456789abcdef"],
            "missing.json",
        ),
        (
            &["send", ".", "--key", "ik_live_0123456789abcdef"],
            "directory",
        ),
        (&["send", "--retries", "many"], "many"),
        (&["send", "-"], "HEADGATE_KEY"),
        (
            &["send", "-", "--key", "rk_live_0123456789abcdef"],
            "read key",
        ),
        (
            &[
                "send",
                "-",
                "--key",
                "ik_live_0123456789abcdef",
                "--url",
                "ftp://x",
            ],
            "ftp://x",
        ),
        (&["requests"], "--token"),
        (&["requests", "--status", "odd"], "processed"),
        (&["requests", "--since", "soon"], "RFC 3339"),
        (&["sink"], "dead-letters"),
        (&["sink", "retry"], "<NAME>"),
        (&["sink", "retry", "pool", "--id", "1", "--all"], "--all"),
        (&["sink", "discard", "pool"], "--request"),
        (&["sink", "list"], "--token"),
        (&["tail"], "<STREAM>"),
        (&["tail", "orders"], "--key-file"),
        (&["tail", "orders", "--key", "ik_live_x"], "rk_"),
        (&["tail", "orders", "--since", "soon"], "EPOCH:SEQ"),
        (&["tail", "orders", "--log"], "--log"),
        (&["tail", "orders", "--status", "failed"], "STREAM"),
        (&["tail", "--log", "--status", "odd"], "processed"),
        (&["tail", "--log"], "--token"),
        (&["export"], "<STREAM>"),
        (&["export", "orders"], "--token"),
        (&["export", "orders", "--format", "xlsx"], "ndjson"),
        (&["bench", "--seconds", "2"], "3..=600"),
        (&["bench"], "--token"),
        (&["bench", "--nodes", "10"], "0..=9"),
        (&["bench", "--nodes", "2"], "--database"),
        (&["bench", "--connections", "8"], "--nodes"),
        (&["bench", "--nodes", "0", "--keep-rate"], "--keep-rate"),
        (
            &["bench", "--nodes", "0", "--disk-dir", "missing"],
            "missing",
        ),
        (&["backup", "one", "two"], "two"),
        (&["backup"], "--token"),
        (&["restore", "somewhere"], "--data-dir"),
        (&["man"], "<DIR>"),
        (&["completions", "cobol"], "bash"),
    ] {
        let told = run(folder.path(), args).failed(2);
        let told = told.replace("2025-03-01T12:00:00Z", "RFC 3339");
        assert!(told.contains(says), "{args:?}: {told}");
    }
}

#[test]
fn help_and_version_are_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = format!("headgate {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(folder.path(), ["-V"]).ok().trim(), short);
    let version = run(folder.path(), ["--version"]).ok();
    assert_eq!(version.trim(), format!("{short} (debug build)"));
    let help = run(folder.path(), ["--help"]).ok();
    for verb in [
        "serve",
        "demo",
        "check",
        "config",
        "key",
        "send",
        "tail",
        "export",
        "requests",
        "sign-in",
        "sink",
        "bench",
        "backup",
        "restore",
        "healthcheck",
        "man",
        "completions",
    ] {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb} in {help}");
        let help = run(folder.path(), [verb, "--help"]).ok();
        let (_, after) = help.split_once("\nExample").unwrap_or_default();
        assert!(
            after.contains(&format!("headgate {verb}")),
            "{verb}: {help}"
        );
    }
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = run(folder.path(), ["man", "share/man1"]).ok();
    assert!(told.contains("share/man1"), "{told}");
    let page = |name: &str| {
        let path = folder.path().join("share/man1").join(name);
        let page = std::fs::read_to_string(path);
        page.unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let overview = page("headgate.1");
    assert!(
        overview.starts_with(".") && overview.contains(".TH headgate 1"),
        "{overview}"
    );
    for verb in [
        "serve",
        "tail",
        "backup",
        "restore",
        "sink\\-list",
        "key\\-new",
    ] {
        let text = page(&format!("headgate-{}.1", verb.replace('\\', "")));
        assert!(
            text.contains(".SH SYNOPSIS") && text.contains("headgate"),
            "{text}"
        );
        assert!(text.contains("Example"), "{verb}: {text}");
        assert!(
            !text.contains("ADMIN_TOKEN="),
            "no value of a secret: {text}"
        );
    }
    let told = run(folder.path(), ["man", "/proc/nowhere"]).failed(1);
    assert!(told.contains("/proc/nowhere"), "{told}");
}

#[test]
fn completions_are_scripts_that_the_shell_understands() {
    let folder = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let script = run(folder.path(), ["completions", shell]).ok();
        assert!(
            script.contains("headgate") && script.contains("requests"),
            "{shell}"
        );
    }
    let script = run(folder.path(), ["completions", "bash"]).ok();
    let check = finish(Command::new("bash").arg("-n"), &script);
    assert_eq!((check.code, &*check.err), (Some(0), ""));
    let words = "COMP_WORDS=(headgate comp); COMP_CWORD=1; _headgate headgate comp headgate; echo ${COMPREPLY[@]}";
    let completed = finish(&mut Command::new("bash"), &format!("{script}\n{words}\n")).ok();
    assert_eq!(completed.trim(), "completions");
}
