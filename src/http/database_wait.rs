//! Requests of a cluster's node that wait for the database while it does not answer.
//!
//! A file stays locked until it is known what became of its last change, and only the database knows. Whoever needs that
//! file meanwhile would wait for as long as the database is away.
//!
//! **Invariant**: a request is answered while the database is away, and says that a change may have been made.

use std::time::Duration;

use ::operate::Operator;
use salvo_core::http::StatusCode;
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, Router, async_trait};

use super::error::{ApiError, DATABASE_AWAY, unavailable};

/// A database that is away for no longer than this is waited for, as in a failover.
const WAIT: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(250);
const UNKNOWN: &str = "the database of the cluster does not answer: nobody knows yet whether this was changed. Look before you retry, when it is back";

/// How a listener's pages or routes answer.
type Answer = fn(ApiError, &Request, &mut Response);

struct DatabaseWait {
    operator: Operator,
    answer: Answer,
}

/// Routes that are answered 503 if the database of the cluster is away while they wait.
pub fn bounded(operator: &Operator, answer: Answer, routes: Router) -> Router {
    if operator.cluster.is_none() {
        return routes;
    }
    let operator = operator.clone();
    Router::new()
        .hoop(DatabaseWait { operator, answer })
        .push(routes)
}

#[async_trait]
impl Handler for DatabaseWait {
    async fn handle(
        &self,
        req: &mut Request,
        depot: &mut Depot,
        res: &mut Response,
        ctrl: &mut FlowCtrl,
    ) {
        // Whatever blocks goes on: it is not waited for.
        let is_answered = tokio::select! {
            _ = ctrl.call_next(req, depot, res) => true,
            () = self.is_away() => false,
        };
        if !is_answered {
            ctrl.skip_rest();
            *res = Response::new();
            let error = match req.method().is_safe() {
                true => unavailable(DATABASE_AWAY),
                false => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", UNKNOWN),
            };
            (self.answer)(error, req, res);
        }
    }
}

impl DatabaseWait {
    /// Waits until the database has been away for longer than [`WAIT`].
    async fn is_away(&self) {
        let mut away = Duration::ZERO;
        while away < WAIT {
            tokio::time::sleep(LOOK_EVERY).await;
            away = match self.operator.database_is_away() {
                true => away + LOOK_EVERY,
                false => Duration::ZERO,
            };
        }
    }
}
