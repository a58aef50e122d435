//! Access checks for pages, and origin checks for the admin API.
//!
//! **Invariant**: a page is shown, and a write is made, only if the `Host` header is a name of the daemon (against DNS
//! rebinding). A write must come from a page of the same origin. Except for the sign-in, it also requires a session
//! whose token has the role, and the session's form token. The admin API checks the `Host` header too. Programs send no
//! origin; if a browser sends one, it must be the daemon's own.

use std::borrow::Cow;
use std::sync::Arc;

use maud::Markup;
use salvo_core::http::Method;
use salvo_core::http::StatusCode;
use salvo_core::http::header::{HeaderName, HeaderValue, ORIGIN, REFRESH, RETRY_AFTER};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, Router, async_trait};

use super::form_data::{FORM_TOKEN, FormData};
use super::{cookie, frame, node, sign_in};
use catalog::KeyHash;
use http::AdminParts;
pub(super) use http::access::by_page as by;
use http::access::{self, Needs};
use http::error::ApiError;
use http::head::only_looks;
use http::host::{Hosts, SEC_FETCH_SITE, from_same_origin};
use http::sessions::{SessionError, Sessions, Visitor};
use operate::Operator;

const HX_REFRESH: HeaderName = HeaderName::from_static("hx-refresh");
/// Maximum bytes of a form: every field of the largest form with ten thousand characters, percent-encoded.
const FORM_BYTES_MAX: usize = 2 << 20;

/// Rejects requests with a foreign `Host` header, and writes from other origins.
pub struct CheckSite {
    hosts: Hosts,
    of_api: bool,
}

impl CheckSite {
    /// For pages: a browser must state that a write comes from the same origin.
    pub(super) fn of_pages(hosts: &Hosts) -> Self {
        Self {
            hosts: hosts.clone(),
            of_api: false,
        }
    }

    /// For the admin API: programs send writes without an origin.
    pub fn of_api(hosts: &Hosts) -> Self {
        Self {
            hosts: hosts.clone(),
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
        let asked = self.check(req);
        let Err(sentence) = access::go_on(asked, req, depot, res, ctrl).await else {
            return;
        };
        let status = StatusCode::FORBIDDEN;
        match self.of_api {
            true => ApiError::new(status, "FORBIDDEN", sentence).answer(req, res),
            false => frame::notice(res, status, "Not allowed", sentence),
        }
    }
}

impl CheckSite {
    fn check(&self, req: &Request) -> Result<(), &'static str> {
        let headers = req.headers();
        let silent = headers.get(SEC_FETCH_SITE).is_none() && headers.get(ORIGIN).is_none();
        let may_write = from_same_origin(headers) || (self.of_api && silent);
        if !self.hosts.are_asked_by(headers) {
            return Err(
                "This host name is not allowed. Use an IP address or localhost; names such as headgate.localhost work if only this machine can reach the listener. To allow another name, add it to hosts of [admin] in the configuration.",
            );
        }
        if !only_looks(req.method()) && !may_write {
            return Err(
                "A page of another site sent this form, so nothing was changed. Open the page here and try again.",
            );
        }
        Ok(())
    }
}

/// Requires a session whose token has the required role; without a session, answers with the sign-in page. Puts the
/// fields of a form into the depot.
struct RequireSession {
    sessions: Arc<Sessions>,
    guarding: Arc<Guarding>,
}

/// Settings of a guard, in the depot of the requests that it passed.
struct Guarding {
    operator: Operator,
    needs: Needs,
}

/// Restricts pages to sessions whose token has the required role.
pub(super) fn require_session(parts: &AdminParts, needs: Needs, pages: Router) -> Router {
    let operator = parts.operator.clone();
    let guard = RequireSession {
        sessions: Arc::clone(&parts.sessions),
        guarding: Arc::new(Guarding { operator, needs }),
    };
    Router::new().hoop(guard).push(pages)
}

#[async_trait]
impl Handler for RequireSession {
    async fn handle(
        &self,
        req: &mut Request,
        depot: &mut Depot,
        res: &mut Response,
        ctrl: &mut FlowCtrl,
    ) {
        let visitor = match cookie::secret(req).map(str::to_owned) {
            Some(secret) => {
                let reads = only_looks(req.method());
                self.sessions.visitor(&secret, reads).await
            }
            None => Ok(None),
        };
        let visitor = match visitor {
            Ok(Some(visitor)) => visitor,
            Ok(None) => {
                ctrl.skip_rest();
                return ask_to_sign_in(req, res);
            }
            Err(error) => {
                ctrl.skip_rest();
                return cannot_look_up(&error, req, res);
            }
        };
        let admitted = self.admit(visitor, req, depot).await;
        if let Err(refusal) = access::go_on(admitted, req, depot, res, ctrl).await {
            refusal.answer(res);
        }
    }
}

impl RequireSession {
    async fn admit(
        &self,
        visitor: Visitor,
        req: &mut Request,
        depot: &mut Depot,
    ) -> Result<(), Refusal> {
        let Guarding { operator, needs } = &*self.guarding;
        let needed = needs.role(req.method());
        let admitted = access::admit(operator, needed, &visitor.token, by, req).await;
        admitted.map_err(|why| Refusal::of_role(&why))?;
        if !only_looks(req.method()) {
            depot.insert_typed(read_form(&visitor, req).await?);
        }
        depot.insert_typed(visitor);
        depot.insert_typed(Arc::clone(&self.guarding));
        Ok(())
    }
}

/// The session cannot be looked up. A page that only shows something is requested again automatically.
fn cannot_look_up(error: &SessionError, req: &Request, res: &mut Response) {
    tracing::debug!(%error, path = req.uri().path(), "a session cannot be looked up");
    retry_soon(req, res);
    frame::notice(
        res,
        StatusCode::SERVICE_UNAVAILABLE,
        "Database not reachable",
        "The database of the cluster does not answer, so your session cannot be checked, and nothing was changed. You stay signed in. Retry when the database is back; headgate cluster status shows its state, without a session.",
    );
}

/// The page that cannot be shown now is requested again automatically, unless it was a form, which would be sent
/// twice otherwise.
pub(super) fn retry_soon(req: &Request, res: &mut Response) {
    let seconds = HeaderValue::from_static("5");
    res.headers_mut().insert(RETRY_AFTER, seconds.clone());
    if only_looks(req.method()) {
        reload_poll(req, res);
        res.headers_mut().insert(REFRESH, seconds);
    }
}

/// That the database of the cluster does not answer, for a page behind the guard; see [`node::database_away`].
pub(super) fn database_away(depot: &Depot) -> Markup {
    let guarding = depot.get_typed::<Arc<Guarding>>().ok();
    guarding.map_or_else(Markup::default, |guarding| {
        node::database_away(&guarding.operator)
    })
}

/// Reloads the whole page, if only its live parts were requested.
fn reload_poll(req: &Request, res: &mut Response) {
    if frame::is_poll(req) {
        let yes = HeaderValue::from_static("true");
        res.headers_mut().insert(HX_REFRESH, yes);
    }
}

fn ask_to_sign_in(req: &Request, res: &mut Response) {
    // The page shows the sign-in form then.
    reload_poll(req, res);
    let next = match *req.method() {
        Method::GET => req.uri().path_and_query().map_or("/", |next| next.as_str()),
        _ => "/",
    };
    let page = sign_in::form(next, None);
    frame::bare(res, StatusCode::UNAUTHORIZED, "Sign in", &page);
}

/// Reads a form, and checks that it belongs to the visitor's session.
async fn read_form(visitor: &Visitor, req: &mut Request) -> Result<FormData, Refusal> {
    let form = FormData::read(req, FORM_BYTES_MAX).await;
    let form = form.map_err(|why| Refusal {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        title: "Rejected",
        sentence: format!("Nothing was done: {why}.").into(),
    })?;
    let sent = form.get(FORM_TOKEN).map(KeyHash::of);
    match sent == Some(KeyHash::of(&visitor.form_token)) {
        true => Ok(form),
        false => Err(Refusal {
            status: StatusCode::FORBIDDEN,
            title: "Rejected",
            sentence: "The form is from an earlier session, so nothing was changed. Go back, reload the page, and repeat.".into(),
        }),
    }
}

/// Shows a form only to users whose role can send it.
pub(super) struct AsWrite;

#[async_trait]
impl Handler for AsWrite {
    async fn handle(
        &self,
        req: &mut Request,
        depot: &mut Depot,
        res: &mut Response,
        ctrl: &mut FlowCtrl,
    ) {
        let guarding = depot.get_typed::<Arc<Guarding>>().ok();
        let (Some(guarding), Some(visitor)) = (guarding, Visitor::of(depot)) else {
            return ctrl.skip_rest();
        };
        let (operator, needed) = (&guarding.operator, guarding.needs.writes);
        let admitted = access::admit(operator, needed, &visitor.token, by, req).await;
        let admitted = admitted.map_err(|why| Refusal::of_role(&why));
        if let Err(refusal) = access::go_on(admitted, req, depot, res, ctrl).await {
            refusal.answer(res);
        }
    }
}

/// The page of a rejected request.
struct Refusal {
    status: StatusCode,
    title: &'static str,
    sentence: Cow<'static, str>,
}

impl Refusal {
    /// The role does not allow the request, so nothing was done.
    fn of_role(why: &str) -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            title: "Not with this role",
            sentence: format!("Nothing was done: {why}.").into(),
        }
    }

    fn answer(&self, res: &mut Response) {
        frame::notice(res, self.status, self.title, &self.sentence);
    }
}
