//! Limits the memory of pages that are being sent, and streams them to clients.
//!
//! **Invariant**: memory for a page is reserved before the page is built, and freed when the connection has taken its
//! last piece. If no memory is free, a request waits behind the requests of the same key.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use salvo_core::http::ResBody;
use salvo_core::{BoxedError, Response};

use crate::error::ApiError;
use ::live::{Live, Room};
use catalog::Reader;

/// Bytes per piece that the connection receives. Memory is freed piece by piece, so that a slow client holds less and
/// less of it.
const PIECE_BYTES: usize = 64 << 10;
/// Maximum time that a request waits for memory.
const TURN_TIME_MAX: Duration = Duration::from_secs(10);
const BUSY: &str = "the limit of bytes of pages in progress is reached; retry with fewer items per page, or raise live.max_page_bytes_per_key";

/// Waits for the memory of a page.
pub async fn room(live: &Live, reader: &Reader, bytes: usize) -> Result<Room, ApiError> {
    let room = tokio::time::timeout(TURN_TIME_MAX, live.pages().room(reader, bytes)).await;
    room.ok().flatten().ok_or_else(|| ApiError::busy(BUSY))
}

/// A page that is being sent in pieces.
struct Pieces {
    rest: Bytes,
    _room: Room,
}

/// Sends the page of the response in pieces, and frees unused memory.
pub fn in_pieces(res: &mut Response, mut room: Room) {
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
