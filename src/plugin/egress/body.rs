//! Bodies of requests and responses, with their limits.
//!
//! **Invariant**: no body is longer than its limit, and a response ends at its deadline whether it was read or not.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until};
use wasmtime_wasi_http::{Error, WasiBody};

/// The body of a request.
pub(super) struct Outgoing {
    body: WasiBody,
    left: u64,
    max: u64,
}

impl Outgoing {
    pub(super) fn new(body: WasiBody, max: u64) -> Self {
        Self {
            body,
            left: max,
            max,
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && !take(&mut self.left, frame)
        {
            return Poll::Ready(Some(Err(Error::HttpRequestBodySize(Some(self.max)))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response.
pub(super) struct Answer {
    body: Incoming,
    left: u64,
    max: u64,
    deadline: Instant,
    /// Maximum time until the next part.
    between: Option<Duration>,
    alarm: Pin<Box<Sleep>>,
    /// The request counts as in progress until the whole response is read. A response that is read slowly uses a
    /// connection just as a request does.
    slot: Option<OwnedSemaphorePermit>,
}

impl Answer {
    pub(super) fn new(
        body: Incoming,
        max: u64,
        deadline: Instant,
        between: Option<Duration>,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self {
            alarm: Box::pin(sleep_until(next(deadline, between))),
            body,
            left: max,
            max,
            deadline,
            between,
            slot,
        }
    }
}

fn next(deadline: Instant, between: Option<Duration>) -> Instant {
    let at = between.and_then(|time| Instant::now().checked_add(time));
    at.map_or(deadline, |at| at.min(deadline))
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            ready!(self.alarm.as_mut().poll(context));
            return Poll::Ready(Some(Err(Error::HttpResponseTimeout)));
        };
        match frame {
            Some(Ok(frame)) => {
                if !take(&mut self.left, &frame) {
                    let max = self.max;
                    return Poll::Ready(Some(Err(Error::HttpResponseBodySize(Some(max)))));
                }
                let next = next(self.deadline, self.between);
                self.alarm.as_mut().reset(next);
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(super::failed::of_hyper(&error)))),
            None => {
                self.slot = None;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whether the frame still fits.
fn take(left: &mut u64, frame: &Frame<Bytes>) -> bool {
    let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
    match left.checked_sub(bytes) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => false,
    }
}
