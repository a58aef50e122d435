//! A spool that is only emptied: step by step, for a program whose user waits, such as `headgate send --spool`.
//!
//! **Invariant**: a step is at most one attempt; nothing happens between two steps.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::client::{Cancel, Client};
use crate::error::Error;
use crate::options::{BatcherOptions, ItemKey, State};
use crate::rejected::{Again, RejectedPart};
use crate::spool::{self, names_in};
use crate::state::Core;

/// A spool that this program uses until it is dropped.
pub struct Drain {
    core: Arc<Core>,
    stream: Option<String>,
}

/// What a step came to.
#[derive(Debug)]
#[non_exhaustive]
pub enum DrainStep {
    /// An attempt was made, or a file was taken out of the queue.
    Done,
    /// The next attempt comes after a pause.
    Paused {
        /// How long.
        pause: Duration,
        /// Why, if the last attempt failed.
        error: Option<Error>,
        /// Of the connection.
        state: State,
        /// Failed attempts in a row.
        failures: u32,
        /// Whether the spool could not be read or written.
        disk_fails: bool,
    },
    /// No batch is left.
    Empty,
}

/// What is left in a spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainLeft {
    /// Batches that were not accepted, with the one that is being sent.
    pub batches: usize,
    /// Files that were set aside, because they hold no batch.
    pub damaged: u64,
}

/// A batch that lies in a spool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SpooledBatch {
    /// Its file.
    pub name: String,
    /// That it is meant for, if that is known.
    pub stream: Option<String>,
    /// How many items it has.
    pub items: usize,
    /// Bytes of its body.
    pub bytes: usize,
}

/// The batches that lie in a spool, in order, each read when it is asked for; also while another program uses the spool.
/// The name of a file that holds no batch is the error.
pub fn spooled(
    folder: &Path,
) -> io::Result<impl Iterator<Item = Result<SpooledBatch, String>> + use<>> {
    let folder = folder.to_owned();
    let names = names_in(&folder, false)?;
    Ok(names.into_iter().filter_map(move |(name, _)| {
        let text = match fs::read(folder.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            read => read.unwrap_or_default(),
        };
        let batch = spool::parse(&text, spool::key_of(&name), 0, Duration::ZERO);
        Some(match batch {
            Some(batch) => Ok(SpooledBatch {
                items: batch.entries.len(),
                bytes: batch.bytes() + batch.entries.len() + 1,
                stream: batch.stream,
                name,
            }),
            None => Err(name),
        })
    }))
}

impl Client {
    /// Takes a spool, to empty it. Of the options, the stream counts for batches that name none, and the callbacks. Nothing in
    /// `rejected` is deleted to make room.
    pub fn drain(&self, folder: &Path, options: BatcherOptions) -> Result<Drain, Error> {
        let stream = options.stream.clone();
        let options = BatcherOptions {
            item_key: Some(ItemKey::OfConnector),
            latest_only: false,
            spool: Some(folder.to_owned()),
            spool_bytes: u64::MAX,
            ..options
        };
        let core = self.batcher_core(options, true)?;
        Ok(Drain { core, stream })
    }
}

impl Drain {
    /// Makes one attempt, if it is time.
    pub fn step(&self) -> DrainStep {
        let pause = self.core.send_step();
        if pause.is_zero() {
            return DrainStep::Done;
        }
        let inner = self.core.lock();
        match inner.is_open(u64::MAX) {
            false => DrainStep::Empty,
            true => DrainStep::Paused {
                pause,
                error: inner.error.clone(),
                state: inner.state,
                failures: inner.failures,
                disk_fails: inner.disk_fails,
            },
        }
    }

    /// Waits; false if that was canceled.
    pub fn wait(&self, pause: Duration, cancel: &Cancel) -> bool {
        self.core.shared.world.sleep(pause, cancel)
    }

    /// What is left.
    pub fn left(&self) -> DrainLeft {
        let stats = self.core.stats();
        DrainLeft {
            batches: stats.spooled + usize::from(stats.in_flight > 0),
            damaged: stats.damaged,
        }
    }

    /// Sends what lies in `rejected`, the oldest first: each part under the key that it had, but one whose key belongs to
    /// other content. What is accepted is deleted there, what is rejected again stays. Any other error ends it.
    ///
    /// What is accepted now counts as newer than all that was accepted before.
    pub fn send_rejected(
        &self,
        cancel: &Cancel,
        mut report: impl FnMut(&RejectedPart, Again<'_>),
    ) -> Result<(), Error> {
        let Some(spool) = &self.core.spool else {
            return Ok(());
        };
        let client = Client {
            shared: self.core.shared.clone(),
        };
        spool.send_rejected(&client, self.stream.as_deref(), cancel, &mut report)
    }
}
