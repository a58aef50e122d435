//! The thread that sends: one batch after the other, each until Headgate has accepted or refused all of it.
//!
//! **Invariant**: one attempt at a time; before its first byte leaves, the file `.state` says that the outcome is unknown.

use std::time::Duration;

use serde_json::value::RawValue;
use tracing::warn;

use crate::client::Receipt;
use crate::error::{Error, code};
use crate::hand::{Hand, Mark, raws};
use crate::options::State;
use crate::request::submission;
use crate::state::{Core, FOREVER};
use crate::verdict::{Verdict, VerdictKind};

/// How long a batch is tried whose outcome is unknown. Headgate knows idempotency keys for 24 hours: what it may have
/// accepted must not come again after that.
const UNKNOWN_MAX: Duration = Duration::from_secs(23 * 3600);
/// How far the wall clock may be off before the time of a mark is written anew.
const CLOCK_JUMP: Duration = Duration::from_secs(60);
/// How short batches may become because something in between finds them too large.
const BYTES_MIN: usize = 4 << 10;
/// The pause before a file is tried again that could not be read or written.
pub(crate) const DISK_PAUSE: Duration = Duration::from_secs(1);

impl Core {
    /// Makes one attempt, if it is time. Returns how long there is nothing to do.
    pub(crate) fn send_step(&self) -> Duration {
        let (wait, hand) = {
            let inner = self.lock();
            (
                inner.not_before.saturating_sub(self.lived()),
                inner.hand.clone(),
            )
        };
        if !wait.is_zero() {
            return wait;
        }
        let hand = match hand.map_or_else(|| self.take(), Ok) {
            Ok(hand) => hand,
            Err(wait) => return wait,
        };
        self.attempt(hand);
        Duration::ZERO
    }

    /// Takes the next batch in hand: from its file, from memory if the disk does not take it, or from the queue.
    fn take(&self) -> Result<Hand, Duration> {
        let mut inner = self.lock();
        let taken = match &self.spool {
            Some(spool) if !inner.files.is_empty() => {
                drop(inner);
                return self.open_next(spool);
            }
            Some(_) => {
                let refused = inner.unwritten.as_ref().filter(|next| next.refused);
                refused.map(|next| next.batch.clone()).ok_or(FOREVER)
            }
            None => self.cut(&mut inner),
        };
        let hand = Hand::new(taken?, 0);
        inner.hand = Some(hand.clone());
        self.admit(&mut inner);
        self.changed.notify_all();
        Ok(hand)
    }

    /// Sends what is next of the batch in hand, and does what follows.
    fn attempt(&self, mut hand: Hand) {
        let world = &self.shared.world;
        let is_expired = |mark: &Mark| mark.age(world.lived()) >= UNKNOWN_MAX;
        if hand.mark.as_ref().is_some_and(is_expired) {
            let message = "for 23 hours it was unknown whether Headgate had accepted this, and it would not know any more; \
                           look for it there before you send it again";
            return self.set_aside(&hand, &Error::new(code::EXPIRED, message));
        }
        let batch = &hand.batch;
        let call = submission(
            hand.body(),
            &hand.part_key(),
            batch.item_key.as_deref(),
            batch.stream.as_deref().or(self.options.stream.as_deref()),
        );
        let call = match call {
            Ok(call) => call,
            // Options and files were checked before.
            Err(error) => return self.set_aside(&hand, &error),
        };
        let key = self.shared.key();
        let is_new = self.mark(&mut hand);
        let reply = self.shared.attempt(&call, &key, &self.ended);
        let verdict = Verdict::of(reply, Some(hand.part().len()), world.now());
        if is_new && !verdict.unknown {
            hand.mark = None;
            self.hold(&hand);
        }
        if self.ended.is_canceled() && verdict.kind == VerdictKind::Retrying {
            return self.save(&hand); // the end of the batcher: whether bytes left is on disk
        }
        if verdict.kind == VerdictKind::Blocked && self.shared.key().number != key.number {
            return self.save(&hand); // about the key before: it says nothing
        }
        self.follow(&mut hand, &verdict, call.body.len());
        self.pause(&verdict);
    }

    /// Does what a verdict asks for.
    fn follow(&self, hand: &mut Hand, verdict: &Verdict, bytes: usize) {
        match (&verdict.result, verdict.kind) {
            (Ok(receipt), _) => self.accept(hand, receipt),
            (Err(error), VerdictKind::Refused) => {
                self.turn(State::Ok, None);
                match hand.cut(Some(error)) {
                    true => self.keep(hand),
                    false => self.set_aside(hand, error),
                }
            }
            (Err(error), VerdictKind::Blocked) => {
                self.save(hand);
                self.fail(State::Blocked, error);
            }
            (Err(error), VerdictKind::Retrying) => {
                if verdict.shrink && hand.mark.is_none() && hand.cut(None) {
                    let mut inner = self.lock();
                    inner.bytes_max = inner.bytes_max.min((bytes / 2).max(BYTES_MIN));
                    drop(inner);
                    self.keep(hand);
                } else {
                    self.save(hand);
                }
                self.fail(State::Retrying, error);
            }
            (Err(error), VerdictKind::Mismatch | VerdictKind::Accepted) => {
                self.turn(State::Ok, None);
                self.set_aside(hand, error);
            }
        }
    }

    fn accept(&self, hand: &Hand, receipt: &Receipt) {
        self.lock().stream = Some(receipt.stream.clone());
        self.turn(State::Ok, None);
        if let Some(on_accepted) = &self.options.on_accepted {
            on_accepted(receipt, &raws(hand.part()));
        }
        self.settle(hand, true);
    }

    /// Sets when the next attempt may be, and counts failures.
    fn pause(&self, verdict: &Verdict) {
        let mut inner = self.lock();
        if matches!(verdict.kind, VerdictKind::Blocked | VerdictKind::Retrying) {
            inner.failures += 1;
            inner.counts.retries += 1;
        } else {
            inner.failures = 0;
        }
        let random = self.shared.world.random();
        let pause = verdict.pause(&self.shared.backoff, inner.failures, random);
        if !pause.is_zero() {
            inner.not_before = inner.not_before.max(self.lived() + pause);
        }
    }

    /// Ends a pause: the key is another one.
    pub(crate) fn try_now(&self) {
        let mut inner = self.lock();
        (inner.not_before, inner.failures) = (Duration::ZERO, 0);
        self.wake(&mut inner);
    }

    /// Says on disk, before bytes leave, that the outcome is unknown. True if that was not so before.
    fn mark(&self, hand: &mut Hand) -> bool {
        let (now, lived) = (self.shared.world.now(), self.lived());
        let Some(mark) = &mut hand.mark else {
            hand.mark = Some(Mark {
                since: now,
                at: lived,
                age: Duration::ZERO,
            });
            self.keep(hand);
            return true;
        };
        // The time that passed is what counts: a clock that jumped must not make a batch old, or young, after a crash.
        let age = mark.age(lived);
        if now.abs_diff(mark.since + age) > CLOCK_JUMP {
            mark.since = now.saturating_sub(age);
            self.keep(hand);
        }
        false
    }

    /// Replaces what is known of the batch in hand. Who wrote its file meanwhile knows its room.
    fn hold(&self, hand: &Hand) {
        let mut inner = self.lock();
        if let Some(held) = &mut inner.hand {
            let room = held.room;
            *held = Hand {
                room,
                ..hand.clone()
            };
        }
    }

    fn keep(&self, hand: &Hand) {
        self.hold(hand);
        self.save(hand);
    }

    /// Writes what is known of the batch in hand. That this cannot be written matters only if a crash comes next.
    fn save(&self, hand: &Hand) {
        let Some(spool) = &self.spool else {
            return;
        };
        if let Err(error) = spool.save(hand) {
            let folder = spool.folder.display();
            warn!(
                "headgate: cannot write the state of the current batch to the spool {folder}: {error}"
            );
        }
    }

    /// Gives up what is next, for one of three reasons: Headgate refused it, knows its key with other content, or may have
    /// accepted it too long ago. A spool keeps it.
    fn set_aside(&self, hand: &Hand, error: &Error) {
        if let Some(spool) = &self.spool {
            match spool.reject(hand, error) {
                Ok(forgotten) => self.forgot(forgotten),
                Err(problem) if !is_kept(&error.code) && !self.is_drained => {
                    warn!("headgate: cannot keep rejected items in the spool: {problem}");
                }
                Err(problem) => {
                    self.disk_takes(Err(format!("cannot keep rejected items: {problem}")));
                    let not_before = self.lived() + DISK_PAUSE;
                    self.lock().not_before = not_before;
                    return;
                }
            }
        }
        self.give_back(&raws(hand.part()), error);
        self.settle(hand, false);
    }

    /// Counts files of rejected items that had to go.
    fn forgot(&self, files: u64) {
        if files == 0 {
            return;
        }
        let mut inner = self.lock();
        let is_first = inner.counts.forgotten == 0;
        inner.counts.forgotten += files;
        drop(inner);
        if is_first {
            warn!(
                "headgate: rejected items fill the spool, so the oldest of them are deleted; later deletions are not logged"
            );
        }
    }

    /// Takes what is next out of the batch in hand, and the batch out of the queue with its last part.
    fn settle(&self, hand: &Hand, is_accepted: bool) {
        let count = hand.part().len() as u64;
        let mut inner = self.lock();
        match is_accepted {
            true => inner.counts.accepted += count,
            false => inner.counts.rejected += count,
        }
        let mut rest = hand.clone();
        rest.parts.remove(0);
        rest.mark = None;
        if !rest.parts.is_empty() {
            self.changed.notify_all();
            drop(inner);
            return self.keep(&rest);
        }
        let room = inner.hand.as_ref().map_or(0, |held| held.room);
        if let Some(spool) = self.spool.as_ref().filter(|_| room > 0) {
            spool.remove(&hand.batch.key);
        }
        inner.used -= room;
        if inner.is_unwritten(&hand.batch) {
            inner.unwritten = None;
        }
        inner.hand = None;
        if self.spool.is_none() {
            inner.flush_to = inner.flush_to.max(inner.last); // what gathered goes at once
        }
        self.admit(&mut inner);
        self.wake(&mut inner);
    }

    /// Reports another state, or another reason to be blocked, and logs when all is well again.
    fn turn(&self, state: State, error: Option<&Error>) {
        let code = error.map(|error| error.code.as_str());
        let mut inner = self.lock();
        let was = inner.state;
        let is_another = was != state || state == State::Blocked && inner.code() != code;
        (inner.state, inner.error) = (state, error.cloned());
        drop(inner);
        if was != State::Ok && state == State::Ok {
            warn!("headgate: requests are accepted again");
        }
        if let Some(on_state) = self.options.on_state.as_ref().filter(|_| is_another) {
            on_state(state, code);
        }
    }

    fn fail(&self, state: State, error: &Error) {
        let inner = self.lock();
        let is_other = inner.state != State::Blocked || inner.code() != Some(error.code.as_str());
        let is_first = inner.state == State::Ok || state == State::Blocked && is_other;
        drop(inner);
        if is_first && state == State::Blocked {
            warn!(
                "headgate: the requests are rejected; the items are kept, and a new key is tried immediately: {error}"
            );
        } else if is_first {
            warn!("headgate: a request failed, retrying: {error}");
        }
        self.turn(state, Some(error));
    }

    /// Gives items back to the program. Called without the lock.
    pub(crate) fn give_back(&self, items: &[&RawValue], error: &Error) {
        let was_losing = std::mem::replace(&mut self.lock().is_losing, true);
        if !was_losing {
            let count = items.len();
            warn!("headgate: {count} items were not accepted; later ones are not logged: {error}");
        }
        if let Some(on_rejected) = &self.options.on_rejected {
            on_rejected(items, error);
        }
    }

    /// Ends: what cannot be left in files is given back, batch by batch.
    pub(crate) fn end(&self) {
        let message = "the batcher was closed before a response; the request in flight may have been accepted";
        let closed = Error::new(code::CLOSED, message);
        let mut lost: Vec<Hand> = Vec::new();
        let mut inner = self.lock();
        inner.closed = true;
        if let Some(spool) = &self.spool {
            lost = self.keep_all(&mut inner, spool);
        } else {
            lost.extend(inner.hand.take());
            while let Ok(batch) = self.cut(&mut inner) {
                lost.push(Hand::new(batch, 0));
            }
        }
        (inner.hand, inner.unwritten) = (None, None);
        inner.counts.rejected += lost.iter().map(Hand::left).sum::<usize>() as u64;
        self.changed.notify_all();
        drop(inner);
        for hand in lost {
            self.give_back(&hand.rest(), &closed);
        }
    }
}

/// It is not known, or not true, that Headgate refused the items: they are never deleted.
pub(crate) fn is_kept(code: &str) -> bool {
    code == code::EXPIRED || code == code::MISMATCH
}
