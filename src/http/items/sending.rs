//! Pages that are being sent: how much of them there may be at once, and how they go out.
//!
//! **Invariant**: a page has room before it is made, and gives it back when its last piece is with the connection. Who
//! finds none waits for its turn, behind those of the same key.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use salvo_core::http::ResBody;
use salvo_core::{BoxedError, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::catalog::Reader;
use crate::http::error::ApiError;

/// What is handed to the connection at once.
const PIECE_BYTES: usize = 64 << 10;
/// What permits count.
const UNIT_BYTES: usize = 1 << 10;
/// How long a request waits for its turn.
const TURN_TIME_MAX: Duration = Duration::from_secs(10);
const BUSY: &str = "as many pages are being sent as may be at once; ask again, for fewer items at once, or raise live.max_page_bytes_per_key";

/// The room for all pages.
#[derive(Debug)]
pub(crate) struct Sending {
    all: Arc<Semaphore>,
    each_units: usize,
    /// By the name of a read key.
    keys: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
}

/// Room that a page has.
#[derive(Debug)]
pub(super) struct Room {
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

impl Sending {
    pub(crate) fn new(bytes_max: usize, key_bytes_max: usize) -> Self {
        let units = |bytes: usize| (bytes / UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Self {
            all: Arc::new(Semaphore::new(units(bytes_max))),
            each_units: units(key_bytes_max.min(bytes_max)),
            keys: Mutex::default(),
        }
    }

    /// Room for a page of so many bytes, as soon as there is; of more than a key may have: all of it.
    pub(super) async fn room(&self, reader: &Reader, bytes: usize) -> Result<Room, ApiError> {
        let units = bytes.div_ceil(UNIT_BYTES).min(self.each_units);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let own = {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            match keys.get(&reader.name) {
                Some(own) => Arc::clone(own),
                None => {
                    let own = Arc::new(Semaphore::new(self.each_units));
                    keys.insert(reader.name.clone(), Arc::clone(&own));
                    own
                }
            }
        };
        let both = async {
            let own = own.acquire_many_owned(units).await.ok()?;
            let all = Arc::clone(&self.all).acquire_many_owned(units).await.ok()?;
            Some(Room { own, all })
        };
        let room = tokio::time::timeout(TURN_TIME_MAX, both).await;
        room.ok().flatten().ok_or_else(|| ApiError::busy(BUSY))
    }
}

impl Room {
    /// Gives back what a page does not need.
    fn shrink_to(&mut self, bytes: usize) {
        let units = bytes.div_ceil(UNIT_BYTES);
        for permit in [&mut self.own, &mut self.all] {
            let more = permit.num_permits().saturating_sub(units);
            drop(permit.split(more));
        }
    }
}

/// A page on its way, in pieces.
struct Pieces {
    rest: Bytes,
    _room: Room,
}

/// Has the page that is answered go out in pieces, with the room that it needs.
pub(super) fn in_pieces(res: &mut Response, mut room: Room) {
    match res.take_body() {
        ResBody::Once(page) => {
            room.shrink_to(page.len());
            let pieces = Pieces {
                rest: page,
                _room: room,
            };
            res.replace_body(ResBody::Boxed(Box::pin(pieces)));
        }
        other => drop(res.replace_body(other)),
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = BoxedError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxedError>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let piece = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
