//! The files of a batcher: batches are written when they are cut, and read when their turn comes.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use crate::deliver::DISK_PAUSE;
use crate::error::code;
use crate::hand::{Batch, Hand};
use crate::options::State;
use crate::spool::{ReadError, Spool};
use crate::state::{Core, Inner, SpooledFile, Unwritten};

impl Core {
    /// Reads the first file. Without a batch in it, returns how long there is nothing to do.
    pub(crate) fn open_next(&self, spool: &Spool) -> Result<Hand, Duration> {
        let (name, first) = match self.lock().files.front() {
            Some(file) => (file.name.clone(), file.first),
            None => return Err(Duration::ZERO),
        };
        let read = spool.read(&name, first, self.lived());
        let mut inner = self.lock();
        let room = inner.files.front().map_or(0, |file| file.room);
        let path = spool.folder.join(&name);
        match read {
            Ok(batch) if !batch.entries.is_empty() => {
                let mut hand = Hand::new(Arc::new(batch), room);
                spool.resume(&mut hand, &*self.shared.world);
                if !hand.parts.is_empty() {
                    inner.files.pop_front();
                    inner.hand = Some(hand.clone());
                    self.admit(&mut inner);
                    self.changed.notify_all();
                    return Ok(hand);
                }
                // A crash came between the last part and the end of its file.
                drop(std::fs::remove_file(path));
            }
            Ok(_) => drop(std::fs::remove_file(path)),
            Err(ReadError::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.is_of_file() => {
                let aside = spool.folder.join(format!("{name}.damaged"));
                inner.counts.damaged += u64::from(std::fs::rename(&path, aside).is_ok());
                let path = path.display();
                warn!(
                    "headgate: {path} is not a valid batch, or cannot be opened; renamed to .damaged: {error}"
                );
            }
            Err(error) => {
                inner.not_before = self.lived() + DISK_PAUSE;
                drop(inner);
                self.disk_takes(Err(error.to_string()));
                return Err(DISK_PAUSE);
            }
        }
        inner.files.pop_front();
        inner.used -= room;
        self.admit(&mut inner);
        self.wake(&mut inner);
        Err(Duration::ZERO)
    }

    /// Cuts and writes a batch, if it is time. Returns how long there is nothing to do.
    pub(crate) fn write_step(&self, spool: &Spool) -> Duration {
        let batch = {
            let mut inner = self.lock();
            if inner.unwritten.is_none() {
                match self.cut(&mut inner) {
                    Ok(batch) => inner.unwritten = Some(Unwritten::new(batch)),
                    Err(wait) => return wait,
                }
            }
            let Some(next) = &inner.unwritten else {
                return Duration::ZERO;
            };
            let wait = next.again.saturating_sub(self.lived());
            if !wait.is_zero() {
                return wait;
            }
            next.batch.clone()
        };
        match spool.write(&batch, &*self.shared.world) {
            Ok(room) => {
                self.written(&batch, room, spool);
                self.disk_takes(Ok(()));
            }
            Err(error) => {
                let mut inner = self.lock();
                if let Some(next) = &mut inner.unwritten {
                    (next.refused, next.again) = (true, self.lived() + DISK_PAUSE);
                }
                self.wake(&mut inner);
                drop(inner);
                let problem = format!("cannot write a batch, keeping it in memory: {error}");
                self.disk_takes(Err(problem));
            }
        }
        Duration::ZERO
    }

    /// Forgets the items of a batch that has a file, but for one that is being sent.
    fn written(&self, batch: &Arc<Batch>, room: u64, spool: &Spool) {
        let mut inner = self.lock();
        if !inner.is_unwritten(batch) {
            spool.remove(&batch.key); // it was sent meanwhile
            return;
        }
        if inner.holds(batch) {
            if let Some(hand) = &mut inner.hand {
                hand.room = room;
            }
        } else {
            inner.files.push_back(SpooledFile::of(batch, room));
        }
        inner.unwritten = None;
        inner.used += room;
        self.admit(&mut inner);
        self.wake(&mut inner);
    }

    /// Reports when the disk takes nothing any more, and when it does again.
    pub(crate) fn disk_takes(&self, result: Result<(), String>) {
        let fails = result.is_err();
        if std::mem::replace(&mut self.lock().disk_fails, fails) == fails {
            return;
        }
        let state = match result {
            Ok(()) => State::Ok,
            Err(problem) => {
                warn!("headgate: the spool fails, retrying: {problem}");
                State::Retrying
            }
        };
        if let Some(on_state) = &self.options.on_state {
            on_state(state, Some(code::SPOOL));
        }
    }

    /// Leaves everything in files; what cannot be written is returned.
    pub(crate) fn keep_all(&self, inner: &mut Inner, spool: &Spool) -> Vec<Hand> {
        let mut lost = Vec::new();
        if let Some(hand) = inner.hand.take_if(|hand| hand.room > 0) {
            let file = SpooledFile::of(&hand.batch, hand.room);
            inner.files.push_front(file);
        }
        loop {
            let batch = match inner.unwritten.take() {
                Some(next) => next.batch,
                None => match self.cut(inner) {
                    Ok(batch) => batch,
                    Err(_) => break,
                },
            };
            match spool.write(&batch, &*self.shared.world) {
                Ok(room) => {
                    inner.files.push_back(SpooledFile::of(&batch, room));
                    inner.used += room;
                }
                Err(_) if inner.holds(&batch) => lost.extend(inner.hand.take()),
                Err(_) => lost.push(Hand::new(batch, 0)),
            }
            inner.hand = None;
        }
        spool.leave();
        lost
    }
}

impl Unwritten {
    fn new(batch: Arc<Batch>) -> Self {
        Self {
            batch,
            refused: false,
            again: Duration::ZERO,
        }
    }
}

impl SpooledFile {
    fn of(batch: &Batch, room: u64) -> Self {
        Self {
            name: format!("{}.json", batch.key),
            room,
            first: batch.first,
        }
    }
}

/// What lies in a directory, in order: names are all that is read of it.
pub(crate) fn list(spool: &Spool) -> std::io::Result<(VecDeque<SpooledFile>, u64)> {
    let mut files = VecDeque::new();
    let mut used = 0;
    for (first, (name, room)) in (1..).zip(spool.names()?) {
        used += room;
        files.push_back(SpooledFile { name, room, first });
    }
    Ok((files, used))
}
