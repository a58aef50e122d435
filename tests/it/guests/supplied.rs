//! Files that users supply: what loading and compiling them may cost, and the pin.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use super::{guest, keys, nobody_else_suffers, wasm};
use crate::command_line::run;
use crate::process::{BY_ID, Process};
use crate::program::output;
use crate::setup::Setup;
use crate::wait::eventually;

/// A daemon whose stream `hostile` goes to `hostile.wasm` in its folder.
fn supplied(limits: &str, more: &str) -> Setup {
    let folder = Setup::with_streams(&["hostile", "innocent"]);
    let plugin = folder.path("hostile.wasm").display().to_string();
    folder
        .toml(&format!("[plugins]\n{limits}"))
        .sink("hostile", &plugin, "hostile", more)
        .sink("pool", "pool", "innocent", "")
}

fn put(folder: &Setup, bytes: &[u8]) {
    std::fs::write(folder.path("hostile.wasm"), bytes).expect("a file");
}

/// The lane is paused for a reason with these words.
fn paused(process: &Process, words: &str) {
    process.sink_becomes("hostile", &format!("paused with {words:?}"), |sink| {
        let reason = sink["reason"].as_str().unwrap_or_default();
        sink["state"] == "paused" && reason.contains(words)
    });
}

/// Ids of the children of a process, the dead ones included.
pub(super) fn children(process: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("the process table");
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let parent = |id: &u32| stat(*id).and_then(|fields| fields.get(1)?.parse().ok());
    ids.filter(|id| parent(id) == Some(process)).collect()
}

/// CPU time of the children that were waited for, in seconds.
fn cpu_of_children(process: u32) -> f64 {
    let fields = stat(process).expect("the process");
    // cutime and cstime, in hundredths.
    let time = |index: usize| fields[index].parse::<f64>().expect("a number");
    (time(13) + time(14)) / 100.0
}

/// The fields of `/proc/PID/stat` from the state on; none if there is no such process.
fn stat(process: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}

#[test]
fn what_is_too_costly_to_compile_is_refused_with_the_limit_that_it_reached() {
    let blocks = wasm::many_blocks(500_000);
    let locals = wasm::many_locals(50_000);
    for (bytes, limits, setting) in [
        (
            &blocks,
            "compile_memory_max_bytes = 400_000_000\n",
            "compile_memory_max_bytes",
        ),
        (&locals, "compile_cpu_seconds = 1\n", "compile_cpu_seconds"),
        (
            &wasm::many_functions(900_000),
            "compile_memory_max_bytes = 400_000_000\n",
            "compile_memory_max_bytes",
        ),
        (
            &locals,
            "compile_timeout_seconds = 1\n",
            "compile_timeout_seconds",
        ),
        (&blocks, "file_max_bytes = 1_000_000\n", "file_max_bytes"),
    ] {
        let folder = supplied(limits, "");
        put(&folder, bytes);
        let process = folder.spawn();
        let id = process.accepted("hostile", BY_ID, r#"{"id": "a"}"#);
        paused(&process, &format!("plugins.{setting}"));
        paused(&process, "hostile.wasm");
        assert!(children(process.id()).is_empty(), "{setting}");
        put(
            &folder,
            &std::fs::read(guest("stages_twice")).expect("a guest"),
        );
        // Which fits into the memory, but on a busy machine not into the least of times.
        if setting == "compile_memory_max_bytes" {
            process.request_becomes(&id, "processed");
            assert_eq!(keys(&folder, "hostile"), ["a"]);
        }
        nobody_else_suffers(process);
    }
}

#[test]
fn what_was_refused_is_not_compiled_again_while_it_is_the_same() {
    let folder = supplied("compile_cpu_seconds = 1\n", "");
    put(&folder, &wasm::many_locals(50_000));
    let process = folder.spawn();
    let pauses = || {
        let log = process.log();
        let paused = |line: &&str| line.contains("the sink is paused");
        log.lines().filter(paused).count()
    };
    eventually("an attempt", || (pauses() >= 1).then_some(()));
    let once = cpu_of_children(process.id());
    assert!(once > 0.0, "nothing was compiled");
    eventually("three attempts", || (pauses() >= 3).then_some(()));
    assert_eq!(cpu_of_children(process.id()), once, "it was compiled again");
    nobody_else_suffers(process);
}

#[test]
fn files_that_are_no_components_pause_their_lane() {
    let whole = std::fs::read(guest("stages_twice")).expect("a guest");
    let compiled =
        Setup::with_streams(&["hostile"]).sink("a", &guest("stages_twice"), "hostile", "");
    let process = compiled.spawn();
    process.sink_becomes("a", "loaded", |sink| sink["state"] == "running");
    process.stop();
    let cache = std::fs::read_dir(compiled.data_dir().join("plugin-cache")).expect("a folder");
    let code = cache.map(|file| std::fs::read(file.expect("a file").path()).expect("a file"));
    let code = code.last().expect("compiled code");
    assert!(code.starts_with(b"\x7fELF"));
    for (bytes, words) in [
        (&code[..], "it is compiled code, which is never loaded"),
        (&code[..code.len() - 32], "it is compiled code"),
        (
            &whole[..whole.len() / 2],
            "not a usable WebAssembly component",
        ),
        (&whole[..9], "not a usable WebAssembly component"),
        (b"", "not a usable WebAssembly component"),
        (
            b"\x7fELF and nothing else",
            "not a usable WebAssembly component",
        ),
        // A core module is no component.
        (b"\0asm\x01\0\0\0", "not a usable WebAssembly component"),
    ] {
        let folder = supplied("", "");
        put(&folder, bytes);
        let process = folder.spawn();
        paused(&process, words);
        nobody_else_suffers(process);
    }
}

#[test]
fn what_is_no_regular_file_is_refused_before_it_is_read() {
    let folder = supplied("", "");
    put(&folder, b"");
    let process = folder.spawn();
    paused(&process, "not a usable");
    std::fs::remove_file(folder.path("hostile.wasm")).expect("a file");
    let made = Command::new("mkfifo")
        .arg(folder.path("hostile.wasm"))
        .status();
    assert!(made.expect("mkfifo starts").success());
    paused(&process, "it is not a regular file");
    std::fs::remove_file(folder.path("hostile.wasm")).expect("a pipe");
    std::os::unix::fs::symlink("/dev/zero", folder.path("hostile.wasm")).expect("a link");
    paused(&process, "it is not a regular file");
    std::fs::remove_file(folder.path("hostile.wasm")).expect("a link");
    // Without a byte on the disk.
    let huge = File::create(folder.path("hostile.wasm")).expect("a file");
    huge.set_len(100 << 40)
        .or_else(|_| huge.set_len(100 << 20))
        .expect("a length");
    paused(&process, "plugins.file_max_bytes = 67108864");
    nobody_else_suffers(process);
}

#[test]
fn the_daemon_stops_in_time_while_a_component_is_compiled() {
    let folder = supplied(
        "compile_cpu_seconds = 600\ncompile_timeout_seconds = 600\n",
        "",
    );
    put(&folder, &wasm::many_locals(50_000));
    let process = folder.spawn();
    eventually("the compiler runs", || {
        (!children(process.id()).is_empty()).then_some(())
    });
    process.stop();
}

#[test]
fn the_process_that_compiles_has_given_up_everything_else() {
    let folder = supplied(
        "compile_cpu_seconds = 600\ncompile_timeout_seconds = 600\n",
        "",
    );
    put(&folder, &wasm::many_locals(50_000));
    let process = folder.spawn();
    let status = eventually("a compiler that has begun", || {
        let compiler = *children(process.id()).first()?;
        let status = std::fs::read_to_string(format!("/proc/{compiler}/status")).ok()?;
        let is_confined = |line: &str| line == "Seccomp:\t2";
        status.lines().any(is_confined).then_some(status)
    });
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    process.stop();
}

#[test]
fn a_pinned_sink_runs_this_very_file_only() {
    let path = guest("stages_twice");
    let said = run(Path::new("."), ["plugin", "check", &path]).out;
    let pin = said.lines().find(|line| line.starts_with("sha256 = \""));
    let pin = pin.expect("a digest to copy");

    let folder = supplied("", &format!("{pin}\n"));
    std::fs::copy(&path, folder.path("hostile.wasm")).expect("a file");
    let process = folder.spawn();
    process.processed("hostile", BY_ID, r#"{"id": "a"}"#);
    process.stop();

    // Another good component is another one all the same.
    std::fs::copy(guest("hoards"), folder.path("hostile.wasm")).expect("a file");
    let process = folder.spawn();
    let id = process.accepted("hostile", BY_ID, r#"{"id": "b"}"#);
    let wanted = pin.trim_start_matches("sha256 = ").trim_matches('"');
    paused(&process, &format!("expected SHA-256 {wanted}"));
    let found = sha256sum(&folder.path("hostile.wasm"));
    paused(&process, &format!("found {found}"));
    assert_eq!(process.request(&id)["status"], "accepted");
    let check = ["check", "--config", "headgate.toml"];
    let said = run(&folder.path(""), check).failed(2);
    assert!(said.contains("checksum mismatch for"), "{said}");
    std::fs::copy(&path, folder.path("hostile.wasm")).expect("a file");
    process.request_becomes(&id, "processed");
    nobody_else_suffers(process);
}

fn sha256sum(path: &Path) -> String {
    let output = output(Command::new("sha256sum").arg(path));
    let output = output.expect("sha256sum starts").stdout;
    let text = String::from_utf8(output).expect("text");
    text.split(' ').next().expect("a digest").to_owned()
}
