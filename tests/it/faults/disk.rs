//! A disk that is nearly full, full, or refuses to be written.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{STREAM, all_there, folder, submit};
use crate::process::{Answer, BY_ID, Client, Process, skipped};
use crate::program::output;
use crate::setup::{ADMIN_TOKEN, Setup};
use crate::wait::eventually;

const MIB: u64 = 1 << 20;

/// A small file system in memory.
struct Disk(PathBuf);

impl Disk {
    /// `None` where this user may not mount one.
    fn mount(test: &str, folder: &Setup, options: &str) -> Option<Self> {
        let path = folder.path("disk");
        std::fs::create_dir(&path).expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]);
        match output(mount.arg(&path)) {
            Ok(output) if output.status.success() => Some(Self(path)),
            Ok(output) => {
                skipped(test, &String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(error) => {
                skipped(test, &error.to_string());
                None
            }
        }
    }

    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.0).expect("a file system");
        disk.f_bavail * disk.f_frsize
    }

    /// Fills the disk until so many bytes are left.
    fn leave(&self, bytes: u64) {
        let filler = vec![0; usize::try_from(self.free().saturating_sub(bytes)).expect("small")];
        std::fs::write(self.0.join("filler"), filler).expect("room");
    }

    /// Fills it to the last byte, while others write to it.
    fn fill(&self) {
        let mut filler = std::fs::OpenOptions::new();
        let filler = filler.append(true).create(true).open(self.0.join("filler"));
        let mut filler = filler.expect("a file");
        while filler.write_all(&[0; 1 << 16]).is_ok() {}
    }

    /// Takes back what [`Disk::leave`] or [`Disk::fill`] did.
    fn make_room(&self) {
        std::fs::remove_file(self.0.join("filler")).expect("the filler");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn ready(process: &Process) -> u16 {
    let mut client = process.client();
    client.get("/readyz", "").expect("an answer").status
}

#[test]
fn a_nearly_full_disk_is_answered_503_before_it_is_full_and_recovers_by_itself() {
    if crate::setup::file_only("requests are on the disk of the server") {
        return;
    }
    let folder = folder()
        .set("storage.min_free_bytes", 8_000_000)
        .set("storage.payload_retention_minutes", 60);
    let Some(disk) = Disk::mount("a nearly full disk", &folder, "size=32m") else {
        return;
    };
    let folder = folder.data_in(disk.0.join("data"));
    let process = folder.spawn();
    let mut wanted = BTreeSet::from(["before".to_owned()]);
    submit(&process, "before");
    assert_eq!(ready(&process), 200);

    disk.leave(6 * MIB);
    // Nothing is sent before that is known: what is sent takes room.
    eventually("requests are refused", || {
        (ready(&process) == 503).then_some(())
    });
    let refusal = process.post(STREAM, BY_ID, r#"{"id": "while"}"#);
    assert_eq!(refusal.status, 503);
    assert_eq!(refusal.json()["error"]["code"], "UNAVAILABLE");
    let retry_after = refusal.header("retry-after").expect("Retry-After");
    assert!(retry_after.parse::<u64>().expect("seconds") >= 1);
    // The disk is not full, and reading goes on.
    assert!(disk.free() > MIB);
    assert!(process.problems().contains("nearly full"));
    process.drained();

    disk.make_room();
    eventually("requests are taken again", || {
        (ready(&process) == 200).then_some(())
    });
    submit(&process, "after");
    wanted.insert("after".to_owned());
    all_there(&process, &wanted);
    process.stop();
}

#[test]
fn a_full_disk_is_answered_503_loses_nothing_and_recovers_by_itself() {
    if crate::setup::file_only("requests are on the disk of the server") {
        return;
    }
    let folder = folder();
    let Some(disk) = Disk::mount("a full disk", &folder, "size=32m") else {
        return;
    };
    let folder = folder.data_in(disk.0.join("data"));
    let mut process = folder.spawn();
    submit(&process, "before");
    let mut wanted = BTreeSet::from(["before".to_owned()]);
    disk.leave(4 * MIB);

    let mut client = process.client();
    let mut send = |number: u32| {
        // Small ones find a place where large ones do not.
        let filling = "x".repeat(if number.is_multiple_of(2) { 60_000 } else { 10 });
        let body = format!("{{\"id\": \"{number}\", \"filling\": \"{filling}\"}}");
        let headers = format!("{BY_ID}Idempotency-Key: {number}\r\n");
        let answer = client.post(STREAM, &headers, &body);
        answer.expect("an answer, full disk or not")
    };
    let mut refused = Vec::new();
    for number in 0..10_000 {
        let answer = send(number);
        match answer.status {
            202 => {
                wanted.insert(number.to_string());
            }
            503 => {
                assert_eq!(answer.json()["error"]["code"], "UNAVAILABLE");
                assert!(answer.body.contains("the disk is full"), "{}", answer.body);
                assert_eq!(answer.header("retry-after"), Some("30"));
                refused.push(number);
            }
            _ => panic!("{} {}", answer.status, answer.body),
        }
        if refused.len() == 20 {
            break;
        }
    }
    let count = refused.len();
    assert_eq!(count, 20, "the disk never became full: {}", disk.free());
    assert!(wanted.len() > 2);
    assert!(process.lives());

    disk.make_room();
    submit(&process, "after");
    wanted.insert("after".to_owned());
    // A refused key was not used.
    for number in refused {
        let answer = send(number);
        assert_eq!(answer.status, 202, "{}", answer.body);
        assert_eq!(answer.header("idempotent-replayed"), None, "{number}");
        wanted.insert(number.to_string());
    }
    all_there(&process, &wanted);
    process.kill();
    let process = folder.spawn();
    all_there(&process, &wanted);
    process.stop();
}

/// Bytes of the write-ahead logs.
fn logs(folder: &Setup) -> u64 {
    ["journal", "pool", "catalog"]
        .iter()
        .filter_map(|name| {
            let log = folder.data_dir().join(format!("{name}.db-wal"));
            Some(log.metadata().ok()?.len())
        })
        .sum()
}

#[test]
fn a_small_disk_is_not_refused_for_the_daemons_own_logs() {
    if crate::setup::file_only("requests are on the disk of the server") {
        return;
    }
    const FREE_MIN: u64 = 8_000_000;
    let folder = folder()
        .set("storage.min_free_bytes", FREE_MIN)
        .set("storage.payload_retention_minutes", 60);
    let Some(disk) = Disk::mount("a small disk", &folder, "size=110m") else {
        return;
    };
    let folder = folder.data_in(disk.0.join("data"));
    let process = folder.spawn();
    let filling = "x".repeat(60_000);
    let mut client = process.client();
    // About 20 MB of data, and as much again through the logs.
    for number in 0..700 {
        let body = format!(
            "{{\"id\": \"{}\", \"filling\": \"{filling}\"}}",
            number % 350
        );
        let answer = client.post(STREAM, BY_ID, &body).expect("an answer");
        assert_eq!(answer.status, 202, "{}", answer.body);
    }
    process.drained();
    // One log and what a checkpoint waits for; each keeps a thirty-second of the disk.
    let kept = logs(&folder);
    assert!(kept <= 3 * 2 * (110 * MIB / 32), "{kept}");
    assert!(kept > MIB, "nothing to give back: {kept}");
    disk.leave(FREE_MIN - kept / 2);
    eventually("the logs are given back", || {
        (logs(&folder) < kept / 4 && disk.free() > FREE_MIN).then_some(())
    });
    eventually("requests are taken", || {
        (ready(&process) == 200).then_some(())
    });
    submit(&process, "after");
    process.drained();
    process.stop();
}

#[test]
fn a_backup_that_finds_no_room_says_so_and_leaves_nothing() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let folder = folder();
    let Some(disk) = Disk::mount("a full disk under a backup", &folder, "size=64m") else {
        return;
    };
    let process = folder.spawn();
    let filling = "x".repeat(60_000);
    for number in 0..400 {
        let body = format!("{{\"id\": \"{number}\", \"filling\": \"{filling}\"}}");
        process.accepted(STREAM, BY_ID, &body);
    }
    process.drained();
    let found = (0..20).find_map(|attempt| {
        disk.leave(8 * MIB);
        let told = no_room(&process, &disk.0.join("backup"));
        let needed = told.split(" bytes are needed").next();
        let needed = needed.and_then(|told| told.rsplit(' ').next());
        let needed: u64 = needed.expect("a word").parse().expect("a number");
        disk.make_room();
        // There is just enough at first, and somebody else takes it.
        disk.leave(needed + MIB / 2);
        let dir = disk.0.join(format!("backup-{attempt}"));
        let asked = std::thread::scope(|scope| {
            let asked = scope.spawn(|| backup(process.admin, &dir));
            eventually("it begins", || dir.join("pool.db").exists().then_some(()));
            disk.fill();
            asked.join().expect("an answer")
        });
        disk.make_room();
        // It may have been done before.
        if asked.status == 201 {
            std::fs::remove_dir_all(&dir).expect("a backup");
            return None;
        }
        let left = std::fs::read_dir(&dir).map(|entries| entries.flatten().collect::<Vec<_>>());
        assert!(!dir.exists(), "{left:?} {}", asked.body);
        Some(asked)
    });
    let refused = found.expect("one met a full disk");
    assert_eq!(refused.status, 507, "{}", refused.body);
    assert!(
        refused.body.contains("the disk is full"),
        "{}",
        refused.body
    );
    // Intake does not notice.
    assert_eq!(ready(&process), 200);
    process.stop();
}

#[test]
fn a_backup_does_not_take_the_room_that_requests_need() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let folder = folder()
        .set("storage.min_free_bytes", 8_000_000)
        .set("storage.payload_retention_minutes", 60);
    let Some(disk) = Disk::mount("a backup beside the data", &folder, "size=32m") else {
        return;
    };
    let folder = folder.data_in(disk.0.join("data"));
    let process = folder.spawn();
    submit(&process, "before");
    process.drained();
    disk.leave(8_080_000);
    let told = no_room(&process, &disk.0.join("backup"));
    assert!(told.contains("storage.min_free_bytes"), "{told}");
    assert_eq!(ready(&process), 200);
    disk.make_room();
    let made = backup(process.admin, &disk.0.join("backup"));
    assert_eq!(made.status, 201, "{}", made.body);
    process.stop();
}

/// What a backup into `dir` says that is refused for want of room and leaves nothing.
fn no_room(process: &Process, dir: &Path) -> String {
    let refused = backup(process.admin, dir);
    assert_eq!(refused.status, 507, "{}", refused.body);
    assert_eq!(refused.json()["error"]["code"], "DISK_FULL");
    assert!(!dir.exists(), "{}", refused.body);
    refused.body
}

fn backup(admin: SocketAddr, dir: &Path) -> Answer {
    let mut client = Client::connect(admin).expect("the daemon listens");
    let body = serde_json::json!({"dir": dir}).to_string();
    let answer = client.call("POST", "/api/admin/backups", ADMIN_TOKEN, &body);
    answer.expect("an answer")
}

#[test]
fn a_journal_that_cannot_be_written_ends_the_process_with_70_and_loses_nothing() {
    if crate::setup::file_only("requests are on the disk of the server") {
        return;
    }
    let folder = folder();
    if Command::new("bash").arg("-c").arg(":").status().is_err() {
        return skipped("a journal that cannot be written", "there is no bash");
    }
    // Beyond 3 MiB a file cannot grow: writes fail with EFBIG, which is no full disk.
    let mut limited = Command::new("bash");
    limited.args(["-c", r#"ulimit -f 3072 && trap "" XFSZ && exec "$0" "$@""#]);
    limited.arg(env!("CARGO_BIN_EXE_headgate"));
    limited.args(["serve", "--config", "headgate.toml"]);
    let process = folder.spawn_as(limited).expect("the limit is high enough");
    let service = process.service;

    let answers = std::thread::scope(|scope| {
        let sending: Vec<_> = (0..4)
            .map(|sender| scope.spawn(move || send_until_refused(service, sender)))
            .collect();
        let sent = sending.into_iter().map(|thread| thread.join());
        sent.map(|sent| sent.expect("no panic")).collect::<Vec<_>>()
    });
    let ended = process.ended();
    assert_eq!(ended.status.code(), Some(70), "{}", ended.log);
    assert!(
        ended
            .log
            .contains("a file of the data directory cannot be written"),
        "{}",
        ended.log
    );
    let refused = answers.iter().any(|(_, refused)| *refused);
    assert!(refused, "nobody was told 503");
    let wanted: BTreeSet<String> = answers.into_iter().flat_map(|(keys, _)| keys).collect();
    assert!(wanted.len() > 20, "only {}", wanted.len());

    let process = folder.spawn();
    all_there(&process, &wanted);
    submit(&process, "after");
    process.stop();
}

/// What was acknowledged, and whether the end was a 503 and not a broken connection.
fn send_until_refused(service: std::net::SocketAddr, sender: u32) -> (BTreeSet<String>, bool) {
    let mut acknowledged = BTreeSet::new();
    let mut client = Client::connect(service).expect("the daemon listens");
    for number in 0..100_000 {
        let key = format!("{sender}-{number}");
        let filling = "x".repeat(2_000);
        let body = format!("{{\"id\": \"{key}\", \"filling\": \"{filling}\"}}");
        match client.post(STREAM, BY_ID, &body) {
            Ok(answer) if answer.status == 202 => acknowledged.insert(key),
            Ok(answer) => {
                assert_eq!(answer.status, 503, "{}", answer.body);
                assert!(answer.header("retry-after").is_some());
                return (acknowledged, true);
            }
            Err(_) => return (acknowledged, false),
        };
    }
    panic!("the limit was never reached");
}

#[test]
fn a_data_folder_that_cannot_be_written_is_named() {
    let plain = folder();
    std::fs::write(plain.path("occupied"), "a file").expect("a file");
    let occupied = plain.path("occupied").join("data");
    let plain = plain.data_in(&occupied);
    let ended = plain.try_spawn().expect_err("it must not start");
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    assert!(ended.log.contains("occupied/data"), "{}", ended.log);
    assert!(ended.log.contains("storage.data_dir"), "{}", ended.log);

    let folder = folder();
    let Some(disk) = Disk::mount("a read-only disk", &folder, "size=1m,ro") else {
        return;
    };
    let folder = folder.data_in(&disk.0);
    let ended = folder.try_spawn().expect_err("it must not start");
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    assert!(ended.log.contains("Read-only file system"), "{}", ended.log);
    let path = disk.0.display().to_string();
    assert!(ended.log.contains(&path), "{}", ended.log);
}
