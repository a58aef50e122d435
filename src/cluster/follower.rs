//! How a node follows the log: what other nodes have appended is applied to both of its files.
//!
//! **Invariant**: how far behind a node is counts from a question to the database that was answered, never from a guess: a
//! node that gets no answer is further behind with each second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::clock::{millis, since_boot};
use replica::log::{FollowedEntries, Log};
use replica::{LogEntry, LogError, LogPlace, SharedLog};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Questions of a node that has all there is. Without hints, a change of another node is late by this much.
const EVERY: Duration = Duration::from_millis(25);
/// While there is something in each answer.
const EVERY_UNDER_LOAD: Duration = Duration::from_millis(5);
/// After a failure.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Between notes in the files of where they are, because an entry that does not concern a file moves its place in
/// memory only.
const PLACES_EVERY: Duration = Duration::from_secs(1);

/// Applies an entry to both files, which follows on a place: to the catalog first, so that a screen sees nothing
/// newer than the revocation of its key. Blocks.
pub type Apply = Box<dyn Fn(LogPlace, &LogEntry<'_>) -> Result<(), String> + Send + Sync>;
/// Has both files note where they are. Blocks.
pub type KeepPlaces = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

pub struct Follower {
    log: Log,
    shared: SharedLog,
    apply: Apply,
    keep: KeepPlaces,
    copy: Copy,
}

/// How far the copies of a node are. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Copy(Arc<CopyState>);

#[derive(Debug)]
struct CopyState {
    /// When was asked what the files have all of, in milliseconds since the boot; 0: never. Not the time of the answer,
    /// because another node may have appended something before it came.
    level: AtomicU64,
    /// They have once had everything; and why nothing is followed any more.
    state: watch::Sender<(bool, Option<LogError>)>,
}

impl Copy {
    /// How far it is behind: since when there may be entries that it lacks. None: it never had everything.
    pub fn delay(&self) -> Option<Duration> {
        match self.0.level.load(Ordering::Acquire) {
            0 => None,
            level => Some(since_boot().saturating_sub(Duration::from_millis(level))),
        }
    }

    /// Waits until it has everything that there was.
    ///
    /// # Errors
    /// Why it never will.
    pub async fn caught_up(&self) -> Result<(), LogError> {
        let mut state = self.0.state.subscribe();
        let ended = state.wait_for(|(is_level, ended)| *is_level || ended.is_some());
        match ended.await {
            Ok(state) => state.1.clone().map_or(Ok(()), Err),
            Err(_) => Err(LogError::NotFollowed("the node is stopping".to_owned())),
        }
    }

    /// Waits until it has everything that there was at a time, by [`since_boot`].
    ///
    /// # Errors
    /// Why it never will.
    pub async fn has_all_until(&self, time: Duration) -> Result<(), LogError> {
        let has_all = async {
            while self.0.level.load(Ordering::Acquire) < millis(time) {
                tokio::time::sleep(EVERY_UNDER_LOAD).await;
            }
        };
        tokio::select! {
            () = has_all => Ok(()),
            why = self.ended() => Err(why),
        }
    }

    /// Waits until nothing is followed any more; why.
    pub async fn ended(&self) -> LogError {
        let mut state = self.0.state.subscribe();
        let ended = state.wait_for(|(_, ended)| ended.is_some()).await;
        match ended.ok().and_then(|state| state.1.clone()) {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }
}

impl Follower {
    /// With a log of its own. Both files are open.
    pub fn new(log: Log, shared: SharedLog, apply: Apply, keep: KeepPlaces) -> Self {
        Self {
            log,
            shared,
            apply,
            keep,
            copy: Copy(Arc::new(CopyState {
                level: AtomicU64::new(0),
                state: watch::Sender::new((false, None)),
            })),
        }
    }

    /// How far it is.
    pub fn copy(&self) -> Copy {
        self.copy.clone()
    }

    /// Follows until `stop`, or until the files are of no use. Blocks its thread while entries are applied.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut kept = Instant::now();
        let hints = self.log.hints().clone();
        let mut hinted = hints.heard();
        loop {
            hinted.borrow_and_update();
            let Some(round) = stop.run_until_cancelled(self.round()).await else {
                break;
            };
            let has_failed = round.is_err();
            let pause = match round {
                Ok(0) => hints.pause(EVERY),
                Ok(_) => EVERY_UNDER_LOAD,
                Err(LogError::Differs | LogError::Newer(_)) => break,
                Err(error) => {
                    tracing::debug!(%error, "cannot follow the changes of other nodes");
                    AGAIN_AFTER
                }
            };
            if kept.elapsed() >= PLACES_EVERY {
                kept = Instant::now();
                if let Err(error) = (self.keep)() {
                    tracing::debug!(error, "cannot note where the copies are");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.shared.lacking(), if !has_failed => {}
                Ok(()) = hinted.changed(), if !has_failed => {}
                () = stop.cancelled() => break,
            }
        }
        self.log.close().await;
    }

    /// Reads and applies what there is; how many entries that were. The last answer may be from before the newest
    /// entry, so it counts from its question.
    async fn round(&mut self) -> Result<usize, LogError> {
        let mut applied = 0;
        loop {
            let asked = since_boot();
            let read = self.shared.read(&mut self.log).await;
            let read = read.inspect_err(|error| self.note_end(error))?;
            self.apply(&read)?;
            applied += read.entries.len();
            if self.shared.place().n >= read.head.place.n {
                // 0 is never.
                let asked = millis(asked).max(1);
                self.copy.0.level.store(asked, Ordering::Release);
                self.copy.0.state.send_if_modified(|(is_level, _)| {
                    let before = *is_level;
                    *is_level = true;
                    !before
                });
                return Ok(applied);
            }
        }
    }

    fn apply(&self, read: &FollowedEntries) -> Result<(), LogError> {
        let applied = self.shared.apply(read, &self.apply);
        applied.map_err(|error| {
            // Whether the files are of no use is known to the log.
            let error = self.shared.ended().unwrap_or(LogError::NotFollowed(error));
            self.note_end(&error);
            error
        })
    }

    /// Only these two errors end it, because all others may pass.
    fn note_end(&self, error: &LogError) {
        if matches!(error, LogError::Differs | LogError::Newer(_)) {
            let ended = Some(error.clone());
            self.copy.0.state.send_modify(|(_, end)| *end = ended);
        }
    }
}
