//! Ages of the data of followed streams that have a limit.
//!
//! **Invariant**: a client receives `stale` and `fresh` alternately, and neither for a stream without a limit.

use std::sync::Arc;
use std::time::Duration;

use super::Subscription;
use crate::frame::Frame;
use base::clock::{self, Unix};
use pool::PoolError;

/// Watches one stream.
#[derive(Debug)]
pub(super) struct Age {
    pub(super) max_seconds: u64,
    /// Time of the newest data. `None`: not looked up yet; 1970: the stream has no data.
    pub(super) newest_at: Option<Unix>,
    pub(super) is_reported: bool,
}

impl Age {
    pub(super) fn new(max_seconds: u64) -> Self {
        Self {
            max_seconds,
            newest_at: None,
            is_reported: false,
        }
    }

    /// When the data becomes too old.
    pub(super) fn stale_at(&self) -> Option<Unix> {
        let newest_at = self.newest_at.filter(|newest_at| *newest_at > Unix::MIN)?;
        Some(newest_at + Duration::from_secs(self.max_seconds))
    }
}

impl Subscription {
    /// Applies the limits if they have changed since the last check. A stream whose limit is gone is `fresh`, otherwise
    /// a screen would show it as stale for ever.
    fn take_limits(&mut self) {
        let now = self.live.stale_after();
        if Arc::ptr_eq(&now, &self.stale_after) {
            return;
        }
        let id = self.position();
        for following in &mut self.streams {
            let limit = now.get(&following.stream).copied();
            match (&mut following.age, limit) {
                (Some(age), Some(seconds)) => age.max_seconds = seconds,
                (Some(age), None) if age.is_reported => {
                    self.outbox.push_back(Frame::fresh(&following.stream, id));
                    following.age = None;
                }
                (age, limit) => *age = limit.map(Age::new),
            }
        }
        self.stale_after = now;
    }

    /// Returns the streams that have become stale, and those that no longer are. The file is asked once for each
    /// stream; later the memory knows each change, so no check reads the disk.
    pub(super) async fn look_at_ages(&mut self) -> Result<(), PoolError> {
        self.take_limits();
        let now = Unix::now();
        let id = self.position();
        for following in &mut self.streams {
            let Some(age) = &mut following.age else {
                continue;
            };
            if age.newest_at.is_none() {
                let newest = self.live.pool.newest_data(&following.stream).await?;
                let newest_at = newest.as_deref().and_then(clock::parse_rfc3339);
                age.newest_at = Some(newest_at.unwrap_or_default());
            }
            let recorded = self.live.pool.changes().updated_at(&following.stream);
            age.newest_at = age.newest_at.max(recorded);
            let Some(stale_at) = age.stale_at() else {
                continue;
            };
            let stale = now >= stale_at;
            if stale != age.is_reported {
                age.is_reported = stale;
                self.outbox.push_back(if stale {
                    let updated_at = clock::rfc3339(age.newest_at.unwrap_or_default());
                    Frame::stale(&following.stream, id, &updated_at, age.max_seconds)
                } else {
                    Frame::fresh(&following.stream, id)
                });
            }
        }
        Ok(())
    }
}
