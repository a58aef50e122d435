//! The pages of a SQLite file as they are after its write-ahead log, read without SQLite: it refuses a file for one bad
//! page.
//!
//! **Invariant**: what cannot be read is absent; nothing here fails for it, and nothing is written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::log::{self, Looked};
use super::{RepairError, beside};

/// Every file of the daemon has pages of this size.
pub(super) const PAGE_BYTES: usize = 4_096;

/// A file and its log.
pub(super) struct Image {
    file: File,
    log: Option<File>,
    looked: Looked,
    /// Bytes of a page.
    pub(super) page_bytes: usize,
    /// Number of pages.
    pub(super) pages: u32,
}

impl Image {
    /// Nothing may be writing to the file.
    pub(super) fn open(path: &Path) -> Result<Self, RepairError> {
        Self::read(path).map_err(|reason| RepairError::file(path, reason))
    }

    fn read(path: &Path) -> io::Result<Self> {
        let log_path = beside(path, "-wal");
        let looked = log::look(&log_path, PAGE_BYTES)?.unwrap_or_default();
        let file = File::open(path)?;
        let whole = file.metadata()?.len() / PAGE_BYTES as u64;
        let whole = u32::try_from(whole).unwrap_or(u32::MAX);
        // The header's own number of pages is not asked: it may be what is damaged.
        Ok(Self {
            file,
            log: File::open(&log_path).ok(),
            page_bytes: PAGE_BYTES,
            pages: looked.size.unwrap_or(whole),
            looked,
        })
    }

    /// Whether a page may be as it was before the last commits, without a sign of it.
    pub(super) fn is_stale(&self) -> bool {
        self.looked.is_stale
    }

    /// `PRAGMA user_version`; 0 if it cannot be read.
    pub(super) fn version(&self) -> i64 {
        self.page(1).map_or(0, |first| {
            i64::from(i32::from_be_bytes([
                first[60], first[61], first[62], first[63],
            ]))
        })
    }

    /// A page, from 1.
    pub(super) fn page(&self, number: u32) -> Option<Vec<u8>> {
        if number == 0 || number > self.pages || self.looked.lost.contains(&number) {
            return None;
        }
        let mut page = vec![0; self.page_bytes];
        let read = match (self.looked.pages.get(&number), &self.log) {
            (Some(at), Some(log)) => log.read_exact_at(&mut page, *at),
            _ => {
                let at = u64::from(number - 1) * self.page_bytes as u64;
                self.file.read_exact_at(&mut page, at)
            }
        };
        read.is_ok().then_some(page)
    }
}
