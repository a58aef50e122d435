//! Rights that a process gives up for good, for itself and for what it starts: files out of reach, core dumps,
//! debuggers, new privileges.
//!
//! `serve` and `demo` call it before the first thread begins: what a thread gives up, others that run already keep.
//!
//! **Invariant**: best effort: what the kernel does not know is left out, and said.

use std::fmt;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, setrlimit};

#[cfg(target_os = "linux")]
use super::linux::files;

/// Files and folders, with everything below them, that stay within reach. Those that are missing are left out.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    pub read: Vec<PathBuf>,
    /// To be read and written.
    pub write: Vec<PathBuf>,
    /// Where files that are there may be written, and none made.
    pub change: Vec<PathBuf>,
    /// Folders where sockets are made.
    pub sockets: Vec<PathBuf>,
    /// Programs and libraries.
    pub run: Vec<PathBuf>,
}

impl Reach {
    /// Whether a file may be read, as far as it is there.
    pub fn may_read(&self, file: &Path) -> bool {
        let Ok(file) = file.canonicalize() else {
            return true;
        };
        let mut all = self.read.iter().chain(&self.write).chain(&self.run);
        all.any(|path| path.canonicalize().is_ok_and(|path| file.starts_with(path)))
    }
}

/// How much of what is out of reach the kernel keeps from this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    Whole,
    /// What this kernel knows.
    Part,
    /// Nothing, and why.
    Nothing(String),
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("whole"),
            Self::Part => f.write_str("in part, the kernel is older"),
            Self::Nothing(why) => write!(f, "no: {why}"),
        }
    }
}

/// How much this kernel would keep from a process, which is left as it is.
pub fn kernel_holds() -> Held {
    // What a thread gives up ends with it.
    let tried = std::thread::spawn(|| files(&Reach::default())).join();
    tried.unwrap_or_else(|_| Held::Nothing("it cannot be tried out".to_owned()))
}

/// Gives everything up but `reach`.
pub fn confine(reach: &Reach) -> Held {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "core dumps cannot be disabled");
    }
    #[cfg(target_os = "linux")]
    super::linux::give_up_privileges();
    files(reach)
}

#[cfg(not(target_os = "linux"))]
fn files(_: &Reach) -> Held {
    Held::Nothing("this system does not have it".to_owned())
}
