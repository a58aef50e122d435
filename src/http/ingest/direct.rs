//! The routes that submit items, decided by their path before the framework looks at all routes.
//!
//! They are registered with the framework as well: for documents, for other methods, and for paths that are written in
//! another way.
//!
//! **Invariant**: a request is answered as the framework's routing would have it answered: the same steps surround it
//! ([`Outer`]), and the same handler answers it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use salvo_core::http::{Method, ResBody};
use salvo_core::{Request, Response};

use super::{Submit, Target, stream_of_query, submit};
use crate::middleware::Outer;
use journal::log::Endpoint;

const INGEST: &str = "/api/ingest";
const WEBHOOK: &str = "/api/webhook/";

/// Answers requests to the routes that submit items.
pub struct Direct {
    /// What accepts them.
    pub submit: Submit,
    /// What surrounds each request.
    pub outer: Arc<Outer>,
}

impl Direct {
    /// Where a request submits items to; `None`: the framework decides.
    pub(crate) fn target<B>(request: &hyper::Request<B>) -> Option<Target> {
        if request.method() != Method::POST {
            return None;
        }
        let path = request.uri().path();
        if path == INGEST {
            return Some(Target::default());
        }
        let (stream, connector) = match path.strip_prefix(WEBHOOK)?.split_once('/') {
            None => (path.strip_prefix(WEBHOOK)?, None),
            Some((stream, connector)) => (stream, Some(connector)),
        };
        let is_plain = |name: &str| !name.is_empty() && !name.contains(['/', '%']);
        if !is_plain(stream) || !connector.is_none_or(is_plain) {
            return None;
        }
        Some(Target {
            endpoint: Endpoint::Webhook,
            stream: Some(stream.to_owned()),
            connector: connector.map(str::to_owned),
        })
    }

    /// Answers a request.
    pub(crate) async fn answer(
        &self,
        mut target: Target,
        mut req: Request,
    ) -> hyper::Response<ResBody> {
        let (req, mut res) = (&mut req, Response::new());
        if target.endpoint == Endpoint::Ingest {
            target.stream = stream_of_query(req);
        }
        let begun = self.outer.begin(req);
        let mut panicked = false;
        if !self.outer.rejects(req, &begun, &mut res) {
            let submitted = submit(&self.submit, begun.id, target, req, &mut res);
            panicked = AssertUnwindSafe(submitted).catch_unwind().await.is_err();
        }
        self.outer.end(begun, panicked, req, &mut res).await;
        res.into_hyper()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_are_written_plainly_are_decided_here() {
        let target = |method: &str, path: &str| {
            let request = hyper::Request::builder().method(method).uri(path);
            let target = Direct::target(&request.body(()).expect("a request"))?;
            Some((target.stream, target.connector))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(target("POST", "/api/ingest?stream=a"), Some((None, None)));
        assert_eq!(target("POST", "/api/webhook/a"), Some((some("a"), None)));
        assert_eq!(
            target("POST", "/api/webhook/a/b?x=/c"),
            Some((some("a"), some("b")))
        );
        for path in [
            "/api/ingest/",
            "//api/ingest",
            "/api/webhook/",
            "/api/webhook/a/",
            "/api/webhook//b",
            "/api/webhook/a%2Fb",
            "/api/webhook/a/b/c",
            "/api/webhook",
        ] {
            assert_eq!(target("POST", path), None, "{path}");
        }
        assert_eq!(target("GET", "/api/webhook/a/b"), None);
        assert_eq!(target("PUT", "/api/ingest"), None);
    }
}
