//! What the daemon gives up when it starts: seen from outside, and by what it can no longer do.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use crate::command_line::{operate, run};
use crate::guests::guest;
use crate::process::{Process, skipped};
use crate::setup::Setup;
use crate::wait::eventually;

/// `nobody`, and its group.
const NOBODY: u32 = 65_534;

/// A line of `/proc/PID/status`.
fn status(process: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.expect("a line").trim().to_owned()
}

/// Whether a core dump could be made of it, and a debugger of its own user look into it: its files under `/proc` are its
/// own then.
fn is_open_to_debuggers(process: u32, user: u32) -> bool {
    let metadata = std::fs::metadata(format!("/proc/{process}/io")).expect("it lives");
    metadata.uid() == user
}

fn core_limit(process: &Process) -> String {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.id()));
    let limits = limits.expect("it lives");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    line.expect("a line")
        .split_ascii_whitespace()
        .skip(4)
        .take(2)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Whether this kernel holds what the daemon says that it gave up; otherwise the test is skipped.
fn is_held(process: &Process, test: &str) -> bool {
    let held = process.log().contains("landlock=whole");
    if !held {
        skipped(test, "this kernel has no Landlock, or an old one");
    }
    held
}

fn back_up(process: &Process, dir: &Path) -> (u16, String) {
    let body = serde_json::json!({ "dir": dir }).to_string();
    let answer = process.call("POST", "/api/admin/backups", &body);
    (answer.status, answer.body)
}

#[test]
fn a_daemon_of_another_user_than_root_gives_up_all_and_still_compiles_and_delivers() {
    let test = "a_daemon_of_another_user_than_root_gives_up_all";
    if !geteuid().is_root() {
        return skipped(test, "needs root, to be another user");
    }
    let setup = Setup::with_streams(&["orders"]).sink("mine", &guest("stages_twice"), "orders", "");
    let folder = setup.path("");
    std::fs::create_dir(setup.data_dir()).expect("a folder");
    for path in [&folder, &setup.data_dir().to_owned()] {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    let begin = |confine: bool| {
        let setup = setup.clone().set("system.confine", confine);
        let mut shell = Command::new("sh");
        let script = "[ -x \"$0\" ] || exit 3; chmod 644 headgate.toml; \
                      exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$0\" serve --config headgate.toml";
        shell.args(["-c", script, env!("CARGO_BIN_EXE_headgate")]);
        setup.spawn_as(shell)
    };
    let process = match begin(true) {
        Ok(process) => process,
        Err(ended) if ended.log.contains("Permission denied") => {
            return skipped(test, "another user cannot run the program where it lies");
        }
        Err(ended) => panic!("{ended:?}"),
    };
    assert_eq!(
        status(process.id(), "Uid:").split('\t').next(),
        Some("65534")
    );
    assert_eq!(status(process.id(), "NoNewPrivs:"), "1");
    assert_eq!(core_limit(&process), "0 0");
    assert!(!is_open_to_debuggers(process.id(), NOBODY));
    assert!(!process.log().contains("as root"), "{}", process.log());
    process.processed("orders", "", r#"{"id": "a"}"#);
    process.stop();

    let process = begin(false).expect("it starts");
    let own = std::process::id();
    let name = "NoNewPrivs:";
    assert_eq!(status(process.id(), name), status(own, name));
    assert!(is_open_to_debuggers(process.id(), NOBODY));
    assert!(
        !process.log().contains("dropped: other files"),
        "{}",
        process.log()
    );
    process.processed("orders", "", r#"{"id": "b"}"#);
    process.stop();
}

#[test]
fn root_is_told_that_a_user_is_enough() {
    let process = Setup::with_streams(&[]).spawn();
    assert_eq!(
        process.log().matches("as root").count(),
        usize::from(geteuid().is_root())
    );
    assert_eq!(process.problems(), "[]");
    process.stop();
}

#[test]
fn the_daemon_writes_nothing_outside_of_what_it_kept() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let elsewhere = tempfile::tempdir().expect("a folder");
    let dir = elsewhere.path().join("backups");
    let setup = Setup::with_streams(&["orders"]).set(
        "admin.backup_dirs",
        vec![dir.to_str().expect("a path that is text")],
    );
    let process = setup.spawn();
    // The folder was made at the start.
    assert_eq!(
        dir.metadata().expect("a folder").permissions().mode() & 0o777,
        0o700
    );
    let (code, body) = back_up(&process, &dir.join("first"));
    assert_eq!(code, 201, "{body}");
    if !is_held(&process, "the_daemon_writes_nothing_outside") {
        return;
    }
    // The settings allow it, but this is another folder of the same name, which it did not keep.
    std::fs::rename(&dir, elsewhere.path().join("moved")).expect("a folder");
    std::fs::create_dir(&dir).expect("a folder");
    let (code, body) = back_up(&process, &dir.join("second"));
    assert_eq!(code, 400, "{body}");
    assert!(body.contains("Permission denied"), "{body}");
    assert_eq!(dir.read_dir().expect("a folder").count(), 0);
    process.stop();
    let process = setup.clone().set("system.confine", false).spawn();
    let (code, body) = back_up(&process, &dir.join("second"));
    assert_eq!(code, 201, "{body}");
    process.stop();
}

#[test]
fn backups_are_made_where_the_configuration_says_and_the_refusal_names_the_setting() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let elsewhere = tempfile::tempdir().expect("a folder");
    let none: Vec<String> = Vec::new();
    let setup = Setup::with_streams(&["orders"]).set("admin.backup_dirs", none);
    let process = setup.spawn();
    let log = process.log();
    let kept = format!("writes={:?}", setup.data_dir());
    let dropped = log
        .lines()
        .find(|line| line.contains("dropped: other files"));
    assert!(dropped.is_some_and(|line| line.contains(&kept)), "{log}");
    let own = setup.data_dir().join("backups");
    std::os::unix::fs::symlink(elsewhere.path(), setup.data_dir().join("link")).expect("a link");
    for dir in [
        elsewhere.path().join("first"),
        setup.data_dir().join("first"),
        setup.data_dir().join("link/first"),
        own.join("../first"),
        own.join("../../first"),
    ] {
        let (code, body) = back_up(&process, &dir);
        assert_eq!(code, 400, "{}: {body}", dir.display());
        assert!(body.contains("admin.backup_dirs"), "{body}");
    }
    let refused = operate(&process, ["backup", "somewhere"]).failed(1);
    assert!(refused.contains("admin.backup_dirs"), "{refused}");
    let told = operate(&process, ["backup"]).ok();
    assert!(told.starts_with(&format!("{}/20", own.display())), "{told}");
    let (code, body) = back_up(&process, &own.join("mine"));
    assert_eq!(code, 201, "{body}");
    assert_eq!(elsewhere.path().read_dir().expect("a folder").count(), 0);
    process.stop();
}

#[test]
fn files_that_a_changed_configuration_names_are_read_where_others_were_and_the_rest_is_explained() {
    let elsewhere = tempfile::tempdir().expect("a folder");
    let far = elsewhere.path().join("mine.wasm");
    std::fs::copy(guest("stages_twice"), &far).expect("a file");
    let mut setup = Setup::with_streams(&["orders"]).toml("# more\n");
    std::fs::copy(&far, setup.path("near.wasm")).expect("a file");
    let process = setup.spawn();
    if !is_held(&process, "files_that_a_changed_configuration_names") {
        return;
    }
    let sink = |name: &str, plugin: &Path| {
        let plugin = plugin.to_str().expect("a path that is text");
        format!(
            "[[sinks]]\nname = \"{name}\"\nplugin = \"{plugin}\"\nstreams = [\"orders\"]\n# more\n"
        )
    };
    let near = setup.path("near.wasm");
    setup.change("# more\n", &sink("near", &near));
    eventually("it runs", || {
        let sinks = process.list("/api/admin/sinks");
        let near = sinks.iter().find(|sink| sink["name"] == "near")?;
        (near["state"] == "running").then_some(())
    });

    setup.change("# more\n", &sink("far", &far));
    eventually("it is explained", || {
        let problems = process.problems();
        let says = [
            &*far.to_string_lossy(),
            "system.confine",
            "restart the daemon",
        ];
        says.iter()
            .all(|what| problems.contains(what))
            .then_some(())
    });
    assert_eq!(process.sink("near")["state"], "running");

    // A secret cannot be used without being read: the configuration stays as it was.
    let secret = elsewhere.path().join("secret");
    std::fs::write(&secret, "rk_live_for_a_screen_far_away_01").expect("a file");
    let read_key = format!(
        "[[read_keys]]\nname = \"far\"\nstreams = [\"orders\"]\nsecret = {{ file = \"{}\" }}\n",
        secret.display()
    );
    setup.change("# more\n", &read_key);
    eventually("it is explained", || {
        let problems = process.problems();
        (problems.contains("Permission denied") && problems.contains("system.confine"))
            .then_some(())
    });
    process.stop();

    let process = setup.spawn();
    process.sink_becomes("far", "running", |sink| sink["state"] == "running");
    assert!(!process.problems().contains("system.confine"));
    process.stop();
}

#[test]
fn sockets_and_tokens_are_made_where_the_configuration_puts_them() {
    let elsewhere = tempfile::tempdir().expect("a folder");
    let token = elsewhere.path().join("admin.token");
    let socket = elsewhere.path().join("service.sock");
    let setup = Setup::with_streams(&["orders"])
        .without_token()
        .set("server.listen", format!("unix:{}", socket.display()))
        .toml(&format!("[admin.token]\nfile = \"{}\"\n", token.display()));
    let folder = setup.path("");
    let mut daemon = setup.spawn_child();
    eventually("it listens", || {
        let done = run(
            &folder,
            [
                "healthcheck",
                "--url",
                &format!("unix:{}", socket.display()),
            ],
        );
        (done.code == Some(0)).then_some(())
    });
    assert!(
        std::fs::read_to_string(&token)
            .expect("a token")
            .starts_with("at_")
    );
    daemon.kill().expect("a child");
    daemon.wait().expect("a child");
    // The next start takes the place of the socket that was left.
    let mut daemon = setup.spawn_child();
    eventually("it listens again", || {
        let done = run(
            &folder,
            [
                "healthcheck",
                "--url",
                &format!("unix:{}", socket.display()),
            ],
        );
        (done.code == Some(0)).then_some(())
    });
    let id = i32::try_from(daemon.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(id.expect("an id"), rustix::process::Signal::TERM)
        .expect("it runs");
    assert!(crate::program::wait(&mut daemon).success());
    assert!(!socket.exists());
}
