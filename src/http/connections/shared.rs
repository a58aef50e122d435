//! What a connection, its requests and who writes to it share, and how a connection leaves the HTTP library.
//!
//! **Invariant**: a connection is handed over when every byte that the library has for it is written, and keeps its place.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use hyper::upgrade::{OnUpgrade, Parts};
use salvo_core::rt::tokio::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, Held};
use crate::admission::Place;
use crate::stream::Stream;

/// What a connection and its requests share.
pub(crate) struct Shared<S = Stream> {
    /// A wait for a head ends when it rises, so that no timer has to be moved for each request.
    pub(super) requests: AtomicU32,
    pub(super) under_way: AtomicU32,
    is_cut: AtomicBool,
    /// Who drives the connection.
    pub(crate) driver: AtomicWaker,
    /// The head of the last response of the connection and the beginning of its body are in the buffer of the HTTP library.
    pub(super) is_due: AtomicBool,
    pub(super) is_handed_over: AtomicBool,
    handover: Mutex<Handover<S>>,
}

/// How far a connection is on its way from the HTTP library to who writes its last response.
#[derive(Default)]
pub(super) enum Handover<S> {
    /// The library has it.
    #[default]
    Not,
    /// The library writes the head of the response.
    To(Writer<S>),
    /// The library writes the head that changes the protocol, and then gives the connection up.
    Upgrade(OnUpgrade, Writer<S>),
    /// It is written.
    Done(Writer<S>, Taken<S>),
}

/// Who writes the rest of a response. The bytes are what the client sent after its request.
pub(crate) type Writer<S> =
    Box<dyn FnOnce(Taken<S>, Bytes, Arc<Shared<S>>) -> BoxFuture<'static, ()> + Send>;

/// A connection without the HTTP library. It keeps its place.
pub(crate) struct Taken<S> {
    pub(crate) stream: S,
    pub(super) _place: Option<Place>,
    pub(super) _held: Option<Held>,
}

impl<S> Default for Shared<S> {
    fn default() -> Self {
        Self {
            requests: AtomicU32::default(),
            under_way: AtomicU32::default(),
            is_cut: AtomicBool::default(),
            driver: AtomicWaker::default(),
            is_due: AtomicBool::default(),
            is_handed_over: AtomicBool::default(),
            handover: Mutex::default(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Shared<S> {
    /// Goes on with a connection that the HTTP library has given up, if it was handed over.
    pub(crate) async fn go_on(self: Arc<Self>) {
        let handover = std::mem::take(&mut *self.handover());
        match handover {
            Handover::Not | Handover::To(_) => {}
            Handover::Done(writer, taken) => writer(taken, Bytes::new(), self).await,
            Handover::Upgrade(upgrade, writer) => {
                let Ok(upgraded) = upgrade.await else { return };
                let parts = upgraded.downcast::<TokioIo<Connection<S>>>();
                let Ok(Parts { io, read_buf, .. }) = parts else {
                    return;
                };
                if let Some(taken) = io.into_inner().take() {
                    writer(taken, read_buf, self).await;
                }
            }
        }
    }
}

impl<S> Shared<S> {
    /// Lets `writer` write the rest of this response, which is the last one of the connection: what follows after its
    /// body waits for the first time.
    pub(crate) fn hand_over(&self, writer: Writer<S>) {
        *self.handover() = Handover::To(writer);
    }

    /// The body of the response waits.
    pub(crate) fn body_waits(&self) {
        let is_due = matches!(*self.handover(), Handover::To(_));
        self.is_due.store(is_due, Ordering::Relaxed);
    }

    /// Whether the head is written, and the HTTP library has nothing more to do.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Ordering::Relaxed)
    }

    /// Lets `writer` go on with the connection once the library has written the response that changes the protocol.
    pub(crate) fn upgrade(&self, upgrade: OnUpgrade, writer: Writer<S>) {
        *self.handover() = Handover::Upgrade(upgrade, writer);
    }

    pub(super) fn handover(&self) -> MutexGuard<'_, Handover<S>> {
        self.handover.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection, whatever is under way.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        self.driver.wake();
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    /// Begins a request. It is under way until the result is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> UnderWay<S> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }
}

/// A request that is under way, until the body of its response is complete.
pub(crate) struct UnderWay<S = Stream>(pub(crate) Arc<Shared<S>>);

impl<S> Drop for UnderWay<S> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
