//! Authorization of requests to the admin listener: the token of a request, and the role that a route requires.
//!
//! The guards of the admin API (`api.rs`) and of the pages (`web/guard.rs`) call it.
//!
//! **Invariant**: every route of the admin listener except `/healthz`, its documentation and the sign-in page has a
//! guard with the roles that the route requires. A route cannot be added to the lists without one. A request that
//! passes a guard carries its token.

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

/// The roles that a group of routes requires. Two roles in one value, so that no route can be added with a role for one
/// of the two alone.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// Role for GET and HEAD.
    pub(super) reads: Role,
    /// Role for all other methods.
    pub writes: Role,
}

impl Needs {
    /// The metrics.
    pub const METRICS: Self = Self::new(Role::Metrics, Role::Admin);
    /// Routes that change nothing in the daemon, whatever the method.
    pub const VIEW: Self = Self::new(Role::Viewer, Role::Viewer);
    /// Routes for daily operation.
    pub const RUN: Self = Self::new(Role::Viewer, Role::Operator);
    /// Routes that decide who can send and read.
    pub const MANAGE: Self = Self::new(Role::Viewer, Role::Admin);

    const fn new(reads: Role, writes: Role) -> Self {
        Self { reads, writes }
    }

    /// The role that a request with this method requires.
    pub fn role(self, method: &Method) -> Role {
        match *method {
            Method::GET | Method::HEAD => self.reads,
            _ => self.writes,
        }
    }
}

/// The token of a request: in its header, or by the certificate of its client.
fn identify(req: &Request, access: &Access) -> Option<Arc<Token>> {
    match reader::bearer(req.headers()) {
        Some(token) => access.token(token),
        None => access.with_hash(KeyHash::of_certificate(fingerprint(req)?)),
    }
}

/// Passes a request on with its token if the token has the role. Otherwise returns the sentence for the client; the
/// rejection is in the log and the audit log.
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

/// Maximum characters of a rejected request in the log. Anyone can send such a request, so it is cut.
const WHAT_CHARS_MAX: usize = 200;

/// The token of a request that passed a guard.
pub fn token_of(req: &Request) -> Result<Arc<Token>, ApiError> {
    let token = req.extensions().get::<Arc<Token>>().cloned();
    token.ok_or_else(|| ApiError::unauthorized("the admin token is missing; send one"))
}

/// The actor of a call of the admin API.
pub fn by_token(req: &Request) -> By {
    by(req, Token::who)
}

/// The actor of a request of a page.
pub fn by_page(req: &Request) -> By {
    by(req, Token::who_on_page)
}

fn by(req: &Request, who: fn(&Token) -> Arc<str>) -> By {
    let who = token_of(req).map_or_else(|_| "nobody known".into(), |token| who(&token));
    by_name(req, who)
}

/// An actor with this name.
fn by_name(req: &Request, who: Arc<str>) -> By {
    By {
        who,
        client: middleware::client(req),
        request_id: middleware::request_id(req),
    }
}

/// Restricts routes to tokens with the required role.
pub fn require_token(operator: &Operator, needs: Needs, routes: Router) -> Router {
    let operator = operator.clone();
    Router::new()
        .hoop(RequireToken { operator, needs })
        .push(routes)
}

/// Requires another role of a request that already passed a guard.
///
/// # Errors
/// 403; the rejection is in the log and the audit log.
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

/// Common part of the guards: calls the guarded handlers, or skips them so that the guard can answer.
///
/// # Errors
/// The error of `admitted`.
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

/// Rejects requests without a token that has the role.
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
        // A request without a token is not a guess, so it does not count as one.
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
