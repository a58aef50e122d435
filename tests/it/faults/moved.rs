//! The data folder, or a file of it, is moved, replaced or deleted under a running daemon.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{STREAM, all_there, folder, submit};
use crate::process::{BY_ID, Client, Ended, SetOnDrop};
use crate::setup::{Setup, is_in_a_cluster};
use crate::wait::eventually;

/// What one connection was answered until there was no answer any more, in order.
fn statuses(service: SocketAddr, stop: &AtomicBool) -> Vec<(u32, u16)> {
    let mut answers = Vec::new();
    let Ok(mut client) = Client::connect(service) else {
        return answers;
    };
    for number in 0.. {
        let body = format!("{{\"id\": \"{number}\"}}");
        match client.post(STREAM, BY_ID, &body) {
            Ok(answer) if !stop.load(Ordering::SeqCst) => answers.push((number, answer.status)),
            _ => break,
        }
    }
    answers
}

/// Has somebody do something to the folder under load: how the daemon ends, and which items it had answered 202.
fn interfered(setup: &Setup, interfere: impl FnOnce(&Path)) -> (Ended, BTreeSet<String>) {
    let process = setup.spawn();
    let (service, stop) = (process.service, AtomicBool::new(false));
    let mut answers = std::thread::scope(|scope| {
        let stopped = SetOnDrop(&stop);
        let sending = scope.spawn(|| statuses(service, &stop));
        submit(&process, "first");
        interfere(setup.data_dir());
        eventually("it takes no connection any more", || {
            Client::connect(service).err()
        });
        drop(stopped);
        sending.join().expect("no panic")
    });
    let ended = process.ended();
    let refused = answers.iter().position(|(_, status)| *status != 202);
    let after = answers.split_off(refused.unwrap_or(answers.len()));
    for (number, status) in after {
        assert_eq!(status, 503, "item {number}: {}", ended.log);
    }
    let mut taken: BTreeSet<_> = answers.iter().map(|(key, _)| key.to_string()).collect();
    taken.insert("first".to_owned());
    assert_eq!(ended.status.code(), Some(70), "{}", ended.log);
    (ended, taken)
}

#[test]
fn a_folder_that_is_moved_ends_the_daemon_and_has_all_that_was_accepted() {
    let setup = folder();
    let aside = setup.path("aside");
    let (ended, taken) = interfered(&setup, |data| fs::rename(data, &aside).expect("a folder"));
    // A lane may say after it that it is paused.
    let mut lines = ended.log.lines();
    let why = lines.find(|line| line.starts_with("error: "));
    let why = why.expect("why it ended");
    assert!(why.contains("was moved or deleted"), "{}", ended.log);
    assert!(why.contains("put them back"), "{}", ended.log);
    assert!(!setup.data_dir().exists());
    fs::rename(&aside, setup.data_dir()).expect("a folder");
    let process = setup.spawn();
    all_there(&process, &taken);
    process.stop();
}

#[test]
fn a_folder_that_is_deleted_ends_the_daemon() {
    let setup = folder();
    let (ended, _) = interfered(&setup, |data| {
        // The daemon may write into it meanwhile.
        while fs::remove_dir_all(data).is_err() {}
    });
    assert!(ended.log.contains("was moved or deleted"), "{}", ended.log);
}

#[test]
fn a_file_that_is_replaced_or_deleted_ends_the_daemon() {
    // A node has no journal of its own.
    let is_there = |file: &&str| !file.starts_with("journal") || !is_in_a_cluster();
    let files = ["journal.db", "pool.db", "catalog.db", "lock"];
    for file in files.into_iter().filter(is_there) {
        let setup = folder();
        let (ended, _) = interfered(&setup, |data| {
            let (path, copy) = (data.join(file), data.join("copy"));
            fs::copy(&path, &copy).expect("a file");
            fs::rename(&copy, &path).expect("a file");
        });
        let said = format!("{file} was replaced by another file");
        assert!(ended.log.contains(&said), "{file}: {}", ended.log);
    }
    for file in ["journal.db-wal", "pool.db-shm"]
        .into_iter()
        .filter(is_there)
    {
        let setup = folder();
        let (ended, _) = interfered(&setup, |data| {
            fs::remove_file(data.join(file)).expect("a file");
        });
        // The look through the files that follows a start may have made it anew.
        let said = ["was moved or deleted", "was replaced by another file"];
        let mut said = said.iter().map(|how| format!("{file} {how}"));
        assert!(
            said.any(|said| ended.log.contains(&said)),
            "{file}: {}",
            ended.log
        );
    }
}
