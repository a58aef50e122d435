//! The admin API: what operators and the command line read and do.
//!
//! **Invariant**: every route here needs the admin token, and no answer holds a secret, except the one that makes a
//! key.

mod again;
mod audit;
mod backups;
mod change;
mod connectors;
mod forget;
mod keys;
mod letters;
mod read_keys;
mod renderers;
mod requests;
mod retries;
mod sinks;
mod status;
mod streams;
mod wish;

use salvo_core::http::StatusCode;
use salvo_core::http::header::HeaderValue;
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};

use super::{envelope, reader};
use crate::catalog::KeyHash;

pub(super) use again::{
    ContentData, GetContent, ItemContent, SendRequestAgain, content, send_request_again,
};
pub(super) use audit::ListAudit;
pub(super) use backups::{PostBackup, make as make_backup};
pub(super) use change::{actor, change_by, note};
pub(super) use connectors::{
    ChangeConnector, CreateConnector, DeleteConnector, GetConnector, ListConnectors,
};
pub(super) use forget::{ForgetSink, forget};
pub(super) use keys::{ChangeKey, CreateKey, DeleteKey, GetKey, ListKeys, RevokeKey, RotateKey};
pub(super) use letters::{
    DiscardLetter, DiscardLetters, Refused, RetrySink, SendAgain, discard, retry, send_again,
};
pub(super) use read_keys::{
    ChangeReadKey, CreateReadKey, DeleteReadKey, GetReadKey, ListReadKeys, RevokeReadKey,
};
pub(super) use renderers::{ListRenderers, PostAdminTicket, renderers};
pub(super) use requests::{GetRequest, ListRequests};
pub(super) use retries::{GiveUpRetries, GiveUpRetry, ListRetries, RetryData, give_up, retries};
pub(super) use sinks::{ListDeadLetters, ListSinks, SinkData, UNCONFIGURED, sinks};
pub(super) use status::{GetStatus, problems};
pub(super) use streams::{ChangeStream, CreateStream, DeleteStream, GetStream, ListStreams};

/// Entries on a page, unless `limit` says otherwise.
const LIMIT_DEFAULT: u32 = 50;
const LIMIT_MAX: u32 = 500;
const NO_SUCH_SINK: &str = "there is no sink with this name; /api/admin/sinks lists them";

/// Lets only those through who know the admin token.
pub(super) struct RequireToken(pub(super) KeyHash);

#[async_trait]
impl Handler for RequireToken {
    async fn handle(
        &self,
        req: &mut Request,
        depot: &mut Depot,
        res: &mut Response,
        ctrl: &mut FlowCtrl,
    ) {
        // Comparing digests takes the same time for every wrong token that somebody can choose.
        let known = reader::bearer(req.headers()).is_some_and(|token| KeyHash::of(token) == self.0);
        if known {
            ctrl.call_next(req, depot, res).await;
            return;
        }
        ctrl.skip_rest();
        res.headers_mut()
            .insert("www-authenticate", HeaderValue::from_static("Bearer"));
        envelope::fail(
            req,
            res,
            StatusCode::UNAUTHORIZED,
            "UNAUTHORIZED",
            "send the admin token in the header `Authorization: Bearer …`; without a setting it is in the file admin.token of the data folder",
        );
    }
}

/// `limit` of a list, or the sentence that says what is wrong with it.
fn limit(req: &mut Request) -> Result<u32, String> {
    envelope::limit(req, LIMIT_DEFAULT, LIMIT_MAX)
}

/// `cursor` of a list: what `next` of the page before said.
fn cursor<T: std::str::FromStr>(req: &mut Request) -> Result<Option<T>, String> {
    match req.query::<String>("cursor") {
        None => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_| "cursor must be the value of `next` of the page before".to_owned()),
    }
}

/// Runs what blocks.
pub(super) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Blocking work is cancelled only when the runtime ends, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
