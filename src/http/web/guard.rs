//! Who may see a page, and from where; and from where the admin API may be called.
//!
//! **Invariant**: a page is shown, and a write is done, only when the daemon was asked for by a name that is its
//! own (against DNS rebinding). A write comes from a page of the same origin, and, but for signing in, with a
//! session and that session's form token. The admin API takes calls under its own names only too; programs do not say
//! that they are of an origin, and a browser that says so must name this one.

mod host;

use std::sync::Arc;

use salvo_core::http::Method;
use salvo_core::http::StatusCode;
use salvo_core::http::header::{COOKIE, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};

pub(super) use host::host;
use host::{from_same_origin, is_own};

use super::form_data::FormData;
use super::sessions::{Sessions, Visitor};
use super::{frame, sign_in};
use crate::catalog::KeyHash;
use crate::http::error::ApiError;
use crate::http::middleware::{client, request_id};
use crate::operate::By;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const HX_REQUEST: HeaderName = HeaderName::from_static("hx-request");
const HX_REFRESH: HeaderName = HeaderName::from_static("hx-refresh");
/// Every field of the largest form with ten thousand characters, percent-encoded.
const FORM_BYTES_MAX: usize = 1 << 20;
/// The field of every form that holds the session's form token.
pub(super) const FORM_TOKEN: &str = "form_token";

/// Refuses to be asked for by a name that is not the daemon's, and writes that come from elsewhere.
pub(in crate::http) struct CheckSite {
    hosts: Arc<[String]>,
    of_api: bool,
}

impl CheckSite {
    /// For pages: a write must come with a browser's word that it is from here.
    pub(super) fn of_pages(hosts: &Arc<[String]>) -> Self {
        Self {
            hosts: Arc::clone(hosts),
            of_api: false,
        }
    }

    /// For the admin API: programs send writes without a word of where they are from.
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

/// Lets those through who are signed in; others get the sign-in page. A form's fields go into the depot.
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
        let secret = cookie(req.headers()).map(str::to_owned);
        let Some(visitor) = secret.and_then(|secret| self.0.visitor(&secret)) else {
            ctrl.skip_rest();
            if is_poll(req) {
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

/// Who is signed in, on pages behind [`RequireSession`].
pub(super) fn visitor(depot: &Depot) -> Option<&Visitor> {
    depot.get_typed::<Visitor>().ok()
}

/// Who is signed in, for the audit trail.
pub(super) fn by(req: &Request) -> By {
    By {
        who: "admin page",
        client: client(req),
        request_id: request_id(req),
    }
}

/// Whether a page asks for news of its live part.
pub(super) fn is_poll(req: &Request) -> bool {
    req.headers().contains_key(HX_REQUEST)
}

/// The name of the session's cookie. Cookies do not tell ports apart, so that it says the port.
pub(super) fn cookie_name(headers: &HeaderMap) -> String {
    match host(headers) {
        Some((_, Some(port))) => format!("headgate_{port}"),
        _ => "headgate".to_owned(),
    }
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let name = cookie_name(headers);
    let lines = headers.get_all(COOKIE).iter();
    let pairs = lines.filter_map(|line| line.to_str().ok());
    pairs
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(found, value)| (found == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use salvo_core::http::header::HOST;

    use super::*;

    #[test]
    fn the_cookie_is_found_among_others_and_for_its_port_only() {
        let cookies = "a=1; headgate=none; headgate_8081=this;headgate_8082=other";
        let of = |host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            headers.insert(COOKIE, HeaderValue::from_static(cookies));
            cookie(&headers).map(str::to_owned)
        };
        assert_eq!(of("127.0.0.1:8081").as_deref(), Some("this"));
        assert_eq!(of("[::1]:8082").as_deref(), Some("other"));
        assert_eq!(of("headgate.example").as_deref(), Some("none"));
        assert_eq!(of("127.0.0.1:8083"), None);
    }
}
