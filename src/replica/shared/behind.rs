//! Work that lacks entries: it waits until they are followed, and is done again.
//!
//! **Invariant**: what a piece of work has reserved is released when it ends.

use std::sync::PoisonError;
use std::time::Duration;

use super::error::LogError;
use super::{Call, SharedLog};
use postgres::DatabaseError;

/// A writer waits so long for entries that it lacks.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10);

/// Work that is behind runs so often. A writer holds up its callers meanwhile, so it does not try for ever.
const TIMES_MAX: u32 = 50;

/// Entries are missing: [`follow`](Behind::follow), and do the work again.
#[derive(Debug)]
pub struct Behind {
    pub(super) log: SharedLog,
    /// The file had come here.
    pub(super) n: u64,
}

/// How often a piece of work ran that was behind. Lets others append again when it ends. The lock is released when it
/// is dropped, so that no error leaves the log reserved.
#[derive(Debug, Default)]
pub struct Again {
    times: u32,
    reserved: Option<SharedLog>,
}

impl Drop for Again {
    fn drop(&mut self) {
        if let Some(log) = &self.reserved {
            let _ = log.0.calls.send(Call::Release);
        }
    }
}

impl Behind {
    /// Waits until both files have what was missing. Blocks; the file must not be locked. From the second time on nobody
    /// else appends meanwhile: a node that appends all the time would win for ever.
    ///
    /// # Errors
    /// It cannot be read or applied, or not soon. See [`LogError`].
    pub fn follow(self, again: &mut Again) -> Result<(), LogError> {
        let Self { log, n } = self;
        let mut until = n + 1;
        again.times += 1;
        if again.times > TIMES_MAX {
            return Err(LogError::NotFollowed("other nodes were faster".to_owned()));
        }
        if again.times > 1 {
            match log.reserve() {
                Ok(head) => until = head,
                // Another node has done so: it is its turn.
                Err(LogError::Database(DatabaseError::Conflict(_))) => {}
                Err(error) => return Err(error),
            }
            again.reserved = Some(log.clone());
        }
        let mut state = log.state();
        let failures = state.failures;
        log.0.lacking.notify_one();
        loop {
            if state.place.is_some_and(|place| place.n >= until) {
                return Ok(());
            }
            if let Some(why) = &state.ended {
                return Err(why.clone());
            }
            if state.failures > failures
                && let Some(why) = &state.failure
            {
                return Err(why.clone());
            }
            let waited = log.0.moved.wait_timeout(state, FOLLOWED_WITHIN);
            let (next, time) = waited.unwrap_or_else(PoisonError::into_inner);
            if time.timed_out() {
                return Err(DatabaseError::silent(FOLLOWED_WITHIN).into());
            }
            state = next;
        }
    }
}
