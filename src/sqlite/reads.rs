//! The connections that read a file while its writer goes on.
//!
//! The journal and the pool have them. A read runs on a blocking thread of the runtime: whoever asks waits for it, and no
//! other task does.
//!
//! **Invariant**: a read whose caller is gone ends, and its connection serves the next one. Two reads never share a
//! connection.

use std::any::Any;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rusqlite::{Connection, Error, OptionalExtension as _, Params, Row, ffi};
use tokio::sync::Semaphore;

use super::open_reader;

/// Cached pages of a connection, in KiB. The system caches the file, too.
const CACHE_KIB: i64 = 1_000;
/// Prepared statements of a connection.
const STATEMENTS_MAX: usize = 64;
/// A connection that nobody has used for this time is closed when another one is given back.
const IDLE_TIME_MAX: Duration = Duration::from_secs(60);

/// What a read gives: a result of its own type.
type Done = Box<dyn Any + Send>;
type Work = Box<dyn FnOnce(&Connection) -> Done + Send>;

/// Read-only connections of a file, opened when they are needed.
#[derive(Debug)]
pub struct Readers {
    idle: Arc<Idle>,
    turns: Arc<Semaphore>,
    connections_max: u32,
}

impl Readers {
    /// Readers of a file that its writer has made.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(path: &Path, connections_max: u32) -> Result<Self, Error> {
        let idle = Idle {
            path: path.to_owned(),
            readers: Mutex::default(),
        };
        idle.give_back(idle.take()?);
        Ok(Self {
            idle: Arc::new(idle),
            turns: Arc::new(Semaphore::new(connections_max as usize)),
            connections_max,
        })
    }

    /// Runs a read when a connection is free. Several statements that have to see one state begin a transaction.
    ///
    /// # Errors
    /// Those of `work`; SQLite's if the file cannot be opened; `SQLITE_ABORT` once the readers are closed.
    ///
    /// # Panics
    /// If `work` does.
    pub async fn read<T, E>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let done: Done = self
            .run(Box::new(|connection| Box::new(work(connection))))
            .await?;
        // It always has this type: it is what `work` gave.
        (done.downcast()).map_or_else(|_| Err(closed().into()), |done: Box<Result<T, E>>| *done)
    }

    /// Runs a read without its type, in a box: what waits for a connection and for its end is compiled once, and not for
    /// each read in each package that has it polled.
    fn run(&self, work: Work) -> BoxFuture<'_, Result<Done, Error>> {
        Box::pin(async move {
            let turn = Arc::clone(&self.turns).acquire_owned().await;
            let turn = turn.map_err(|_| closed())?;
            let (idle, current) = (Arc::clone(&self.idle), Arc::new(Current::default()));
            let caller = Caller(Arc::clone(&current));
            let read = tokio::task::spawn_blocking(move || {
                let reader = idle.take()?;
                let done = match current.begin(&reader) {
                    true => Ok(work(&reader.connection)),
                    false => Err(closed()),
                };
                current.end();
                idle.give_back(reader);
                drop(turn);
                done
            });
            let read = read.await;
            drop(caller);
            read.unwrap_or_else(|error| match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(closed()),
            })
        })
    }

    /// Reads the row of a statement that has one.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn row<T: Send + 'static>(
        &self,
        sql: impl AsRef<str> + Send + 'static,
        values: impl Params + Send + 'static,
        read: impl FnOnce(&Row<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let row = self.read(move |connection| {
            let mut statement = connection.prepare_cached(sql.as_ref())?;
            statement.query_row(values, read)
        });
        row.await
    }

    /// Reads the first row of a statement, if it has any.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn first<T: Send + 'static>(
        &self,
        sql: impl AsRef<str> + Send + 'static,
        values: impl Params + Send + 'static,
        read: impl FnOnce(&Row<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<Option<T>, Error> {
        self.row(sql, values, read).await.optional()
    }

    /// Reads all rows of a statement.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn rows<T: Send + 'static>(
        &self,
        sql: impl AsRef<str> + Send + 'static,
        values: impl Params + Send + 'static,
        read: impl FnMut(&Row<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<Vec<T>, Error> {
        let rows = self.read(move |connection| {
            let mut statement = connection.prepare_cached(sql.as_ref())?;
            statement.query_map(values, read)?.collect()
        });
        rows.await
    }

    /// Waits for the reads that run, and closes the file.
    pub async fn close(&self) {
        let all = self.turns.acquire_many(self.connections_max).await;
        self.turns.close();
        drop(all);
        self.idle.lock().clear();
    }
}

/// A connection, and whether what it runs is to end.
#[derive(Debug)]
struct Reader {
    connection: Connection,
    stop: Arc<AtomicBool>,
}

/// The connections that nobody uses.
#[derive(Debug)]
struct Idle {
    path: PathBuf,
    /// Since when, the longest first.
    readers: Mutex<Vec<(Instant, Reader)>>,
}

impl Idle {
    /// The one that was used last, because it has most in its cache, or a new one.
    fn take(&self) -> Result<Reader, Error> {
        let last = self.lock().pop();
        last.map_or_else(|| open(&self.path), |(_, reader)| Ok(reader))
    }

    fn give_back(&self, reader: Reader) {
        let now = Instant::now();
        let mut readers = self.lock();
        readers.push((now, reader));
        readers.retain(|(since, _)| now - *since < IDLE_TIME_MAX);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, Reader)>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A read: before it begins, while it runs, or after its end.
#[derive(Default)]
struct Current(Mutex<Phase>);

#[derive(Default)]
enum Phase {
    #[default]
    Waits,
    /// What has it end.
    Runs(Arc<AtomicBool>),
    Over,
}

impl Current {
    /// False: its caller is gone.
    fn begin(&self, reader: &Reader) -> bool {
        let mut phase = self.lock();
        let waits = matches!(*phase, Phase::Waits);
        if waits {
            reader.stop.store(false, Ordering::Relaxed);
            *phase = Phase::Runs(Arc::clone(&reader.stop));
        }
        waits
    }

    fn end(&self) {
        *self.lock() = Phase::Over;
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever waits for a read. Dropped before its end, it has the read end, too.
struct Caller(Arc<Current>);

impl Drop for Caller {
    fn drop(&mut self) {
        let mut phase = self.0.lock();
        // Under the lock, because what runs next on the connection must not end. SQLite's own interrupt would be lost
        // between two statements.
        if let Phase::Runs(stop) = &*phase {
            stop.store(true, Ordering::Relaxed);
        }
        *phase = Phase::Over;
    }
}

fn open(path: &Path) -> Result<Reader, Error> {
    let stop = Arc::default();
    let connection = open_reader(path, &stop)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(Reader { connection, stop })
}

fn closed() -> Error {
    let code = ffi::Error::new(ffi::SQLITE_ABORT);
    Error::SqliteFailure(code, Some("the file is closed".to_owned()))
}

#[cfg(test)]
mod tests;
