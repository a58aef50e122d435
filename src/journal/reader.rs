//! Reading entries back: from memory for lanes that keep up, from the file for the others.
//!
//! **Invariant**: whatever the memory holds is a gapless run of entries up to the newest one, so
//! "from memory" and "from the file" give the same entries.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use futures_util::TryStreamExt;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::{ReadRequest, StorageError, Taken};
use crate::batch::Entry;
use crate::item::Items;
use crate::sqlite;

/// Bytes of entries that stay in memory for the lanes.
const RECENT_BYTES_MAX: usize = 16 << 20;
/// What an entry costs beside its items.
const ENTRY_OVERHEAD_BYTES: usize = 160;
const CONNECTIONS_MAX: u32 = 4;

/// The newest entries, oldest first.
#[derive(Debug)]
pub(super) struct Recent {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
    /// Every accepted entry above this one is in `entries`.
    floor: u64,
}

impl Recent {
    pub(super) fn starting_after(seq: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            floor: seq,
        }
    }

    pub(super) fn push(&mut self, entry: Arc<Entry>) {
        self.bytes += cost(&entry);
        self.entries.push_back(entry);
        while self.bytes > RECENT_BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= cost(&oldest);
            self.floor = oldest.seq;
        }
    }

    /// Forgets what every lane has behind it.
    pub(super) fn forget_through(&mut self, seq: u64) {
        while let Some(oldest) = self.entries.front() {
            if oldest.seq > seq {
                break;
            }
            self.floor = oldest.seq;
            self.bytes -= cost(oldest);
            self.entries.pop_front();
        }
    }

    /// `None` if the memory does not reach back far enough.
    pub(super) fn take(&self, request: &ReadRequest<'_>) -> Option<Taken> {
        if request.after < self.floor {
            return None;
        }
        let start = self
            .entries
            .partition_point(|entry| entry.seq <= request.after);
        let mut cut = Cut::new(request);
        for entry in self.entries.range(start..) {
            if !cut.add(entry.seq, &entry.stream, || Ok(Arc::clone(entry))) {
                break;
            }
        }
        Some(cut.taken)
    }
}

fn cost(entry: &Entry) -> usize {
    entry.items.byte_len() + ENTRY_OVERHEAD_BYTES
}

/// Cuts a run of entries to the size that was asked for.
struct Cut<'a> {
    request: &'a ReadRequest<'a>,
    taken: Taken,
    items: usize,
    bytes: usize,
}

impl<'a> Cut<'a> {
    fn new(request: &'a ReadRequest<'a>) -> Self {
        Self {
            request,
            taken: Taken {
                through: request.after,
                ..Taken::default()
            },
            items: 0,
            bytes: 0,
        }
    }

    /// Adds the next entry; false when it must stay for the next cut.
    fn add(
        &mut self,
        seq: u64,
        stream: &str,
        entry: impl FnOnce() -> Result<Arc<Entry>, String>,
    ) -> bool {
        if (self.request.wanted)(stream) {
            match entry() {
                Ok(entry) => {
                    let items = self.items + entry.items.len();
                    let bytes = self.bytes + entry.items.byte_len();
                    let full = items > self.request.items_max || bytes > self.request.bytes_max;
                    if full && !self.taken.entries.is_empty() {
                        return false;
                    }
                    self.items = items;
                    self.bytes = bytes;
                    self.taken.entries.push(entry);
                }
                Err(reason) => self.taken.corrupt.push((seq, reason)),
            }
        }
        self.taken.through = seq;
        true
    }
}

pub(super) async fn open_pool(path: &Path) -> Result<sqlx::SqlitePool, StorageError> {
    Ok(sqlite::open_readers(path, CONNECTIONS_MAX).await?)
}

const SELECT_AFTER: &str = "SELECT p.seq, p.crc32, p.items, r.request_id, r.stream, r.received_ms \
     FROM payloads p JOIN requests r ON r.seq = p.seq WHERE p.seq > ? ORDER BY p.seq LIMIT 4096";
const SELECT_ONE: &str = "SELECT p.seq, p.crc32, p.items, r.request_id, r.stream, r.received_ms \
     FROM payloads p JOIN requests r ON r.seq = p.seq WHERE p.seq = ?";

pub(super) async fn read_after(
    reads: &sqlx::SqlitePool,
    request: &ReadRequest<'_>,
) -> Result<Taken, StorageError> {
    let mut cut = Cut::new(request);
    let mut rows = sqlx::query(SELECT_AFTER)
        .bind(request.after.cast_signed())
        .fetch(reads);
    while let Some(row) = rows.try_next().await? {
        let seq: i64 = row.try_get("seq")?;
        let stream: &str = row.try_get("stream")?;
        if !cut.add(seq.unsigned_abs(), stream, || read_entry(&row)) {
            break;
        }
    }
    Ok(cut.taken)
}

pub(super) async fn read_one(
    reads: &sqlx::SqlitePool,
    seq: u64,
) -> Result<Option<Arc<Entry>>, StorageError> {
    let row = sqlx::query(SELECT_ONE)
        .bind(seq.cast_signed())
        .fetch_optional(reads)
        .await?;
    Ok(row.and_then(|row| read_entry(&row).ok()))
}

/// Checks a payload and makes an entry of it.
fn read_entry(row: &SqliteRow) -> Result<Arc<Entry>, String> {
    let parts = || -> Result<_, sqlx::Error> {
        Ok((
            row.try_get::<i64, _>("seq")?,
            row.try_get::<i64, _>("crc32")?,
            row.try_get::<Vec<u8>, _>("items")?,
            row.try_get::<Vec<u8>, _>("request_id")?,
            row.try_get::<String, _>("stream")?,
            row.try_get::<i64, _>("received_ms")?,
        ))
    };
    let (seq, crc32, items, request_id, stream, received_ms) =
        parts().map_err(|error| format!("the row cannot be read: {error}"))?;
    if i64::from(crc32fast::hash(&items)) != crc32 {
        return Err("the payload's checksum does not match".to_owned());
    }
    let items = Items::from_bytes(items.into())
        .map_err(|error| format!("the payload cannot be decoded: {error}"))?;
    Ok(Arc::new(Entry {
        seq: seq.unsigned_abs(),
        request_id: Uuid::from_slice(&request_id)
            .map_err(|error| format!("the request id cannot be decoded: {error}"))?,
        stream: stream.into(),
        received_ms: received_ms.unsigned_abs(),
        items,
    }))
}
