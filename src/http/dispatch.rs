//! Passes each request of a connection to what answers it.
//!
//! **Invariant**: a request is under way until the body of its response is complete or dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper::{Request, Response};
use salvo_core::conn::SocketAddr;
use salvo_core::http::ResBody;
use salvo_core::http::uri::Scheme;

use super::connections::{Shared, UnderWay};
use super::ingest::Direct;
use super::server::Server;
use super::tls::ClientCertificate;

/// The requests of one connection.
pub(super) struct Dispatch<H> {
    pub(super) handler: H,
    pub(super) server: Arc<Server>,
    pub(super) shared: Arc<Shared>,
    pub(super) address: SocketAddr,
    pub(super) scheme: Scheme,
    /// The SHA-256 of the client's certificate.
    pub(super) certificate: Option<[u8; 32]>,
}

type Answered = Result<Response<AnswerBody>, hyper::Error>;

impl<H> Service<Request<Incoming>> for Dispatch<H>
where
    H: Service<
            Request<Incoming>,
            Response = Response<ResBody>,
            Error = hyper::Error,
            Future: Send + 'static,
        >,
{
    type Response = Response<AnswerBody>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Answered> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let under_way = self.shared.begin();
        if let Some(certificate) = self.certificate {
            let certificate = ClientCertificate(certificate);
            request.extensions_mut().insert(certificate);
        }
        let body = |body| AnswerBody { body, under_way };
        if let Some(direct) = &self.server.routes.direct
            && let Some(target) = Direct::target(&request)
        {
            let direct = Arc::clone(direct);
            let mut request = salvo_core::Request::from_hyper(request, self.scheme.clone());
            request.remote_addr_mut().clone_from(&self.address);
            return Box::pin(async move { Ok(direct.answer(target, request).await.map(body)) });
        }
        request.extensions_mut().insert(Arc::clone(&self.shared));
        let answered = self.handler.call(request);
        Box::pin(async move { Ok(answered.await?.map(body)) })
    }
}

/// The body of a response, whose request is under way until then.
pub(super) struct AnswerBody {
    body: ResBody,
    /// The wait for the next head begins when it is dropped.
    under_way: UnderWay,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        if frame.is_pending() {
            this.under_way.0.body_waits();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
