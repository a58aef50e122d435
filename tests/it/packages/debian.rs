//! The Debian package: installed, used, upgraded, removed and purged by dpkg.
//!
//! All of it happens on a machine that has the files of this one and changes them in memory only (`machine.sh`).

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{deploy, is_root, there_are};
use crate::command_line::finish_within;
use crate::program::BUILD_MAX;
use crate::setup::key_of;

const MACHINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/packages/machine.sh");
/// What is done with the packages; it stops at the first thing that is not as it should be.
const STEPS: &str = include_str!("debian.sh");

/// Makes a package; quickly rather than small.
fn package(folder: &Path, revision: &str) {
    let mut package = Command::new(deploy("debian/package"));
    package
        .arg(env!("CARGO_BIN_EXE_headgate"))
        .arg(folder)
        .arg(revision)
        .env("SOURCE_DATE_EPOCH", "1000000000")
        .env("DPKG_DEB_COMPRESSOR_TYPE", "gzip")
        .env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    finish_within(BUILD_MAX, &mut package, "").ok();
}

#[test]
fn the_package_is_installed_upgraded_removed_and_purged() {
    let test = "the_package_is_installed_upgraded_removed_and_purged";
    let programs = [
        "dpkg",
        "dpkg-shlibdeps",
        "unshare",
        "ip",
        "curl",
        "setpriv",
        "systemd-analyze",
    ];
    if !there_are(&programs, test) || !is_root(test) {
        return;
    }
    let before = is_here();
    let folder = tempfile::tempdir().expect("a folder");
    for revision in ["1", "2"] {
        package(folder.path(), revision);
    }
    fs::write(folder.path().join("key"), key_of("orders")).expect("a file");
    let mut machine = Command::new("bash");
    machine.arg(MACHINE).arg(folder.path()).arg(STEPS);
    let done = finish_within(BUILD_MAX, machine.arg(folder.path()), "");
    assert_eq!(done.code, Some(0), "{}\n{}", done.out, done.err);
    assert!(done.out.ends_with("every step is done\n"), "{}", done.out);
    assert_eq!(is_here(), before, "nothing was done to this machine");
}

/// Whether the package, or something like it, is on the machine of the tests.
fn is_here() -> bool {
    let marks = ["/usr/bin/headgate", "/etc/headgate", "/var/lib/headgate"];
    marks.into_iter().any(|mark| Path::new(mark).exists())
}
