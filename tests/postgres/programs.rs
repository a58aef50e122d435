//! Where the programs of a server are on this machine.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The folder with the newest version's programs; `None` where they are missing and not required.
pub fn programs_for(test: &str) -> Option<PathBuf> {
    let programs = programs();
    if programs.is_none() {
        let required = std::env::var_os("CI").is_some();
        assert!(!required, "{test}: PostgreSQL is missing");
        // Not eprintln!, which the test harness keeps to itself while tests pass.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: there is no PostgreSQL (initdb, postgres, psql)"
        );
    }
    programs
}

/// The same, required or not.
pub(super) fn programs() -> Option<PathBuf> {
    let all = |folder: &Path| {
        let is_program = |name| {
            let file = folder.join(name).metadata();
            file.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        ["initdb", "postgres", "psql"].into_iter().all(is_program)
    };
    let debian = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let mut folders: Vec<PathBuf> = debian
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.splice(0..0, std::env::split_paths(&path));
    folders.into_iter().rev().find(|folder| all(folder))
}
