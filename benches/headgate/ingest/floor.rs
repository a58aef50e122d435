//! The floor of a request: a salvo handler that reads the body and answers 202, and nothing else.
//!
//! Runs as a child of the bench, in the same executable, under a command of its own.
//!
//! **Invariant:** the same framework, worker threads, socket options and answer text as the daemon's, so that the
//! difference between the two is what the daemon does.

use std::net::SocketAddr;

use salvo_core::conn::tcp::TcpAcceptor;
use salvo_core::http::header::{CONTENT_TYPE, HeaderValue};
use salvo_core::http::{Request, Response, StatusCode};
use salvo_core::{Depot, FlowCtrl, Handler, Router, Server, async_trait};

use crate::Result;

/// What the bench tells its child.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where to listen
    address: SocketAddr,
}

/// Largest body that is read.
const BODY_BYTES_MAX: usize = 1_048_576;

const ANSWER: &str = r#"{"success":true,"data":{"stream":"orders","items_received":1,"request_id":"01920000-0000-7000-8000-000000000000"}}"#;

/// The daemon's own default: one on up to two cores, else one less than there are, at most 8.
fn worker_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores <= 2 { 1 } else { (cores - 1).min(8) }
}

/// Serves until it is killed.
pub(crate) fn serve(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(worker_threads())
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(options.address).await?;
        // Accepted connections inherit it.
        socket2::SockRef::from(&listener).set_tcp_nodelay(true)?;
        let router = Router::with_path("api/ingest").post(Empty);
        Server::new(TcpAcceptor::try_from(listener)?)
            .serve(router)
            .await;
        Ok(())
    })
}

struct Empty;

#[async_trait]
impl Handler for Empty {
    async fn handle(
        &self,
        request: &mut Request,
        _depot: &mut Depot,
        response: &mut Response,
        _control: &mut FlowCtrl,
    ) {
        if request.payload_with_max_size(BODY_BYTES_MAX).await.is_err() {
            response.status_code(StatusCode::BAD_REQUEST);
            return;
        }
        response.status_code(StatusCode::ACCEPTED);
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response.body(ANSWER);
    }
}
