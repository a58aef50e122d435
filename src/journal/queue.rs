//! The queue between request handlers and the writer thread, bounded by bytes.
//!
//! Handlers push from async code; the writer takes everything at once, which is what makes a group.
//!
//! **Invariant**: what was pushed successfully is taken exactly once, in order, also after
//! [`Queue::close`].

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Claim, Condition, JournalError, LogEntry, Receipt, RejectedBody, Submission};
use base::clock;
use base::order::Seq;

/// How long the writer waits after it was woken, so that requests which arrive together become one
/// group. A timer of the runtime is twenty times as coarse.
const WINDOW: Duration = Duration::from_micros(50);
/// While more keep coming the writer waits again, at most so often: a commit costs as much as a few
/// windows, whatever is in it.
const WINDOWS_MAX: u32 = 4;
/// Fewer jobs than these are committed after one window.
const GROWING_JOBS_MIN: usize = 4;
/// Work for the writer thread.
#[derive(Debug)]
pub(super) enum Job {
    /// Make a request durable.
    Submit(
        Box<Submission>,
        oneshot::Sender<Result<Receipt, JournalError>>,
    ),
    /// The same, if the condition holds.
    SubmitIf(
        Box<Submission>,
        Condition,
        oneshot::Sender<Result<Receipt, JournalError>>,
    ),
    /// Say whether one of these claims is held, which makes a request with them a repeat.
    Ask([Option<Claim>; 2], oneshot::Sender<bool>),
    /// Write a log entry, and keep the body of a refused request; nobody waits.
    Log(Box<LogEntry>, Option<Box<RejectedBody>>),
    /// Put a payload aside.
    Quarantine {
        /// Which one.
        seq: Seq,
        /// Why.
        reason: String,
    },
    /// Say when everything before is committed.
    Flush(oneshot::Sender<()>),
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct State {
    jobs: Vec<Job>,
    /// Sum of the waiting jobs' bytes, overhead included.
    bytes: usize,
    /// The writer sleeps: the next push must wake it. A push wakes nobody while the writer works, because a wake-up
    /// costs a system call.
    asleep: bool,
    /// The writer slept before it had work: nobody waited.
    slept: bool,
    /// Number of jobs that it took last.
    taken: usize,
    closed: bool,
}

/// What a job costs beside its payload. Without it, small jobs would fill the memory and count as nothing.
const JOB_OVERHEAD_BYTES: usize = 512;

impl Queue {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            wake: Condvar::new(),
            bytes_max,
        }
    }

    /// A job that is alone always fits, otherwise a large request could never be stored.
    pub(super) fn push(&self, job: Job, bytes: usize) -> Result<(), JournalError> {
        let bytes = bytes + JOB_OVERHEAD_BYTES;
        let mut state = self.lock();
        if state.closed {
            return Err(JournalError::Closed);
        }
        // A lone job always fits, however large.
        if !state.jobs.is_empty() && state.bytes + bytes > self.bytes_max {
            return Err(JournalError::Overloaded);
        }
        state.bytes += bytes;
        state.jobs.push(job);
        let wake = std::mem::take(&mut state.asleep);
        drop(state);
        if wake {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Waits for work, at most `idle`. `None`: closed and empty.
    pub(super) fn wait(&self, idle: Duration) -> Option<bool> {
        let mut state = self.lock();
        state.slept = state.jobs.is_empty();
        if state.slept && !state.closed {
            state.asleep = true;
            state = self
                .wake
                .wait_timeout_while(state, idle, |state| state.jobs.is_empty() && !state.closed)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            state.asleep = false;
        }
        if state.jobs.is_empty() && state.closed {
            return None;
        }
        Some(!state.jobs.is_empty())
    }

    /// Number of jobs that wait.
    pub(super) fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Takes everything that waits, exchanging buffers. Exchanging keeps the memory of both, so that no group allocates
    /// a list.
    pub(super) fn take(&self, into: &mut Vec<Job>) {
        let mut state = self.lock();
        std::mem::swap(&mut state.jobs, into);
        state.taken = into.len();
        state.bytes = 0;
    }

    /// Whether a job came while the writer slept, and the one before it was alone too: a sender that waits for each answer.
    fn comes_alone(&self) -> bool {
        let state = self.lock();
        state.slept && state.taken == 1
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for what arrives together with the first job. One that comes alone does not wait, because the window and its timer
/// take as long as the commit; whoever arrives meanwhile becomes the next group.
pub(super) fn gather(queue: &Queue) {
    if queue.comes_alone() {
        return;
    }
    let mut waiting = 0;
    for _ in 0..WINDOWS_MAX {
        clock::sleep_on_own_thread(WINDOW);
        let before = std::mem::replace(&mut waiting, queue.len());
        if waiting < GROWING_JOBS_MIN || waiting == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has a job pushed: while the writer sleeps, or before it waits.
    fn push(queue: &Queue, asleep: bool) {
        let job = || Job::Flush(oneshot::channel().0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while asleep && !queue.lock().asleep {
                    std::thread::yield_now();
                }
                queue.push(job(), 0).expect("there is room");
            });
            while !asleep && queue.len() == 0 {
                std::thread::yield_now();
            }
            assert_eq!(queue.wait(Duration::from_mins(1)), Some(true));
        });
    }

    /// Takes what waits, as the writer does; how many.
    fn take(queue: &Queue) -> usize {
        let mut jobs = Vec::new();
        queue.take(&mut jobs);
        jobs.len()
    }

    #[test]
    fn a_job_that_comes_alone_is_told_from_those_of_a_crowd() {
        let queue = Queue::new(1 << 20);
        push(&queue, true);
        assert!(!queue.comes_alone(), "nothing is known of the one before");
        assert_eq!(take(&queue), 1);
        push(&queue, true);
        assert!(queue.comes_alone());
        assert_eq!(take(&queue), 1);
        // Somebody came while the writer worked.
        push(&queue, false);
        assert!(!queue.comes_alone());
        push(&queue, false);
        assert_eq!(take(&queue), 2);
        push(&queue, true);
        assert!(!queue.comes_alone(), "the group before had two");
        assert_eq!(take(&queue), 1);
        // The end of a quiet time is no job.
        assert_eq!(queue.wait(Duration::ZERO), Some(false));
        push(&queue, true);
        assert!(queue.comes_alone());
    }
}
