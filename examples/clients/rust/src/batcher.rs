//! The batcher: what callers see of it, and its threads.

use std::fmt;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use tracing::warn;

use crate::client::Client;
use crate::encode::encode;
use crate::error::{Error, code};
use crate::options::{BatcherOptions, REQUEST_BYTES_MAX, State, WhenFull};
use crate::owner::CHECK_EVERY;
use crate::queue::{Entry, Queue, Waiter};
use crate::spool::Spool;
use crate::state::{Core, Inner};
use crate::{field, files, lock};

/// How long a batcher that is dropped is flushed.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// Joins items into requests and sends them in the background, in order, one request at a time. Threads may share it.
///
/// Items are in memory: a crash loses them, unless it has a spool. Dropping a batcher flushes for at most 5 seconds;
/// [`Batcher::close`] says how that went.
///
/// Callbacks are called one after the other, before `flush` returns for their items. They must not call `flush` or `close`,
/// nor `add` of the same batcher where that may wait for room.
pub struct Batcher {
    core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The counters of a batcher.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Items in memory that wait.
    pub queued: usize,
    /// Items of the batch that is being sent.
    pub in_flight: usize,
    /// Batches on disk that wait. How many items they have is known when they are read.
    pub spooled: usize,
    /// Their bytes.
    pub spooled_bytes: u64,
    /// Items that Headgate accepted.
    pub accepted: u64,
    /// Items that were given up, with those dropped.
    pub rejected: u64,
    /// Dropped items.
    pub dropped: u64,
    /// Items that newer ones replaced (`latest_only`).
    pub replaced: u64,
    /// Repeated requests.
    pub retries: u64,
    /// Files that were set aside.
    pub damaged: u64,
    /// Files of rejected items that had to make room for newer ones.
    pub forgotten: u64,
    /// How long the oldest item in memory has been here.
    pub oldest: Option<Duration>,
    /// The state of the connection.
    pub state: State,
    /// Of the last error, if the state is not `ok`.
    pub code: Option<String>,
}

/// What `flush` and `close` found at their end.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Flushed {
    /// Everything added before was accepted or rejected.
    pub done: bool,
    /// Items in memory that were not.
    pub queued: usize,
    /// Items that are being sent.
    pub in_flight: usize,
    /// Batches that stay in the spool.
    pub spooled: usize,
    /// Why, if it is not `ok`.
    pub state: State,
    /// Of the last error, if the state is not `ok`.
    pub code: Option<String>,
}

/// Without items.
impl fmt::Debug for Batcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        f.debug_struct("headgate_send::Batcher")
            .field("queued", &stats.queued)
            .field("in_flight", &stats.in_flight)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Starts a batcher. An error is about its options, or its spool.
    pub fn batcher(&self, options: BatcherOptions) -> Result<Batcher, Error> {
        let core = self.batcher_core(options, false)?;
        let mut batcher = Batcher {
            core,
            threads: Mutex::default(),
        };
        // Where one thread cannot be started, dropping the batcher ends the others.
        if batcher.core.spool.is_some() {
            batcher.start("headgate-write", write_thread)?;
            batcher.start("headgate-owner", owner_thread)?;
        }
        batcher.start("headgate-batch", send_thread)?;
        Ok(batcher)
    }

    /// One without threads.
    pub(crate) fn batcher_core(
        &self,
        options: BatcherOptions,
        is_drained: bool,
    ) -> Result<Arc<Core>, Error> {
        options.check()?;
        let mut inner = Inner {
            queue: Queue::new(options.latest_only),
            bytes_max: options.max_bytes,
            ..Inner::default()
        };
        let folder = options.spool.as_ref();
        let spool = folder.map(|folder| Spool::open(folder, options.spool_bytes));
        let spool = spool.transpose()?;
        if let Some(spool) = &spool {
            let listed = files::list(spool);
            let (files, used) =
                listed.map_err(|error| Error::usage(format!("can't read the spool: {error}")))?;
            (inner.last, inner.used, inner.files) = (files.len() as u64, used, files);
        }
        let core = Core::new(self.shared.clone(), options, is_drained, spool, inner);
        let core = Arc::new(core);
        let mut batchers = lock(&self.shared.batchers);
        batchers.retain(|batcher| batcher.strong_count() > 0);
        batchers.push(Arc::downgrade(&core));
        Ok(core)
    }
}

impl Batcher {
    fn start(&mut self, name: &str, work: fn(&Core)) -> Result<(), Error> {
        let core = self.core.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&core))
            .map_err(|error| Error::usage(format!("can't start a thread: {error}")))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Adds an item to the queue, and fails if the item cannot be sent. If the queue is full, it
    /// waits, unless `when_full` is set.
    pub fn add<T: Serialize + ?Sized>(&self, item: &T) -> Result<(), Error> {
        self.core.add(item)
    }

    /// Returns when everything added before, and what an earlier life left in the spool, is accepted or rejected, or at the
    /// timeout: then it says how much is not. It does not wait for the linger.
    pub fn flush(&self, timeout: Duration) -> Flushed {
        self.core.flush(timeout)
    }

    /// Flushes until the timeout, then stops. Batches in the spool stay there; everything else is handed to `on_rejected`
    /// with `CLOSED`. From the beginning of it on, `add` fails with `CLOSED`.
    pub fn close(&self, timeout: Duration) -> Flushed {
        self.core.shut();
        let mut flushed = self.core.flush(timeout);
        self.core.ended.cancel();
        let mut inner = self.core.lock();
        self.core.wake(&mut inner);
        drop(inner);
        let mut threads = lock(&self.threads);
        if !threads.is_empty() {
            for thread in threads.drain(..) {
                // What a callback's panic ended is at its end, too.
                drop(thread.join());
            }
            self.core.end();
        }
        flushed.spooled = self.core.lock().files.len();
        flushed
    }

    /// Those of this moment.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }
}

impl Drop for Batcher {
    fn drop(&mut self) {
        let is_open = !lock(&self.threads).is_empty();
        if is_open {
            self.close(DROP_TIMEOUT);
        }
    }
}

impl Core {
    pub(crate) fn add<T: Serialize + ?Sized>(&self, item: &T) -> Result<(), Error> {
        let entry = self.entry(item)?;
        let mut inner = self.lock();
        if inner.closed {
            return Err(match (inner.lost, &self.spool) {
                (true, Some(spool)) => Error::new(
                    code::SPOOL_IN_USE,
                    format!(
                        "another program now uses the spool {}",
                        spool.folder.display()
                    ),
                ),
                _ => Error::new(code::CLOSED, "the batcher is closed"),
            });
        }
        if self.takes(&inner, &entry) {
            self.put(&mut inner, entry);
            return Ok(());
        }
        match self.options.when_full {
            WhenFull::Fail => {
                let memory = inner.queue.bytes() + inner.unwritten_bytes();
                let used = inner.used;
                let message = format!(
                    "the queue is full: {memory} bytes wait in memory, {used} in the spool"
                );
                Err(Error::retryable(code::FULL, message))
            }
            WhenFull::DropOldest => {
                let dropped = self.make_room(&mut inner, &entry);
                self.put(&mut inner, entry);
                drop(inner);
                let error = Error::new(
                    code::DROPPED,
                    "the queue was full, so this item, the oldest, was dropped",
                );
                for entry in &dropped {
                    self.give_back(&[&*entry.raw], &error);
                }
                Ok(())
            }
            WhenFull::Wait => {
                let (admitted, answer) = mpsc::sync_channel(1);
                inner.queue.waiters.push_back(Waiter { entry, admitted });
                drop(inner);
                match answer.recv() {
                    Ok(true) => Ok(()),
                    _ => Err(Error::new(
                        code::CLOSED,
                        "the batcher was closed while the item waited for space in the queue",
                    )),
                }
            }
        }
    }

    /// Encodes an item and finds its key.
    fn entry<T: Serialize + ?Sized>(&self, item: &T) -> Result<Entry, Error> {
        let raw = encode(item)?;
        let text = raw.get();
        if !text.starts_with('{') {
            let kind = field::kind(text);
            let message = format!("an item must be an object; this is {kind} as JSON");
            return Err(Error::new(code::INVALID_PAYLOAD, message));
        }
        let field = self.options.field();
        let key = field.map(|field| field::key_of(&raw, field)).transpose()?;
        if text.len() + 2 > REQUEST_BYTES_MAX {
            let name = match &key {
                Some(key) => format!("the item {key:?}"),
                None => "the item".to_owned(),
            };
            let message = format!(
                "{name} takes {} bytes, but a request can have at most {REQUEST_BYTES_MAX} with its brackets",
                text.len()
            );
            return Err(Error::new(code::TOO_LARGE, message));
        }
        Ok(Entry {
            raw,
            key,
            seq: 0,
            at: Duration::ZERO,
        })
    }

    /// Lets no more items in.
    pub(crate) fn shut(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        for waiter in inner.queue.waiters.drain(..) {
            waiter.admitted.send(false).ok();
        }
    }

    /// Has everything that is there sent without waiting for more; the number of the newest item of it.
    pub(crate) fn hurry(&self, inner: &mut Inner) -> u64 {
        inner.flush_to = inner.last;
        self.wake(inner);
        inner.last
    }

    fn flush(&self, timeout: Duration) -> Flushed {
        // One that nothing ends may be longer than there are moments.
        let end = Instant::now().checked_add(timeout);
        let mut inner = self.lock();
        let target = self.hurry(&mut inner);
        while inner.is_open(target) && !self.ended.is_canceled() {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.unwrap_or(CHECK_EVERY);
            if left.is_zero() {
                break;
            }
            inner = match self.changed.wait_timeout(inner, left) {
                Ok((inner, _)) => inner,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        inner.flushed(target)
    }

    pub(crate) fn stats(&self) -> Stats {
        let inner = self.lock();
        let room = inner.hand.as_ref().map_or(0, |hand| hand.room);
        let counts = inner.counts;
        Stats {
            queued: inner.queued(),
            in_flight: inner.in_flight(),
            spooled: inner.files.len(),
            spooled_bytes: inner.used - room,
            accepted: counts.accepted,
            rejected: counts.rejected,
            dropped: counts.dropped,
            replaced: counts.replaced,
            retries: counts.retries,
            damaged: counts.damaged,
            forgotten: counts.forgotten,
            oldest: inner.oldest_at().map(|at| self.lived().saturating_sub(at)),
            state: inner.state,
            code: inner.code().map(str::to_owned),
        }
    }

    /// Stops if another program took the directory over. What is in memory is written by `close` all the same: what must
    /// not be lost does not depend on who owns the directory.
    fn check_owner(&self, spool: &Spool) {
        if spool.owner.holds() {
            return;
        }
        let folder = spool.folder.display();
        warn!("headgate: another program now uses the spool {folder}, so this batcher stops");
        self.lock().lost = true;
        self.shut();
        self.ended.cancel();
        let mut inner = self.lock();
        self.wake(&mut inner);
        drop(inner);
        if let Some(on_state) = &self.options.on_state {
            on_state(State::Blocked, Some(code::SPOOL_IN_USE));
        }
    }

    /// Does steps until the batcher ends, with a rest whenever there is nothing to do.
    fn run(&self, thread: usize, step: impl Fn() -> Duration) {
        while !self.ended.is_canceled() {
            let wait = step();
            if wait.is_zero() {
                continue;
            }
            let end = Instant::now() + wait;
            let mut inner = self.lock();
            while !inner.wake[thread] && !self.ended.is_canceled() {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                inner = match self.changed.wait_timeout(inner, left) {
                    Ok((inner, _)) => inner,
                    Err(poisoned) => poisoned.into_inner().0,
                };
            }
            inner.wake[thread] = false;
        }
    }
}

impl Inner {
    pub(crate) fn flushed(&self, target: u64) -> Flushed {
        let done = !self.is_open(target);
        let or_none = |count: usize| if done { 0 } else { count };
        Flushed {
            done,
            queued: or_none(self.queued()),
            in_flight: or_none(self.in_flight()),
            spooled: or_none(self.files.len()),
            state: self.state,
            code: self.code().map(str::to_owned),
        }
    }
}

fn send_thread(core: &Core) {
    core.run(0, || core.send_step());
}

fn write_thread(core: &Core) {
    if let Some(spool) = &core.spool {
        core.run(1, || core.write_step(spool));
    }
}

fn owner_thread(core: &Core) {
    let Some(spool) = &core.spool else {
        return;
    };
    let world = &core.shared.world;
    while world.sleep(CHECK_EVERY, &core.ended) {
        core.check_owner(spool);
    }
}
