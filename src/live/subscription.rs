//! The position of one renderer in the sequence of changes.
//!
//! A subscription holds a position for each of its streams and nothing else that grows. Unsent changes stay in the
//! pool's memory or file, where newer values replace older ones. Without a usable position, a stream begins with a
//! snapshot: all its items in the order of their keys, a page at a time. Then follows what changed since the snapshot
//! began, as ordinary changes. So the snapshot ends, however often the stream changes.
//!
//! **Invariant**: [`Subscription::next`] can be dropped at any await and called again: no message is lost and none is
//! sent twice.

mod ages;
mod look;
mod seen;
mod snapshot;

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::frame::Frame;
use super::view::{Inside, View};
use super::{Live, Permit, RATE_MAX, Renderer, Subscribe};
use ages::Age;
use base::clock::{self, Unix};
use base::order::{ChangeSeq, Epoch};
use catalog::Reader;
use look::Look;
use pool::changes::{Change, Listener};
use pool::{Page, PageLimit, PoolError, Position};
use snapshot::Snapshot;

/// Approximate bytes of items in a message. It is bounded, because it is what a slow renderer holds in memory.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Maximum size of one read from the pool.
const PAGE: PageLimit = PageLimit {
    rows: 1_000,
    bytes: MESSAGE_BYTES_MAX,
};
/// Why a client receives everything again that was behind for too long.
const NOT_STORED: &str =
    "the changes since the client's position are no longer stored; all items follow";
/// Why every client does, of a cluster.
const LOST: &str = "the database of the cluster may have lost changes; all items follow";
/// How long to wait after a failed read of the pool.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Progress of one stream.
#[derive(Debug)]
struct Following {
    stream: Arc<str>,
    /// Every change up to here was sent.
    position: ChangeSeq,
    /// During a snapshot: its progress.
    snapshot: Option<Snapshot>,
    /// The view of the stream; `None`: all items and fields.
    view: Option<Arc<View>>,
    /// The keys that the client may hold, for streams where an item can begin or cease to match.
    inside: Option<Inside>,
    /// While the earlier state of a resumed client is looked up: progress of the lookup.
    recalled: Option<Recalled>,
    /// Watches the age of the data, for streams with a limit.
    age: Option<Age>,
}

/// Progress of looking up what a resumed client may hold.
#[derive(Debug, Clone)]
enum Recalled {
    /// Items up to this key were looked at.
    Items(Option<String>),
    /// All items were, and what changed up to here.
    Changes(ChangeSeq),
}

/// Follows streams for one renderer, until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    live: Arc<Live>,
    reader: Arc<Reader>,
    renderer: Arc<Renderer>,
    listener: Listener,
    /// What its positions begin with.
    epoch: Epoch,
    streams: Vec<Following>,
    /// The key's limits at the last check.
    stale_after: Arc<HashMap<Arc<str>, u64>>,
    /// Messages that are ready and not fetched yet.
    outbox: VecDeque<Frame>,
    /// Of the last fetched message, if traces are collected: its streams and their positions. They are reported with
    /// the next request, because only then the connection has sent it.
    traced: Vec<(Arc<str>, ChangeSeq)>,
    /// The renderer resumed and has not received yet that it is up to date.
    resumed: bool,
    /// There can be changes since the last flush.
    pending: bool,
    /// The current flush includes every change up to here.
    flushing: Option<ChangeSeq>,
    flush_pause: Duration,
    next_flush: Instant,
    next_heartbeat: Instant,
    /// The timer of the last wait. It is kept because most waits have the same deadline, the next heartbeat.
    alarm: Pin<Box<Sleep>>,
    /// It received that its earlier items are invalid.
    is_reset: bool,
    ended: bool,
    _permit: Permit,
}

impl Subscription {
    pub(super) fn new(
        live: Arc<Live>,
        request: Subscribe,
        listener: Listener,
        renderer: Arc<Renderer>,
    ) -> Self {
        let head = live.position();
        let resume = resume_from(&live, &request);
        // Number 0 is the position of a renderer before its first snapshot is complete.
        let afresh = resume.is_none_or(|since| since.seq == ChangeSeq::MIN);
        let mut outbox = VecDeque::new();
        if request.since.is_some() && resume.is_none() {
            let nowhere = Position {
                seq: ChangeSeq::MIN,
                epoch: request.reader.epoch(head.epoch),
            };
            let reason = "cannot resume from the requested position; all items follow";
            outbox.push_back(Frame::reset(nowhere, reason));
            live.metrics.live_resets.inc();
        }
        let stale_after = live.stale_after();
        let streams = request.streams.into_iter().map(|stream| {
            let view = live.views().of(&stream, &request.filter);
            let age = stale_after.get(&stream).map(|seconds| Age::new(*seconds));
            let following = Following::new(stream, view, age);
            match resume.filter(|_| !afresh) {
                Some(since) => following.resumed(since.seq),
                None => following.afresh(head.seq),
            }
        });
        let streams = streams.collect();
        let rate = request.max_rate.unwrap_or(live.max_rate).clamp(1, RATE_MAX);
        let now = Instant::now();
        Self {
            epoch: head.epoch,
            streams,
            stale_after,
            reader: request.reader,
            renderer,
            listener,
            outbox,
            traced: Vec::new(),
            resumed: !afresh,
            pending: true,
            flushing: None,
            flush_pause: Duration::from_secs(1) / rate,
            next_flush: now,
            next_heartbeat: now + live.heartbeat,
            alarm: Box::pin(sleep_until(now + live.heartbeat)),
            is_reset: false,
            ended: false,
            _permit: request.permit,
            live,
        }
    }

    /// Returns the next message, as soon as there is one; `None` after the last.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if self.ended {
                return None;
            }
            if self.live.is_stopping() || !self.is_allowed() {
                if self.reader.is_superseded() && !std::mem::replace(&mut self.is_reset, true) {
                    // Unsent messages belong to the old limits.
                    self.outbox.clear();
                    let reason = "the limits of the read key have changed; all items follow";
                    return Some(self.reset(reason));
                }
                self.ended = true;
                return Some(Frame::bye());
            }
            let epoch = self.live.pool.epoch();
            if std::mem::replace(&mut self.epoch, epoch) != epoch {
                self.begin_anew(LOST);
            }
            if !self.traced.is_empty() && self.outbox.is_empty() {
                // The connection has sent the message and requests the next one.
                for (stream, through) in self.traced.drain(..) {
                    self.live.tracer.pushed(&stream, through);
                }
            }
            if let Some(frame) = self.fetch() {
                return Some(frame);
            }
            // After the messages that its position counts as sent.
            if self.renderer.reload.swap(false, Ordering::AcqRel) {
                return Some(Frame::control(self.position(), "reload"));
            }
            match self.collect().await {
                Ok(()) => match self.fetch() {
                    Some(frame) => return Some(frame),
                    None if self.is_busy() => {}
                    None => self.wait().await,
                },
                Err(error) => {
                    tracing::warn!(renderer = self.renderer.id, %error, "cannot read the data pool, retrying");
                    tokio::time::sleep(READ_AGAIN).await;
                }
            }
        }
    }

    /// Whether the key still lets the client follow. Most keys have no end, so the clock is not read for each message.
    fn is_allowed(&self) -> bool {
        let now = self.reader.expires_at.map_or(Unix::MIN, |_| Unix::now());
        self.reader.is_valid_at(now)
    }

    fn fetch(&mut self) -> Option<Frame> {
        let frame = self.outbox.pop_front()?;
        self.live.metrics.live_messages.inc();
        Some(frame)
    }

    /// Whether there are changes to check, even if none of them is for the client.
    fn is_busy(&self) -> bool {
        let looks = |one: &Following| one.snapshot.is_some() || one.recalled.is_some();
        self.flushing.is_some() || self.streams.iter().any(looks)
    }

    /// Adds the next messages to the outbox, if there are any. A heartbeat that is due goes before lookups and changes,
    /// because both may have nothing for the client for long.
    async fn collect(&mut self) -> Result<(), PoolError> {
        let snapshot = |following: &Following| following.snapshot.is_some();
        if let Some(at) = self.streams.iter().position(snapshot) {
            return self.snapshot(at).await;
        }
        let now = Instant::now();
        if now >= self.next_heartbeat {
            self.skip_foreign();
            self.push_heartbeat();
            return Ok(());
        }
        if let Some(at) = self.streams.iter().position(|one| one.recalled.is_some()) {
            return self.recall(at).await;
        }
        if self.flushing.is_none() && self.pending && now >= self.next_flush {
            self.pending = false;
            self.flushing = Some(self.live.pool.changes().head());
        }
        if let Some(through) = self.flushing {
            self.flush(through).await?;
        }
        // The age of the data is known only after all data was sent.
        if self.flushing.is_none() && !self.pending && self.outbox.is_empty() {
            self.look_at_ages().await?;
        }
        Ok(())
    }

    /// Adds the next changes of one stream. Ends the flush if no stream has more.
    async fn flush(&mut self, through: ChangeSeq) -> Result<(), PoolError> {
        match self.look(through) {
            Look::Nothing => {}
            Look::Changes {
                at,
                changes,
                is_all,
                head,
            } => {
                self.push_changes(at, &changes);
                if !is_all {
                    return Ok(());
                }
                let following = &mut self.streams[at];
                following.position = following.position.max(head);
            }
            Look::Behind(at) => {
                let page = self.read_from(at, self.streams[at].position).await?;
                if !page.is_whole {
                    self.begin_anew(NOT_STORED);
                    return Ok(());
                }
                let changes: Vec<Arc<Change>> = page.changes.into_iter().map(Arc::new).collect();
                self.push_changes(at, &changes);
                self.streams[at].position = page.through;
                return Ok(());
            }
        }
        self.flushing = None;
        self.next_flush = Instant::now() + self.flush_pause;
        let position = self.position();
        self.renderer
            .position
            .store(position.seq.get(), Ordering::Relaxed);
        if std::mem::take(&mut self.resumed) {
            self.push_heartbeat();
        }
        Ok(())
    }

    /// Reads a page of the changes of one stream from the file.
    async fn read_from(&self, at: usize, position: ChangeSeq) -> Result<Page, PoolError> {
        let _turn = self.live.turn_to_read().await;
        let following = &self.streams[at];
        let pool = &self.live.pool;
        pool.changed_after(&following.stream, following.keys(), position, PAGE)
            .await
    }

    fn push_changes(&mut self, at: usize, changes: &[Arc<Change>]) {
        if self.streams[at].view.is_some() {
            return self.push_seen(at, changes);
        }
        let stream = Arc::clone(&self.streams[at].stream);
        for run in changes.chunk_by(|a, b| a.removed == b.removed) {
            let Some(last) = run.last() else { continue };
            self.streams[at].position = last.seq;
            let id = self.position();
            let frame = self.live.recent().frame(&stream, id, run);
            self.outbox.extend(frame);
            if self.live.tracer.is_on() {
                self.traced.push((Arc::clone(&stream), last.seq));
            }
        }
    }

    fn reset(&self, reason: &str) -> Frame {
        self.live.metrics.live_resets.inc();
        Frame::reset(self.nowhere(), reason)
    }

    /// The position from which a client receives everything.
    fn nowhere(&self) -> Position {
        Position {
            seq: ChangeSeq::MIN,
            ..self.position()
        }
    }

    fn push_heartbeat(&mut self) {
        let time = clock::rfc3339(Unix::now());
        let is_stale = self.live.cut_from_others.load(Ordering::Relaxed);
        let frame = Frame::heartbeat(self.position(), &time, is_stale);
        self.outbox.push_back(frame);
        self.next_heartbeat = Instant::now() + self.live.heartbeat;
    }

    /// Waits until there may be something to send.
    async fn wait(&mut self) {
        let stale_at = self.streams.iter().filter_map(|following| {
            let age = following.age.as_ref().filter(|age| !age.is_reported)?;
            age.stale_at()
        });
        let mut wake = self.next_heartbeat;
        if let Some(wake_at) = stale_at.chain(self.reader.expires_at).min() {
            wake = wake.min(Instant::now() + (wake_at - Unix::now()));
        }
        if self.pending {
            wake = wake.min(self.next_flush);
        }
        if self.alarm.deadline() != wake {
            self.alarm.as_mut().reset(wake);
        }
        tokio::select! {
            biased;
            () = self.listener.wakeup.woken() => self.pending = true,
            () = &mut self.alarm => {}
        }
    }

    /// The position to resume from after all sent messages. It is the lowest of all streams, so that a client that
    /// resumes misses nothing in any of them.
    fn position(&self) -> Position {
        let incomplete = |following: &Following| following.snapshot.is_some();
        let lowest = self.streams.iter().map(|following| following.position);
        let seq = match self.streams.iter().any(incomplete) {
            true => ChangeSeq::MIN,
            false => lowest.min().unwrap_or_default(),
        };
        Position {
            seq,
            epoch: self.reader.epoch(self.live.pool.epoch()),
        }
    }
}

/// The position from which a client can resume. A client whose key hides items begins again, because removals would
/// reveal the keys of hidden items.
fn resume_from(live: &Live, request: &Subscribe) -> Option<Position> {
    let since = Position::parse(request.since.as_deref()?)?;
    let since = Position {
        epoch: request.reader.epoch(since.epoch),
        ..since
    };
    // Removals of items that the limits hide would reveal their keys.
    let may_go_on = since.seq == ChangeSeq::MIN || !request.filter.hides();
    (may_go_on && live.pool.resumes_from(since)).then_some(since)
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.live.leave(&self.renderer);
    }
}
