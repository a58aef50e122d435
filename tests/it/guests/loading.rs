//! Plugins that cannot be loaded or started, and the cache of compiled code.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use super::{LIMITS, beside_a_good_sink, guest, keys, nobody_else_suffers};
use crate::process::{BY_ID, Process};
use crate::setup::Setup;

fn paused(process: &Process, words: &str) {
    let contains = |text: &serde_json::Value| text.as_str().is_some_and(|t| t.contains(words));
    process.sink_becomes("hostile", &format!("paused with {words:?}"), |sink| {
        sink["state"] == "paused" && contains(&sink["reason"])
    });
    let status = process.admin("/api/admin/status");
    assert!(
        status["problems"].to_string().contains("hostile"),
        "{status}"
    );
}

#[test]
fn a_sink_that_loops_before_its_first_call_is_paused_and_its_data_waits() {
    let process = beside_a_good_sink("loops_at_start", "").spawn();
    let id = process.accepted("hostile", "", r#"{"id": "a"}"#);
    paused(&process, "loops_at_start.wasm does not start");
    assert_eq!(process.request(&id)["status"], "accepted");
    assert_eq!(process.sink("hostile")["dead_letters"], 0);
    nobody_else_suffers(process);
}

#[test]
fn a_sink_that_asks_for_files_is_paused_and_the_import_is_named() {
    let process = beside_a_good_sink("wants_files", "").spawn();
    let id = process.accepted("hostile", "", r#"{"id": "a"}"#);
    paused(&process, "wants_files.wasm does not fit the world");
    paused(&process, "wasi:filesystem");
    assert_eq!(process.request(&id)["status"], "accepted");
    nobody_else_suffers(process);
}

#[test]
fn a_plugin_that_is_garbage_or_gone_pauses_its_lane_until_it_is_mended() {
    let folder = Setup::with_streams(&["hostile", "innocent"]).toml(LIMITS);
    let plugin = folder.path("mended.wasm");
    std::fs::write(&plugin, b"\0asm what follows is nothing").expect("a file");
    let folder = folder
        .sink("hostile", &plugin.display().to_string(), "hostile", "")
        .sink("pool", "pool", "innocent", "");
    let process = folder.spawn();
    let id = process.accepted("hostile", BY_ID, r#"{"id": "a"}"#);
    paused(
        &process,
        "mended.wasm is not a usable WebAssembly component",
    );
    assert_eq!(process.request(&id)["status"], "accepted");
    std::fs::remove_file(&plugin).expect("a file");
    paused(&process, "cannot read the plugin");
    std::fs::copy(guest("stages_twice"), &plugin).expect("a file");
    process.request_becomes(&id, "processed");
    assert_eq!(keys(&folder, "hostile"), ["a"]);
    nobody_else_suffers(process);
}

#[test]
fn a_plugin_that_is_missing_at_the_start_is_a_mistake_in_the_configuration() {
    let folder = Setup::with_streams(&["hostile"]).sink("hostile", "gone.wasm", "hostile", "");
    let ended = folder.try_spawn().expect_err("it must not start");
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.log.contains("gone.wasm"), "{}", ended.log);
    assert!(ended.log.contains("headgate.toml"), "{}", ended.log);
}

/// The files of compiled code.
fn cached(folder: &Setup) -> Vec<PathBuf> {
    let cache = folder.data_dir().join("plugin-cache");
    let mode = std::fs::metadata(&cache).expect("the cache").permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    let files = std::fs::read_dir(cache).expect("the cache");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
}

fn deliver(process: &Process) {
    for stream in ["hostile", "innocent"] {
        process.processed(stream, BY_ID, r#"{"id": "a"}"#);
    }
}

#[test]
fn the_second_start_compiles_nothing() {
    let folder = beside_a_good_sink("stages_twice", "");
    let process = folder.spawn();
    deliver(&process);
    process.stop();
    let identity = |file: &PathBuf| {
        let metadata = std::fs::metadata(file).expect("a file");
        (metadata.ino(), metadata.mtime_nsec(), metadata.ctime_nsec())
    };
    let files = cached(&folder);
    assert_eq!(files.len(), 2);
    let before: Vec<_> = files.iter().map(identity).collect();
    let process = folder.spawn();
    deliver(&process);
    process.stop();
    assert_eq!(cached(&folder), files);
    assert_eq!(files.iter().map(identity).collect::<Vec<_>>(), before);
}

#[test]
fn compiled_code_that_was_changed_is_not_loaded_but_made_again() {
    let folder = beside_a_good_sink("stages_twice", "");
    let process = folder.spawn();
    deliver(&process);
    process.stop();
    let files = cached(&folder);
    for (index, file) in files.iter().enumerate() {
        let mut code = std::fs::read(file).expect("a file");
        let middle = code.len() / 2;
        if index == 0 {
            code[middle] ^= 0x10;
        } else {
            code.truncate(middle);
        }
        std::fs::write(file, code).expect("a file");
    }
    let tampered: Vec<_> = files.iter().map(|file| std::fs::read(file).ok()).collect();
    let process = folder.spawn();
    deliver(&process);
    process.stop();
    assert_eq!(cached(&folder), files);
    for (file, tampered) in files.iter().zip(tampered) {
        assert_ne!(std::fs::read(file).ok(), tampered, "{}", file.display());
    }
    let process = folder.spawn();
    deliver(&process);
    nobody_else_suffers(process);
}
