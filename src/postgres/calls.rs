//! How long calls to the database take, by what they are for. Whoever counts them is told.
//!
//! **Invariant**: a call is told once, at its end: also one that failed, or that nobody waits for any more.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::{Database, Known};

/// What a call to the database is for. The kinds are fixed: no text of a request or a configuration is one. So the
/// metrics have a fixed number of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseCall {
    /// To store a group of requests, up to its commit: each 202 waits for one.
    Accept,
    /// To store a removal of what has expired, or a request of items that are sent again.
    Place,
    /// To append a change of the copies to their log, up to its commit.
    Append,
    /// To read what other nodes have appended.
    Follow,
    /// To ask below which number nothing will be committed any more.
    Horizon,
    /// To read accepted requests for the sinks.
    Read,
    /// To read the request log, for people and for what is measured.
    Log,
    /// To say that this node lives, and to hear of the others.
    Beat,
    /// To see, take, keep or give up the claim of the sinks.
    Claim,
    /// To load a base of the copies, or to see whether one is due.
    Base,
    /// To share the limits of keys.
    Limits,
    /// For a session, a sign-in link, a ticket or the admin token.
    Access,
    /// For what operators ask of the node that runs the sinks.
    Ask,
}

impl DatabaseCall {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Accept,
        Self::Place,
        Self::Append,
        Self::Follow,
        Self::Horizon,
        Self::Read,
        Self::Log,
        Self::Beat,
        Self::Claim,
        Self::Base,
        Self::Limits,
        Self::Access,
        Self::Ask,
    ];

    /// The name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Place => "place",
            Self::Append => "append",
            Self::Follow => "follow",
            Self::Horizon => "horizon",
            Self::Read => "read",
            Self::Log => "log",
            Self::Beat => "beat",
            Self::Claim => "claim",
            Self::Base => "base",
            Self::Limits => "limits",
            Self::Access => "access",
            Self::Ask => "ask",
        }
    }
}

type Observer = Box<dyn Fn(DatabaseCall, Duration) + Send + Sync>;

/// Who is told of calls, if somebody is.
#[derive(Default)]
pub(super) struct CallObserver(OnceLock<Observer>);

impl fmt::Debug for CallObserver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_set = self.0.get().is_some();
        formatter
            .debug_tuple("CallObserver")
            .field(&is_set)
            .finish()
    }
}

/// A call under way: it ends when this is dropped, also where the caller no longer waits. Otherwise slow calls
/// would be missing from the metrics.
#[derive(Debug)]
pub struct CallTimer {
    known: Arc<Known>,
    call: DatabaseCall,
    begun: Instant,
}

impl Drop for CallTimer {
    fn drop(&mut self) {
        if let Some(observe) = self.known.calls.0.get() {
            observe(self.call, self.begun.elapsed());
        }
    }
}

impl Database {
    /// From now on `observe` is told how long each call took, also those over clones of this. It must not wait. The first
    /// observer stays. A call ends only when it has returned.
    pub fn observe_calls(&self, observe: impl Fn(DatabaseCall, Duration) + Send + Sync + 'static) {
        let _ = self.known.calls.0.set(Box::new(observe));
    }

    /// Measures a call that begins now. Connecting is not part of one.
    #[must_use]
    pub fn timer(&self, call: DatabaseCall) -> CallTimer {
        CallTimer {
            known: Arc::clone(&self.known),
            call,
            begun: Instant::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{DatabaseOptions, Durability};

    #[test]
    fn a_call_is_told_once_at_its_end_whichever_clone_made_it() {
        let options = DatabaseOptions {
            urls: vec!["postgres://localhost/headgate".to_owned()],
            schema: "headgate".to_owned(),
            name: "a".to_owned(),
            durability: Durability::Local,
        };
        let database = Database::new(&options).expect("a URL and a plain name");
        let clone = database.clone();
        drop(clone.timer(DatabaseCall::Beat));
        let told = Arc::new(Mutex::new(Vec::new()));
        let calls = Arc::clone(&told);
        database.observe_calls(move |call, _| calls.lock().expect("no panic").push(call));
        database.observe_calls(|_, _| panic!("the first observer stays"));
        let timer = clone.timer(DatabaseCall::Accept);
        assert_eq!(*told.lock().expect("no panic"), []);
        drop(timer);
        drop(database.timer(DatabaseCall::Read));
        let told = told.lock().expect("no panic");
        assert_eq!(*told, [DatabaseCall::Accept, DatabaseCall::Read]);
        for (at, call) in DatabaseCall::ALL.into_iter().enumerate() {
            assert_eq!(call as usize, at, "its number is its place");
        }
    }
}
