//! The pages of a SQLite file as they are after its write-ahead log, read without SQLite: it refuses a file for one bad
//! page.
//!
//! **Invariant**: what cannot be read is absent; nothing here fails for it, and nothing is written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::wal::{self, Looked};
use super::{RepairError, beside};
use sqlite::{PAGE_BYTES, PAGE_BYTES_BEFORE};

/// Bytes of a page of the file at `path`: what its header says or, if that is no size that a file of the daemon has, the
/// one of the two at which more pages begin as pages do.
pub(super) fn page_bytes(path: &Path) -> io::Result<usize> {
    const SIZES: [usize; 2] = [PAGE_BYTES, PAGE_BYTES_BEFORE];
    /// Pages that are looked at.
    const LOOKED_AT: u64 = 1_000;
    let file = File::open(path)?;
    let mut said = [0; 2];
    if file.read_exact_at(&mut said, 16).is_ok() {
        let said = usize::from(u16::from_be_bytes(said));
        if SIZES.contains(&said) {
            return Ok(said);
        }
    }
    let len = file.metadata()?.len();
    let share = |size: usize| {
        let pages = (len / size as u64).clamp(1, LOOKED_AT);
        let begins = |page: &u64| {
            let mut kind = [0];
            let read = file.read_exact_at(&mut kind, page * size as u64);
            // Inner and outer pages of indexes and tables.
            read.is_ok() && matches!(kind[0], 2 | 5 | 10 | 13)
        };
        (1..pages).filter(begins).count() as u64 * LOOKED_AT / pages
    };
    // At the smaller size every second page of a file with larger ones begins in the middle.
    Ok(match share(PAGE_BYTES_BEFORE) * 3 > share(PAGE_BYTES) * 4 {
        true => PAGE_BYTES_BEFORE,
        false => PAGE_BYTES,
    })
}

/// Looks through the log of the file at `path`. None if there is none, or nothing in it.
pub(super) fn read_log(path: &Path) -> io::Result<Option<Looked>> {
    wal::look(&beside(path, "-wal"), page_bytes(path)?)
}

/// A file and its log.
pub(super) struct Image {
    file: File,
    log: Option<File>,
    looked: Looked,
    pub(super) page_bytes: usize,
    pub(super) pages: u32,
}

impl Image {
    /// Nothing may be writing to the file.
    pub(super) fn open(path: &Path) -> Result<Self, RepairError> {
        Self::read(path).map_err(|reason| RepairError::file(path, reason))
    }

    fn read(path: &Path) -> io::Result<Self> {
        let log_path = beside(path, "-wal");
        let page_bytes = page_bytes(path)?;
        let looked = wal::look(&log_path, page_bytes)?.unwrap_or_default();
        let file = File::open(path)?;
        let whole = file.metadata()?.len() / page_bytes as u64;
        let whole = u32::try_from(whole).unwrap_or(u32::MAX);
        // The header's own number of pages is not asked: it may be what is damaged.
        Ok(Self {
            file,
            log: File::open(&log_path).ok(),
            page_bytes,
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
