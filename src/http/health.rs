//! Health, readiness and metrics.
//!
//! **Invariant**: `/healthz` says that the process answers, `/readyz` that it takes requests.

use salvo_core::http::StatusCode;
use salvo_core::http::header::{CONTENT_TYPE, HeaderValue};
use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::Serialize;

use super::Parts;
use super::condition::Condition;
use super::envelope::{self, ErrorBody, Success};

/// How the daemon is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`
    status: &'static str,
    /// Version of the daemon.
    version: &'static str,
}

const HEALTH: Health = Health {
    status: "ok",
    version: env!("CARGO_PKG_VERSION"),
};

/// `GET /healthz`
pub(super) struct GetHealth;

/// Whether the process answers.
#[endpoint(
    operation_id = "health",
    tags("health"),
    responses((status_code = 200, body = Success<Health>, description = "It does.")),
    security(()),
)]
impl GetHealth {
    async fn handle(&self, res: &mut Response) {
        envelope::ok(res, HEALTH);
    }
}

/// `GET /readyz`
pub(super) struct GetReady(pub(super) Parts);

/// Whether requests are taken.
#[endpoint(
    operation_id = "ready",
    tags("health"),
    responses(
        (status_code = 200, body = Success<Health>, description = "They are."),
        (status_code = 503, body = ErrorBody, description = "They are not: stopping, or no room on the disk."),
    ),
    security(()),
)]
impl GetReady {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        match self.0.gate.check() {
            Ok(()) => envelope::ok(res, HEALTH),
            Err(error) => envelope::refuse(req, res, error),
        }
    }
}

/// `GET /metrics`
pub(super) struct GetMetrics(pub(super) Parts);

/// Metrics for Prometheus.
///
/// OpenMetrics text.
#[endpoint(
    operation_id = "metrics",
    tags("health"),
    responses(
        (status_code = 200, body = String, content_type = "application/openmetrics-text", description = "All metrics."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
    ),
    security(("admin_token" = [])),
)]
impl GetMetrics {
    async fn handle(&self, res: &mut Response) {
        let condition = Condition::of(&self.0).await;
        let amounts = condition.amounts(&self.0).await;
        condition.show(&amounts, &self.0);
        res.status_code(StatusCode::OK);
        res.headers_mut().insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
        );
        res.body(self.0.metrics.render());
    }
}
