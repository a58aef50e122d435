//! What a process writes to its standard error.
//!
//! **Invariant**: what stands in the pipe when somebody asks is in the answer: only what is written later is missing.

use std::io::pipe;
use std::os::fd::OwnedFd;
use std::process::ChildStderr;
use std::sync::{Mutex, MutexGuard};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read};

/// How much of its log a process is remembered by.
const BYTES_MAX: usize = 1 << 20;

/// The log of a process, as far as it was read.
#[derive(Debug)]
pub(super) struct Log {
    pipe: OwnedFd,
    kept: Mutex<Vec<u8>>,
}

impl Log {
    /// Of a child's standard error; none: it goes elsewhere, and nothing is read.
    pub(super) fn of(stderr: Option<ChildStderr>) -> Self {
        let pipe = stderr.map_or_else(|| pipe().expect("a pipe").0.into(), OwnedFd::from);
        // Whoever finds it empty does not wait. The other end, which the child has, is as it was.
        let flags = fcntl_getfl(&pipe).expect("a pipe");
        fcntl_setfl(&pipe, flags | OFlags::NONBLOCK).expect("a pipe");
        Self {
            pipe,
            kept: Mutex::default(),
        }
    }

    /// Reads as it comes, so that the pipe is never full, until nobody can write any more.
    pub(super) fn to_its_end(&self) {
        loop {
            let mut waited = [PollFd::new(&self.pipe, PollFlags::IN)];
            match poll(&mut waited, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("a pipe can be waited for: {error}"),
            }
            if self.read().1 {
                return;
            }
        }
    }

    /// What was written so far.
    pub(super) fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.read().0).into_owned()
    }

    /// Reads what is there: everything so far, and whether that is all there will be.
    fn read(&self) -> (MutexGuard<'_, Vec<u8>>, bool) {
        let mut kept = self.kept.lock().expect("no panic while held");
        let mut chunk = [0; 16 << 10];
        loop {
            match read(&self.pipe, &mut chunk) {
                Ok(0) => return (kept, true),
                Ok(count) if kept.len() < BYTES_MAX => kept.extend_from_slice(&chunk[..count]),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return (kept, false),
                Err(error) => panic!("a pipe can be read: {error}"),
            }
        }
    }
}
