//! What this process gives away, takes and asks of the system before it begins.
//!
//! The verbs that run a daemon, or make files of a data folder, call it first.
//!
//! **Invariant**: what changes the process is called by the command line only, never by what the daemon is made of; the
//! compiler of components is a process of its own.

#[cfg(target_os = "linux")]
mod compiler;
mod confine;
#[cfg(target_os = "linux")]
mod linux;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, umask};

#[cfg(target_os = "linux")]
pub use compiler::{HeldCompiler, confine_compiler};
pub use confine::{Held, Reach, confine, kernel_holds};

/// Where the system names no number.
const MANY: u64 = 1 << 20;

/// What is made from now on is for this user only, however it is made.
pub fn keep_files_private() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// Whether this is root, from whom few other protections keep anything.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Takes as many open files as the system allows this process at most. Shells and service managers start programs with
/// fewer, for those that cannot count further than 1,024.
pub fn take_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: Some(limit.maximum.unwrap_or(MANY)),
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, all) {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
}

/// How many files this process may have open.
pub fn open_files_max() -> usize {
    files(getrlimit(Resource::Nofile).current)
}

/// How many it may have open after [`take_open_files`].
pub fn open_files_to_take() -> usize {
    files(getrlimit(Resource::Nofile).maximum)
}

/// A process as people find it: `sqlite3 (process 1234)`.
pub fn named(process: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    match name.trim() {
        "" => format!("process {process}"),
        name => format!("{name} (process {process})"),
    }
}

fn files(limit: Option<u64>) -> usize {
    usize::try_from(limit.unwrap_or(MANY)).unwrap_or(usize::MAX)
}
