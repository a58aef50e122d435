//! The admin API: what operators and the command line read and do.
//!
//! Each file lists its routes, describes what it takes and answers, and translates; the work is done in
//! [`crate::operate`].
//!
//! **Invariant**: every route here needs the admin token, and no answer holds a secret, except those that make a key, a
//! ticket or a link to sign in.

mod audit;
mod backups;
mod body;
mod connectors;
mod dead_letters;
mod keys;
mod paging;
mod read_keys;
mod renderers;
mod requests;
mod resend;
mod retries;
mod sign_in_link;
mod sinks;
mod status;
mod streams;
mod trigger;

use std::sync::Arc;

use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, Router, async_trait};

use super::error::ApiError;
use super::{middleware, reader};
use crate::catalog::KeyHash;
use crate::http::Sessions;
use crate::operate::{By, Operator};

/// Every route of the admin API.
pub(super) fn routes(operator: &Operator, sessions: &Arc<Sessions>) -> Router {
    Router::with_path("api/admin")
        .push(status::routes(operator))
        .push(streams::routes(operator))
        .push(connectors::routes(operator))
        .push(keys::routes(operator))
        .push(trigger::routes(operator))
        .push(read_keys::routes(operator))
        .push(requests::routes(operator))
        .push(resend::routes(operator))
        .push(sinks::routes(operator))
        .push(retries::routes(operator))
        .push(dead_letters::routes(operator))
        .push(renderers::routes(operator))
        .push(backups::routes(operator))
        .push(audit::routes(operator))
        .push(sign_in_link::routes(operator, sessions))
}

/// Lets only those through who know the admin token.
pub(super) struct RequireToken(pub(super) KeyHash, pub(super) Operator);

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
        let token = reader::bearer(req.headers()).filter(|token| !token.is_empty());
        if token.is_some_and(|token| KeyHash::of(token) == self.0) {
            ctrl.call_next(req, depot, res).await;
            return;
        }
        ctrl.skip_rest();
        // Who sends none guesses nothing.
        let pause = match token.is_some() {
            true => self.1.wrong_token(by(req)).await,
            false => None,
        };
        if let Some(seconds) = pause {
            let message = format!(
                "too many wrong admin tokens came from this address; send the right one, or wait {seconds} s"
            );
            return ApiError::wait(seconds, message).answer(req, res);
        }
        let message = "send the admin token in the header `Authorization: Bearer …`; without a setting it is in the file admin.token of the data folder";
        ApiError::unauthorized(message).answer(req, res);
    }
}

/// Who calls.
fn by(req: &Request) -> By {
    By {
        who: "admin token",
        client: middleware::client(req),
        request_id: middleware::request_id(req),
    }
}

/// A part of the path.
fn param(req: &Request, name: &str) -> String {
    req.param::<String>(name).unwrap_or_default()
}
