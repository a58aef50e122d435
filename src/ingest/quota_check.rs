//! Whether a request may be stored: there is room in its stream, and its key has bytes left.
//!
//! **Invariant**: a stream that is full, with what is accepted and not settled, takes no new items; those that are there can
//! be updated, and removed, as long as its bytes do not grow. A request that comes before it is full is taken whole: by that
//! it may be passed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Ingest;
use super::request::Known;
use super::unsettled::{OfStream, Reserved, left_by};
use crate::error::AcceptError;
use base::order::Seq;
use catalog::IngestKey;
use item::Items;
use journal::{ReadRequest, StorageError};
use pool::{PoolError, Size};

/// What waits for room is to ask again after so long. Space comes from removals and not from time, so there is no exact
/// answer.
const RETRY_AFTER_SECONDS: u64 = 30;

/// So long a start looks through what is not settled, and so much of it at once, because no request is answered
/// meanwhile.
const COUNT_TIME: Duration = Duration::from_secs(10);
const COUNT_ITEMS: usize = 10_000;
const COUNT_BYTES: usize = 8 << 20;

/// What a request that may be stored takes until it is.
pub(super) struct Room {
    /// Bytes of its body, taken from what its key may have stored. It is returned if nothing is stored.
    pub(super) charged: u64,
    /// Its place in a stream that has a quota.
    pub(super) reserved: Option<Reserved>,
}

impl Room {
    /// Of what needs none.
    pub(super) const NONE: Room = Room {
        charged: 0,
        reserved: None,
    };
}

impl Ingest {
    /// Has what was accepted before the start and is not settled count in streams that have a quota. The sinks have their
    /// lanes by then, and no request has come. What cannot be looked through in ten seconds does not count. Returns the number
    /// of the last entry that was looked at.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn count_unsettled(&self) -> Result<Seq, StorageError> {
        let until = Instant::now() + COUNT_TIME;
        let newest = *self.journal.newest().borrow();
        let streams = self.limited_streams();
        let settled = streams
            .iter()
            .filter_map(|name| (self.settled_through)(name));
        if let Some(after) = settled.filter(|settled| *settled < newest).min() {
            self.count_after(after, newest, &streams, until).await?;
        }
        Ok(newest)
    }

    /// Has what any node has accepted after this entry count in streams that have a quota, and forgets what is settled. Returns
    /// the number of the last entry that was looked at. The daemon of a cluster calls it whenever there are entries, and each
    /// second. Otherwise a stream whose sink is behind could be filled without end on another node.
    ///
    /// # Errors
    /// The journal cannot be read: call it again.
    pub async fn count_elsewhere(&self, after: Seq) -> Result<Seq, StorageError> {
        let newest = *self.journal.newest().borrow();
        let streams = self.limited_streams();
        let counted = match streams.is_empty() {
            true => newest,
            false => {
                let until = Instant::now() + COUNT_TIME;
                self.count_after(after, newest, &streams, until).await?
            }
        };
        for (name, stream) in self.unsettled.streams() {
            self.settle(&name, &stream);
        }
        Ok(counted)
    }

    /// The streams that may hold only so much.
    fn limited_streams(&self) -> HashSet<Arc<str>> {
        let streams = self.catalog.streams();
        let limited = streams
            .iter()
            .filter(|stream| (stream.items_max, stream.bytes_max) != (None, None));
        limited.map(|stream| Arc::clone(&stream.name)).collect()
    }

    /// Forgets what is settled of a stream.
    fn settle(&self, name: &str, stream: &OfStream) {
        stream.settle((self.settled_through)(name).unwrap_or(Seq::MAX));
    }

    /// Counts the entries of these streams after this one that are not settled, up to `last`; returns how far it came.
    async fn count_after(
        &self,
        mut after: Seq,
        last: Seq,
        streams: &HashSet<Arc<str>>,
        until: Instant,
    ) -> Result<Seq, StorageError> {
        for name in streams {
            self.settle(name, &self.unsettled.of(name));
        }
        while after < last && Instant::now() < until {
            let request = ReadRequest {
                after,
                items_max: COUNT_ITEMS,
                bytes_max: COUNT_BYTES,
                wanted: &|stream, _| streams.contains(stream),
            };
            let taken = self.journal.read_after(request).await?;
            if taken.through <= after {
                break;
            }
            for entry in taken.entries {
                (self.unsettled.of(&entry.stream)).count(&entry.items, entry.seq);
            }
            after = taken.through;
            for (_, stream) in self.unsettled.streams() {
                stream.counted(after);
            }
        }
        Ok(after)
    }

    /// Whether there is room for a request. It is taken.
    pub(super) async fn make_room(
        &self,
        known: &Known<'_>,
        items: &Items,
        body: &[u8],
    ) -> Result<Room, AcceptError> {
        let reserved = self.check_size(known, items).await?;
        match charge(known, body) {
            Ok(charged) => Ok(Room { charged, reserved }),
            Err(over) => {
                let room = Room {
                    charged: 0,
                    reserved,
                };
                self.leave_room(room, &known.caller.key, false);
                Err(over)
            }
        }
    }

    /// The request is stored, or not: then what it took is given back.
    pub(super) fn leave_room(&self, room: Room, key: &IngestKey, is_stored: bool) {
        if let Some(reserved) = room.reserved {
            // Whoever has a receipt finds the entry counted.
            reserved.end(is_stored.then(|| *self.journal.newest().borrow()));
        }
        if !is_stored {
            key.volume.give_back(room.charged);
        }
    }

    /// Whether there is room for the items in their stream, with what is not settled there; their place if so. The
    /// data pool alone would let requests pass that come while its sink is behind.
    async fn check_size(
        &self,
        known: &Known<'_>,
        items: &Items,
    ) -> Result<Option<Reserved>, AcceptError> {
        let key = &known.caller.key;
        let rules = &key.rules;
        if (rules.items_max, rules.bytes_max) == (None, None)
            || known.caller.test
            || items.removals() == items.len()
        {
            return Ok(None);
        }
        let unsettled = self.unsettled.of(&key.stream);
        // Asked first: what is settled by then is in the pool when that is read.
        self.settle(&key.stream, &unsettled);
        let reserved = unsettled.reserve(items, *self.journal.newest().borrow());
        let over = self.limit_reached(key, &reserved, items).await;
        if matches!(over, Ok(None)) {
            return Ok(Some(reserved));
        }
        reserved.end(None);
        let over = over.map_err(|error| {
            tracing::error!(%error, "cannot read the data pool to check the limit of a full stream");
            AcceptError::Unavailable {
                reason: "the data pool cannot be read",
                retry_after_seconds: RETRY_AFTER_SECONDS,
            }
        })?;
        let Some((what, max, setting)) = over else {
            return Ok(None);
        };
        Err(match known.tries_again_after_429() {
            true => AcceptError::StreamFull {
                stream: Arc::clone(&key.stream),
                what,
                max,
                setting,
                retry_after_seconds: RETRY_AFTER_SECONDS,
            },
            false => AcceptError::Unavailable {
                reason: "the stream is full",
                retry_after_seconds: RETRY_AFTER_SECONDS,
            },
        })
    }

    /// The limit that leaves no room for the items: of what, how much, and the setting that says so. None: there is
    /// room. The pool is asked for the keys only near a limit, because a stream that is far from it must cost
    /// nothing.
    async fn limit_reached(
        &self,
        key: &IngestKey,
        reserved: &Reserved,
        items: &Items,
    ) -> Result<Option<(&'static str, u64, &'static str)>, PoolError> {
        let over = |size: Size| {
            let over = |used: u64, max: Option<u64>| max.filter(|max| used >= *max);
            let items = over(size.items, key.rules.items_max);
            (items, over(size.bytes, key.rules.bytes_max))
        };
        let (size, more) = (self.pool.sizes().of(&key.stream), reserved.others_at_most());
        let at_most = Size {
            items: size.items + more.items,
            bytes: size.bytes + more.bytes,
        };
        if over(at_most) == (None, None) {
            return Ok(None);
        }
        let waiting = reserved.before();
        let own: HashMap<&str, usize> = left_by(items.iter());
        let mut asked: Vec<&str> = own
            .keys()
            .copied()
            .chain(waiting.keys().map(|key| &**key))
            .collect();
        asked.sort_unstable();
        asked.dedup();
        let (mut size, held) = self.pool.held(&key.stream, &asked).await?;
        for (name, bytes) in &waiting {
            match held.get(&**name) {
                Some(before) => size.bytes = (size.bytes + *bytes as u64).saturating_sub(*before),
                None => {
                    size.items += 1;
                    size.bytes += (name.len() + bytes) as u64;
                }
            }
        }
        let (over_items, over_bytes) = over(size);
        let (what, max, setting) = match (over_items, over_bytes) {
            (Some(max), _) => ("items", max, "items_max"),
            (None, Some(max)) => ("bytes", max, "bytes_max"),
            (None, None) => return Ok(None),
        };
        let before = |name: &str| {
            let waits = waiting.get(name).map(|bytes| *bytes as u64);
            waits.or_else(|| held.get(name).copied())
        };
        let is_new = own.keys().any(|name| before(name).is_none());
        let bytes: u64 = own.values().map(|bytes| *bytes as u64).sum();
        let bytes_before: u64 = own.keys().filter_map(|name| before(name)).sum();
        let grows = over_bytes.is_some() && bytes > bytes_before;
        Ok((is_new || grows).then_some((what, max, setting)))
    }
}

/// Takes the bytes of a body that is about to be stored from what its key may; returns how many. Of a test key nothing is
/// stored.
fn charge(known: &Known<'_>, body: &[u8]) -> Result<u64, AcceptError> {
    let bytes = match known.caller.test {
        true => return Ok(0),
        false => body.len() as u64,
    };
    match (known.caller.key.volume).take(bytes, known.head.received_at) {
        Ok(()) => Ok(bytes),
        Err(over) if known.tries_again_after_429() => Err(AcceptError::OverVolume {
            bytes_max: over.bytes_max,
            per: over.per,
            retry_after_seconds: over.retry_after_seconds,
        }),
        Err(over) => Err(AcceptError::Unavailable {
            reason: "too many bytes with this key",
            retry_after_seconds: over.retry_after_seconds,
        }),
    }
}
