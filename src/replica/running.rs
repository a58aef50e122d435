//! Whole copies of the files of a node that goes on using them: bases for other nodes.
//!
//! **Invariant**: a base is what both files were at one entry, whatever is appended while it is made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LogPlace;
use super::at_rest::{AtRestError, delete};
use super::log::Log;
use sqlite::beside;

/// What a copy is called until it is stored. What a killed node leaves is overwritten by the next one, because the name
/// is the same.
const PART: &str = ".base";

/// Copies that were made of both files, beside them: deleted with this.
#[derive(Debug)]
pub struct MadeCopies {
    parts: [PathBuf; 2],
    /// Where the pool is, and where the catalog has noted to be.
    places: [LogPlace; 2],
}

impl MadeCopies {
    /// Copies both files, in the order of [`ReplicaFile::ALL`](super::ReplicaFile::ALL), which have just noted where
    /// they are. Blocks, and takes as long as reading and writing them whole. The places are read from the copies,
    /// because the files change while they are copied.
    ///
    /// # Errors
    /// SQLite's; the disk's.
    pub fn of(files: [&Path; 2]) -> Result<Self, AtRestError> {
        let mut made = Self {
            parts: files.map(|file| beside(file, PART)),
            places: [LogPlace::default(); 2],
        };
        for ((file, part), place) in files.into_iter().zip(&made.parts).zip(&mut made.places) {
            delete(part)?;
            let reader = sqlite::open_reader(file, &Arc::default())?;
            sqlite::copy(&reader, &part.to_string_lossy())?;
            *place = LogPlace::of(&sqlite::open_reader(part, &Arc::default())?)?;
        }
        Ok(made)
    }

    /// Has the log keep them as a base. False: they are not of one entry, because the catalog was changed meanwhile; make
    /// others. The base before the first entry is there since the log began.
    ///
    /// # Errors
    /// The log's.
    pub async fn store(&self, log: &mut Log, format: i32) -> Result<bool, AtRestError> {
        let [pool, catalog] = self.places;
        // Nothing has changed the catalog since the lower of both.
        if log.head().await?.catalog > pool.n.min(catalog.n) {
            return Ok(false);
        }
        if pool.n == 0 {
            return Ok(true);
        }
        let [one, other] = &self.parts;
        log.store_base(pool, format, [one, other]).await?;
        Ok(true)
    }
}

impl Drop for MadeCopies {
    fn drop(&mut self) {
        for part in &self.parts {
            // What stays is overwritten by the next ones.
            let _ = delete(part);
        }
    }
}
