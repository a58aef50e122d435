//! A disk of a test's server that is soon full.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Postgres, USER, give_to_server};

/// A small file system in memory, on which the server has its tables.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl Postgres {
    /// Has the tables that are made from now on on a disk of so many MiB. `None`: this user may not mount one.
    pub fn small_disk(&self, test: &str, mebibytes: u32) -> Option<SmallDisk> {
        let path = self.folder.path().join("small");
        std::fs::create_dir(&path).expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"]);
        let mounted = mount.arg(&path).stdin(Stdio::null()).output();
        let mounted = mounted.expect("mount starts");
        if !mounted.status.success() {
            let why = String::from_utf8_lossy(&mounted.stderr);
            // Not eprintln!, which the test harness keeps to itself while tests pass.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
            return None;
        }
        let disk = SmallDisk(path);
        give_to_server(&[&disk.0]);
        let location = disk.0.display();
        self.query(&format!("CREATE TABLESPACE small LOCATION '{location}'"));
        self.query(&format!("ALTER ROLE {USER} SET default_tablespace = small"));
        Some(disk)
    }
}

impl SmallDisk {
    /// Leaves no space on it.
    pub fn fill(&self) {
        let mut filler = fs::File::create(self.filler()).expect("a file");
        let block = [0; 4_096];
        while filler.write_all(&block).is_ok() {}
    }

    /// Has the space again that [`fill`](Self::fill) took.
    pub fn free(&self) {
        fs::remove_file(self.filler()).expect("it was filled");
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// It has so many MiB from now on.
    pub fn resize(&self, mebibytes: u32) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={mebibytes}m")]);
        let done = mount.arg(&self.0).stdin(Stdio::null()).status();
        assert!(done.expect("mount starts").success(), "it is mounted");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
