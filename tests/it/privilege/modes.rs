//! The modes of the data folder and of the files in it.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::command_line::{Done, finish, headgate};
use crate::process::{BY_ID, Process, skipped};
use crate::setup::Setup;

/// `nobody`, and its group.
const NOBODY: u32 = 65_534;

fn mode(path: &Path) -> u32 {
    let metadata = path.symlink_metadata();
    metadata
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .mode()
        & 0o7777
}

fn give(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).expect("it is this user's");
}

/// Path and mode of everything in a folder, at any depth, that others than its owner may do something with.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            if mode(&path) & 0o077 != 0 {
                found.push(format!("{} {:o}", path.display(), mode(&path)));
            }
        }
    }
    found
}

/// A daemon whose umask takes nothing away.
fn spawn_without_a_umask(setup: &Setup) -> Process {
    let mut shell = Command::new("sh");
    let script = r#"umask 0; exec "$0" serve --config headgate.toml"#;
    shell.args(["-c", script, env!("CARGO_BIN_EXE_headgate")]);
    setup.spawn_as(shell).expect("it starts")
}

/// What a user who is not the daemon's reads of a database.
fn read_as_nobody(path: &Path, sql: &str) -> Done {
    let mut client = Command::new("sqlite3");
    client.arg(path).arg(sql).uid(NOBODY).gid(NOBODY);
    finish(&mut client, "")
}

#[test]
fn what_the_daemon_makes_is_for_its_user_only_whatever_the_umask_is() {
    if crate::setup::file_only("a node makes no backups") {
        return;
    }
    let setup = Setup::with_streams(&["orders"]);
    let folder = setup.data_dir().to_owned();
    std::fs::create_dir(&folder).expect("a folder");
    give(&folder, 0o755);
    let process = spawn_without_a_umask(&setup);
    process.processed("orders", BY_ID, r#"{"id": 1}"#);
    let backup = setup.path("backup");
    let body = serde_json::json!({ "dir": folder.join("backups/first") }).to_string();
    let made = process.call("POST", "/api/admin/backups", &body);
    assert_eq!(made.status, 201, "{}", made.body);
    std::fs::rename(folder.join("backups/first"), &backup).expect("a backup");
    assert_eq!(open_to_others(&folder), [""; 0]);
    assert_eq!(mode(&folder), 0o700);
    process.stop();

    let restored = setup.path("restored");
    let mut shell = Command::new("sh");
    let script = r#"umask 0; exec "$0" restore backup --data-dir restored"#;
    shell.args(["-c", script, env!("CARGO_BIN_EXE_headgate")]);
    finish(shell.current_dir(setup.path("")), "").ok();
    assert_eq!(open_to_others(&restored), [""; 0]);
    assert_eq!(mode(&restored), 0o700);
}

#[test]
fn what_others_could_read_of_a_data_folder_they_cannot_after_a_start_and_the_log_says_so_once() {
    if crate::setup::file_only("it changes or watches the file of the journal") {
        return;
    }
    let setup = Setup::with_streams(&["orders"]);
    let folder = setup.data_dir().to_owned();
    setup.spawn().stop();
    let left = folder.join("plugins/mine.wasm.old");
    std::fs::write(&left, "").expect("a file");
    let told = folder.join("journal.db.suspect.old");
    std::fs::write(&told, "").expect("a file");
    for (file, mode) in [
        ("catalog.db", 0o644),
        ("journal.db", 0o664),
        ("journal.db.suspect.old", 0o644),
        ("pool.db", 0o604),
        ("lock", 0o644),
        ("plugin-cache", 0o755),
        ("plugins", 0o755),
        ("plugins/mine.wasm.old", 0o644),
        ("", 0o755),
    ] {
        give(&folder.join(file), mode);
    }
    std::os::unix::fs::symlink("../elsewhere", folder.join("admin.token")).expect("a link");
    std::fs::write(setup.path("elsewhere"), "").expect("a file");
    give(&setup.path("elsewhere"), 0o644);

    let process = setup.spawn();
    let log = process.log();
    for file in [
        "catalog.db",
        "journal.db",
        "pool.db",
        "lock",
        "the directory itself",
    ] {
        assert!(log.contains(file), "{file}: {log}");
        assert_eq!(log.matches("their access was removed").count(), 1, "{log}");
    }
    let open: Vec<String> = open_to_others(&folder);
    let left: Vec<String> = [
        "admin.token 777",
        "plugins 755",
        "plugins/mine.wasm.old 644",
    ]
    .map(|file| format!("{}/{file}", folder.display()))
    .into();
    let mut sorted = open.clone();
    sorted.sort();
    assert_eq!(sorted, left, "what people put there is theirs");
    assert_eq!(mode(&folder), 0o700);
    let linked = mode(&setup.path("elsewhere"));
    assert_eq!(linked, 0o644, "a link is not followed");
    process.stop();

    let process = setup.spawn();
    assert!(!process.log().contains("other users"), "{}", process.log());
    process.stop();
}

#[test]
fn a_folder_that_is_not_the_daemons_alone_keeps_its_mode() {
    let setup = Setup::with_streams(&["orders"]);
    let folder = setup.data_dir().to_owned();
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("holiday.jpg"), "").expect("a file");
    give(&folder.join("holiday.jpg"), 0o644);
    give(&folder, 0o755);
    let process = setup.spawn();
    process.says("contains other files too");
    assert_eq!(mode(&folder), 0o755);
    assert_eq!(mode(&folder.join("holiday.jpg")), 0o644);
    assert_eq!(mode(&folder.join("catalog.db")), 0o600);
    process.stop();
}

#[test]
fn others_may_query_the_pool_if_the_configuration_says_so_and_nothing_else() {
    let setup = Setup::with_streams(&["orders"]).set("storage.pool_mode", "0640");
    let folder = setup.data_dir().to_owned();
    let process = setup.spawn();
    assert_eq!(mode(&folder), 0o710);
    for file in ["pool.db", "pool.db-wal", "pool.db-shm"] {
        assert_eq!(mode(&folder.join(file)), 0o640, "{file}");
    }
    for file in [
        "journal.db",
        "journal.db-wal",
        "catalog.db",
        "admin.token",
        "lock",
    ] {
        let path = folder.join(file);
        assert!(!path.exists() || mode(&path) == 0o600, "{file}");
    }
    process.stop();

    if !rustix::process::geteuid().is_root()
        || Command::new("sqlite3").arg("-version").output().is_err()
    {
        return skipped(
            "others_may_query_the_pool",
            "needs root, to be another user, and sqlite3",
        );
    }
    // As the guide says: a group, and what is made in the folder is of that group.
    give(&setup.path(""), 0o711);
    chown(&folder, None, Some(NOBODY)).expect("root may");
    give(&folder, 0o2700);
    chown(folder.join("pool.db"), None, Some(NOBODY)).expect("root may");
    let process = setup.spawn();
    assert_eq!(mode(&folder), 0o2710);
    let count = "SELECT count(*) FROM items";
    for items in 1..=3 {
        process.processed("orders", BY_ID, &format!("{{\"id\": {items}}}"));
        let read = read_as_nobody(&folder.join("pool.db"), count).ok();
        assert_eq!(read.trim(), items.to_string());
    }
    let written = read_as_nobody(&folder.join("pool.db"), "DELETE FROM items");
    assert!(written.err.contains("readonly"), "{}", written.err);
    let other = read_as_nobody(&folder.join("journal.db"), "SELECT count(*) FROM log");
    assert!(other.err.contains("unable to open"), "{}", other.err);
    process.stop();

    // And back: the log says so, as it was not meant for others.
    let process = setup.set("storage.pool_mode", "0600").spawn();
    let read = read_as_nobody(&folder.join("pool.db"), count);
    assert!(read.err.contains("unable to open"), "{}", read.err);
    process.stop();
}

#[test]
fn a_mode_that_lets_others_write_the_pool_is_refused() {
    let setup = Setup::with_streams(&[]).set("storage.pool_mode", "0660");
    let ended = setup.try_spawn().expect_err("it does not start");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.log);
    let wants = r#"storage.pool_mode: expected "0600", "0640""#;
    assert!(ended.log.contains(wants), "{}", ended.log);
}

#[test]
fn the_folder_of_a_demo_is_for_its_user_only() {
    let _alone = crate::command_line::demo::ONE_AT_A_TIME.lock();
    let folder = tempfile::tempdir().expect("a folder");
    let mut shell = Command::new("sh");
    let script = r#"umask 0; exec "$0" demo --once --data-dir demo"#;
    shell.args(["-c", script, env!("CARGO_BIN_EXE_headgate")]);
    for (name, _) in headgate(folder.path()).get_envs() {
        shell.env_remove(name);
    }
    finish(shell.current_dir(folder.path()), "").ok();
    assert_eq!(open_to_others(&folder.path().join("demo")), [""; 0]);
    assert_eq!(mode(&folder.path().join("demo")), 0o700);
}

#[test]
fn who_may_not_write_the_data_folder_is_told_whose_it_must_be() {
    if !rustix::process::geteuid().is_root() {
        return skipped(
            "the error of a data folder of another user",
            "only root starts a daemon as somebody else",
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    give(folder.path(), 0o755);
    let data_dir = folder.path().join("data");
    std::fs::create_dir(&data_dir).expect("a folder");
    let mut daemon = headgate(folder.path());
    daemon.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    let told = finish(daemon.uid(NOBODY).gid(NOBODY), "").failed(1);
    let data_dir = data_dir.display();
    for part in [
        format!("cannot open {data_dir}/lock: Permission denied"),
        format!(
            "{data_dir} must belong to the user {NOBODY} of this process, or to its group {NOBODY} with mode 0770"
        ),
    ] {
        assert!(told.contains(&part), "{told}");
    }
}
