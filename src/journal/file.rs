//! `journal.db`: the journal of the engine `file`.
//!
//! One writer thread owns the writing connection (`journal/file/writer.rs`); readers have their own, read-only.

mod claims;
pub mod copy;
mod group;
mod log;
mod measure;
pub(super) mod moving;
pub(super) mod page;
mod payloads;
mod prune;
mod quarantine;
mod reader;
mod rejected_bodies;
mod retention;
pub(super) mod schema;
mod segment_index;
mod segments;
#[cfg(test)]
pub(crate) mod tests;
mod timeline;
mod writer;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::queue::Queue;
use super::recent::Recent;
use super::{Options, Shared, StorageError};
use base::order::Seq;
use observe::metrics::Metrics;
use retention::Kept;
use sqlite::{FailStop, Notice, Readers};

const LOG_READERS_MAX: u32 = 4;
const LANE_READERS_MAX: u32 = 4;

/// Damage that anybody met in the file.
pub(super) static DAMAGE: Notice = Notice::new();

/// The file, and who reads and writes it.
#[derive(Debug)]
pub(super) struct File {
    shared: Arc<Shared>,
    path: PathBuf,
    /// Of all files of the data folder.
    fail_stop: FailStop,
    /// For the request log.
    reads: Readers,
    /// For the lanes: they never wait for somebody who reads the log.
    lane_reads: Readers,
    writer: Mutex<Option<JoinHandle<()>>>,
    kept: tokio::sync::Mutex<Kept>,
    /// Numbers that no request has: after the start of each, up to and including its end.
    skipped: Vec<Range<Seq>>,
}

impl File {
    /// Opens or makes the file at `path`, and starts the writer thread, which has time lived go on from where it stood.
    pub(super) async fn open(
        path: &Path,
        options: Options,
        metrics: Arc<Metrics>,
        fail_stop: &FailStop,
    ) -> Result<(Self, Arc<Shared>, Arc<Queue>), StorageError> {
        let writer_connection = schema::open_writer(path, options.durability)?;
        let last_seq = schema::last_seq(&writer_connection)?.max(options.seq_floor);
        let skipped = schema::skipped(&writer_connection)?;
        let newest_entry = schema::last_payload_seq(&writer_connection)?;
        let reads = Readers::open(path, LOG_READERS_MAX)?;
        let lane_reads = Readers::open(path, LANE_READERS_MAX)?;
        let shared = Arc::new(Shared::new(
            Recent::starting_after(last_seq),
            newest_entry.max(options.seq_floor),
            metrics,
        ));
        let queue = Arc::new(Queue::new(options.pending_bytes_max));
        // What was met before is repaired.
        DAMAGE.take();
        let thread = writer::start(
            writer_connection,
            (path, fail_stop),
            options,
            last_seq,
            Arc::clone(&queue),
            Arc::clone(&shared),
        )?;
        let file = Self {
            shared: Arc::clone(&shared),
            path: path.to_owned(),
            fail_stop: fail_stop.clone(),
            reads,
            lane_reads,
            writer: Mutex::new(Some(thread)),
            kept: tokio::sync::Mutex::new(Kept::of_file(newest_entry)),
            skipped,
        };
        Ok((file, shared, queue))
    }

    /// Has the daemon end, and the next start repair the file, if somebody met damage in it.
    pub(super) fn notice_damage(&self) {
        if DAMAGE.take() {
            self.fail_stop
                .damaged(&self.path, "a damaged page was read");
        }
    }

    /// How many numbers lie after `cursor`, up to the newest accepted entry. Skipped numbers are left out, because no
    /// request has them.
    pub(super) fn lag(&self, cursor: Seq) -> u64 {
        lag(cursor, *self.shared.newest.borrow(), &self.skipped)
    }

    /// Waits for the writer thread, whose queue is closed.
    pub(super) async fn close(&self) {
        let thread = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        self.reads.close().await;
        self.lane_reads.close().await;
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

fn lag(cursor: Seq, newest: Seq, skipped: &[Range<Seq>]) -> u64 {
    let between = |range: &Range<Seq>| {
        let (start, end) = (range.start.max(cursor), range.end.min(newest));
        end - start
    };
    let skipped: u64 = skipped.iter().map(between).sum();
    (newest - cursor) - skipped
}
