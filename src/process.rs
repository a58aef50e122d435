//! What this process takes away from itself before it begins.
//!
//! The verbs that make files of a data folder call it first.
//!
//! **Invariant**: it concerns the whole process, and so is called by the command line only, never by what the daemon is
//! made of.

use rustix::fs::Mode;
use rustix::process::umask;

/// What is made from now on is for this user only, however it is made.
pub fn keep_files_private() {
    umask(Mode::RWXG | Mode::RWXO);
}
