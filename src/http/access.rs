//! From a request to the token it comes with, and from a route to the role that it needs.
//!
//! The guards of the admin API (`api.rs`) and of the pages (`web/guard.rs`) ask here.
//!
//! **Invariant**: every route of the admin listener but `/healthz`, its documentation and the sign-in page stands behind
//! a guard that was made with the roles that it needs: there is no other way into the lists of routes. A request that
//! a guard let through carries its token.

use std::sync::Arc;

use salvo_core::http::{Method, StatusCode};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, Router, async_trait};

use super::error::ApiError;
use super::tls::fingerprint;
use super::{middleware, reader};
use catalog::KeyHash;
use operate::access::{Access, Token};
use operate::{By, Operator};
use settings::Role;

/// The roles that the routes of a subject need.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// For GET and HEAD.
    pub(super) reads: Role,
    /// For everything else.
    pub writes: Role,
}

impl Needs {
    /// The metrics.
    pub const METRICS: Self = Self::new(Role::Metrics, Role::Admin);
    /// What changes nothing of the daemon's, whatever the method is.
    pub const VIEW: Self = Self::new(Role::Viewer, Role::Viewer);
    /// What is done day to day.
    pub const RUN: Self = Self::new(Role::Viewer, Role::Operator);
    /// What decides who sends and who reads.
    pub const MANAGE: Self = Self::new(Role::Viewer, Role::Admin);

    const fn new(reads: Role, writes: Role) -> Self {
        Self { reads, writes }
    }

    /// What a request with this method needs.
    pub fn role(self, method: &Method) -> Role {
        match *method {
            Method::GET | Method::HEAD => self.reads,
            _ => self.writes,
        }
    }
}

/// Who calls, as whom: the token of a request, or the one that its client's certificate stands for.
fn identify(req: &Request, access: &Access) -> Option<Arc<Token>> {
    match reader::bearer(req.headers()) {
        Some(token) => access.token(token),
        None => access.with_hash(KeyHash::of_certificate(fingerprint(req)?)),
    }
}

/// Lets a request through with its token if that has the role; otherwise the sentence for the caller. It is in the log
/// and the audit log then.
pub async fn admit(
    operator: &Operator,
    needed: Role,
    token: &Arc<Token>,
    by: impl FnOnce(&Request) -> By,
    req: &mut Request,
) -> Result<(), String> {
    req.extensions_mut().insert(Arc::clone(token));
    if token.role >= needed {
        return Ok(());
    }
    let what = format!("{} {}", req.method(), req.uri().path());
    let what: String = what.chars().take(WHAT_CHARS_MAX).collect();
    Err(operator.refuse_role(token, needed, &what, by(req)).await)
}

/// Characters of what somebody wanted and was refused.
const WHAT_CHARS_MAX: usize = 200;

/// The token of a request that a guard let through.
pub fn token_of(req: &Request) -> Result<Arc<Token>, ApiError> {
    let token = req.extensions().get::<Arc<Token>>().cloned();
    token.ok_or_else(|| ApiError::unauthorized("the admin token is missing; send one"))
}

/// Who calls the admin API.
pub fn by_token(req: &Request) -> By {
    by(req, Token::who)
}

/// Who is signed in.
pub fn by_page(req: &Request) -> By {
    by(req, Token::who_on_page)
}

fn by(req: &Request, who: fn(&Token) -> Arc<str>) -> By {
    let who = token_of(req).map_or_else(|_| "nobody known".into(), |token| who(&token));
    by_name(req, who)
}

/// Somebody who is called so.
fn by_name(req: &Request, who: Arc<str>) -> By {
    By {
        who,
        client: middleware::client(req),
        request_id: middleware::request_id(req),
    }
}

/// These routes for those alone whose token has the role that they need.
pub fn require_token(operator: &Operator, needs: Needs, routes: Router) -> Router {
    let operator = operator.clone();
    Router::new()
        .hoop(RequireToken { operator, needs })
        .push(routes)
}

/// Lets a request to the API go on that a guard let through, if its token has this role, too.
///
/// # Errors
/// 403; it is in the log and the audit log then.
pub async fn require_role(
    operator: &Operator,
    needed: Role,
    req: &mut Request,
) -> Result<(), ApiError> {
    let token = token_of(req)?;
    let admitted = admit(operator, needed, &token, by_token, req).await;
    admitted.map_err(forbidden)
}

fn forbidden(why: String) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "FORBIDDEN", why)
}

/// The frame of a guard: goes on with what is guarded, or ends here, for the caller to answer.
///
/// # Errors
/// Why nothing was let through.
pub async fn go_on<E>(
    admitted: Result<(), E>,
    req: &mut Request,
    depot: &mut Depot,
    res: &mut Response,
    ctrl: &mut FlowCtrl,
) -> Result<(), E> {
    match admitted {
        Ok(()) => {
            ctrl.call_next(req, depot, res).await;
        }
        Err(_) => ctrl.skip_rest(),
    }
    admitted
}

/// Lets only those through who know a token with the role.
struct RequireToken {
    operator: Operator,
    needs: Needs,
}

#[async_trait]
impl Handler for RequireToken {
    async fn handle(
        &self,
        req: &mut Request,
        depot: &mut Depot,
        res: &mut Response,
        ctrl: &mut FlowCtrl,
    ) {
        let admitted = self.admit(req).await;
        if let Err(refusal) = go_on(admitted, req, depot, res, ctrl).await {
            refusal.answer(req, res);
        }
    }
}

impl RequireToken {
    async fn admit(&self, req: &mut Request) -> Result<(), ApiError> {
        let operator = &self.operator;
        if let Some(token) = identify(req, &operator.access) {
            let needed = self.needs.role(req.method());
            let admitted = admit(operator, needed, &token, by_token, req).await;
            return admitted.map_err(forbidden);
        }
        // Who sends none guesses nothing.
        let sent = reader::bearer(req.headers()).is_some_and(|token| !token.is_empty());
        let pause = match sent {
            true => {
                operator
                    .wrong_token(by_name(req, "admin token".into()))
                    .await
            }
            false => None,
        };
        Err(match pause {
            Some(seconds) => {
                let message = format!(
                    "too many invalid admin tokens from this address; send the right token, or wait {seconds} s"
                );
                ApiError::wait(seconds, message)
            }
            None => ApiError::unauthorized(
                "the admin token is missing or invalid; send it in the header `Authorization: Bearer …`. By default, it is in <data_dir>/admin.token",
            ),
        })
    }
}
