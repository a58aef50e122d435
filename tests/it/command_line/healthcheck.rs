//! `healthcheck` against a daemon that takes requests, refuses them, or is not there.

use std::net::TcpListener;

use super::run;
use crate::process::skipped;
use crate::setup::Setup;
use crate::wait::eventually;

#[test]
fn the_exit_code_tells_whether_requests_are_taken() {
    let folder = Setup::with_streams(&["orders"]);
    let process = folder.spawn();
    let url = format!("http://{}", process.service);
    let check = |args: &[&str]| run(&folder.path(""), [&["healthcheck"], args].concat());
    assert_eq!(check(&["--url", &url]).ok(), "ready\n");
    // The port that the configuration names is the system's choice.
    let told = check(&["--config", "headgate.toml"]).failed(1);
    assert!(told.contains("--url"), "{told}");
    process.stop();
    let told = check(&["--url", &url]).failed(1);
    assert!(told.contains("cannot connect"), "{told}");
    let told = check(&["--config", "missing.toml"]).failed(1);
    assert!(told.contains("missing.toml"), "{told}");

    let full = Setup::with_streams(&["orders"]).set("storage.min_free_bytes", 1_u64 << 40);
    let disk = rustix::fs::statvfs(full.path("")).expect("a file system");
    if disk.f_bavail * disk.f_frsize >= 1 << 40 {
        return skipped(
            "healthcheck on a full disk",
            "this one is larger than a setting can ask for",
        );
    }
    let process = full.spawn();
    let url = format!("http://{}", process.service);
    let told = eventually("the daemon has looked at the disk", || {
        let done = check(&["--url", &url]);
        (done.code == Some(1)).then(|| done.failed(1))
    });
    assert!(
        told.contains("503") && told.contains("nearly full"),
        "{told}"
    );
    process.stop();
}

#[test]
fn the_configuration_says_where_the_service_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("service.sock");
    let settings = format!("[server]\nlisten = \"unix:{}\"\n", socket.display());
    std::fs::write(folder.path().join("headgate.toml"), settings).expect("a file");
    let told = run(folder.path(), ["healthcheck", "--config", "headgate.toml"]).failed(1);
    assert!(told.contains("service.sock"), "{told}");
}

#[test]
fn one_that_does_not_answer_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let told = run(folder.path(), ["healthcheck", "--url", &url]).failed(1);
    assert!(told.contains("within 3 seconds"), "{told}");
}
