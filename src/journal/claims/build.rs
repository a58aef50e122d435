//! Filters for the hours that were there when the daemon started, made beside the writer.
//!
//! `journal/claims.rs` starts it and takes what is done. It reads a few thousand claims at a time, so that no reading
//! transaction keeps the write-ahead log from beginning anew.
//!
//! **Invariant**: a filter that is handed over passes every claim of its hour that was committed before the start; of
//! later ones it need not know.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use rusqlite::{Connection, OptionalExtension};

use super::filter::{Filter, Key};
use crate::sqlite;

/// Claims read in one transaction.
const CHUNK: u32 = 10_000;

/// A thread that makes filters until it has them all or this is dropped.
#[derive(Debug)]
pub(super) struct Build {
    done: Receiver<(u64, Filter)>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Build {
    /// Begins with the first of these hours. `None` if there is nothing to do, or no way to do it.
    pub(super) fn start(path: Option<&str>, hours: Vec<u64>) -> Option<Self> {
        let path = PathBuf::from(path.filter(|path| !path.is_empty() && !hours.is_empty())?);
        let (send, done) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("claims".to_owned())
            .spawn(move || {
                let made = sqlite::open_reader(&path, &stopped)
                    .and_then(|connection| make(&connection, &hours, &stopped, &send));
                if let Err(error) = made {
                    slower(&error);
                }
            });
        match thread {
            Ok(thread) => Some(Self {
                done,
                stop,
                thread: Some(thread),
            }),
            Err(error) => {
                slower(&error);
                None
            }
        }
    }

    /// The next filter that is done, with the number of its hour.
    pub(super) fn take(&self) -> Result<(u64, Filter), TryRecvError> {
        self.done.try_recv()
    }

    /// The next filter. `None` after the last.
    #[cfg(test)]
    pub(super) fn wait(&self) -> Option<(u64, Filter)> {
        self.done.recv().ok()
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn slower(error: &dyn std::fmt::Display) {
    tracing::warn!(
        %error,
        "new idempotency keys are looked up in the file and cost more than usual, for a day at most"
    );
}

fn make(
    connection: &Connection,
    hours: &[u64],
    stop: &AtomicBool,
    send: &Sender<(u64, Filter)>,
) -> Result<(), rusqlite::Error> {
    // An hour is about as busy as its neighbor.
    let mut expected = 0;
    for number in hours {
        match of_hour(connection, *number, expected) {
            Ok(filter) => {
                expected = filter.len();
                if send.send((*number, filter)).is_err() {
                    return Ok(());
                }
            }
            Err(_) if stop.load(Ordering::Relaxed) => return Ok(()),
            // It has expired meanwhile, or it cannot be read: the others can.
            Err(error) => {
                if exists(connection, *number)? {
                    slower(&error);
                }
            }
        }
    }
    Ok(())
}

fn of_hour(
    connection: &Connection,
    number: u64,
    expected: usize,
) -> Result<Filter, rusqlite::Error> {
    let mut filter = Filter::expecting(expected);
    let mut statement = connection.prepare(&format!(
        "SELECT scope FROM claims_{number} WHERE scope > ?1 ORDER BY scope LIMIT {CHUNK}"
    ))?;
    let mut last: Option<Key> = None;
    loop {
        let after: &[u8] = last.as_ref().map_or(&[], |key| key);
        let mut rows = statement.query([after])?;
        let mut read = 0;
        let mut newest = None;
        while let Some(row) = rows.next()? {
            let key = row.get(0)?;
            filter.insert(&key);
            newest = Some(key);
            read += 1;
        }
        if read < CHUNK {
            return Ok(filter);
        }
        drop(rows);
        last = newest;
    }
}

fn exists(connection: &Connection, number: u64) -> Result<bool, rusqlite::Error> {
    let name = format!("claims_{number}");
    let found = connection
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE name = ?1",
            [name],
            |_| Ok(()),
        )
        .optional()?;
    Ok(found.is_some())
}
