//! Who may see a page, and from where; and from where the admin API may be called.
//!
//! **Invariant**: a page is shown, and a write is done, only when the daemon was asked for by a name that is its
//! own (against DNS rebinding). A write comes from a page of the same origin, and, but for signing in, with a
//! session and that session's form token. The admin API takes calls under its own names only too; programs do not say
//! that they are of an origin, and a browser that says so must name this one.

use std::sync::Arc;

use salvo_core::http::Method;
use salvo_core::http::StatusCode;
use salvo_core::http::header::{HeaderName, HeaderValue, ORIGIN};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};

use super::form_data::{FORM_TOKEN, FormData};
use super::host::{SEC_FETCH_SITE, from_same_origin, is_own};
use super::sessions::Sessions;
use super::{cookie, frame, sign_in};
use crate::catalog::KeyHash;
use crate::http::error::ApiError;
use crate::http::middleware::{client, request_id};
use crate::operate::By;

const HX_REFRESH: HeaderName = HeaderName::from_static("hx-refresh");
/// Every field of the largest form with ten thousand characters, percent-encoded.
const FORM_BYTES_MAX: usize = 2 << 20;

/// Refuses to be asked for by a name that is not the daemon's, and writes that come from elsewhere.
pub(in crate::http) struct CheckSite {
    hosts: Arc<[String]>,
    of_api: bool,
}

impl CheckSite {
    /// For pages: a write must come from a browser that says it is from the same origin.
    pub(super) fn of_pages(hosts: &Arc<[String]>) -> Self {
        Self {
            hosts: Arc::clone(hosts),
            of_api: false,
        }
    }

    /// For the admin API: programs send writes that name no origin.
    pub(in crate::http) fn of_api(hosts: &Arc<[String]>) -> Self {
        Self {
            hosts: Arc::clone(hosts),
            of_api: true,
        }
    }
}

#[async_trait]
impl Handler for CheckSite {
    async fn handle(
        &self,
        req: &mut Request,
        depot: &mut Depot,
        res: &mut Response,
        ctrl: &mut FlowCtrl,
    ) {
        let headers = req.headers();
        let silent = headers.get(SEC_FETCH_SITE).is_none() && headers.get(ORIGIN).is_none();
        let may_write = from_same_origin(headers) || (self.of_api && silent);
        let refusal = if !is_own(headers, &self.hosts) {
            "The admin listener is asked for by an address or as localhost. For any other name add it to hosts of [admin] in the configuration."
        } else if *req.method() != Method::GET && !may_write {
            "This was sent from a page of another site, so nothing was done. Open the page here and try again."
        } else {
            ctrl.call_next(req, depot, res).await;
            return;
        };
        ctrl.skip_rest();
        if self.of_api {
            let status = StatusCode::FORBIDDEN;
            ApiError::new(status, "FORBIDDEN", refusal).answer(req, res);
        } else {
            frame::notice(res, StatusCode::FORBIDDEN, "Refused", refusal);
        }
    }
}

/// Requires a session; without one the answer is the sign-in page. Puts the fields of a form into the depot.
pub(super) struct RequireSession(pub(super) Arc<Sessions>);

#[async_trait]
impl Handler for RequireSession {
    async fn handle(
        &self,
        req: &mut Request,
        depot: &mut Depot,
        res: &mut Response,
        ctrl: &mut FlowCtrl,
    ) {
        let secret = cookie::secret(req.headers()).map(str::to_owned);
        let Some(visitor) = secret.and_then(|secret| self.0.visitor(&secret)) else {
            ctrl.skip_rest();
            if frame::is_poll(req) {
                // The whole page again, which asks to sign in.
                let yes = HeaderValue::from_static("true");
                res.headers_mut().insert(HX_REFRESH, yes);
            }
            let next = match *req.method() {
                Method::GET => req.uri().path_and_query().map_or("/", |next| next.as_str()),
                _ => "/",
            };
            let page = sign_in::form(next, None);
            return frame::bare(res, StatusCode::UNAUTHORIZED, "Sign in", &page);
        };
        if *req.method() != Method::GET {
            let form = match FormData::read(req, FORM_BYTES_MAX).await {
                Ok(form) => form,
                Err(why) => {
                    ctrl.skip_rest();
                    let status = StatusCode::PAYLOAD_TOO_LARGE;
                    return frame::notice(
                        res,
                        status,
                        "Refused",
                        &format!("Nothing was done: {why}."),
                    );
                }
            };
            let sent = form.get(FORM_TOKEN).map(KeyHash::of);
            if sent != Some(KeyHash::of(&visitor.form_token)) {
                ctrl.skip_rest();
                return frame::notice(
                    res,
                    StatusCode::FORBIDDEN,
                    "Refused",
                    "The form is of an earlier session, so nothing was done. Go back, load the page again, and repeat.",
                );
            }
            depot.insert_typed(form);
        }
        depot.insert_typed(visitor);
        ctrl.call_next(req, depot, res).await;
    }
}

/// Who is signed in, for the audit trail.
pub(super) fn by(req: &Request) -> By {
    By {
        who: "admin page",
        client: client(req),
        request_id: request_id(req),
    }
}
