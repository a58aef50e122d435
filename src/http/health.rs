//! Health, readiness and metrics.
//!
//! **Invariant**: `/healthz` reports that the process responds, `/readyz` that it accepts requests.

use std::sync::Arc;

use salvo_core::http::StatusCode;
use salvo_core::http::header::{CONTENT_TYPE, HeaderValue};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};
use salvo_oapi::{ToSchema, endpoint};
use serde::Serialize;

use super::envelope::{self, Success};
use super::error::ApiError;
use ::ingest::Gate;
use operate::Operator;

/// The state of the daemon.
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
pub struct GetHealth;

/// Whether the process responds.
#[endpoint(
    operation_id = "health",
    tags("health"),
    responses((status_code = 200, body = Success<Health>, description = "The process responds.")),
    security(()),
)]
impl GetHealth {
    async fn handle(&self) -> Success<Health> {
        envelope::ok(HEALTH)
    }
}

/// `GET /readyz`
pub struct GetReady(pub Arc<Gate>);

/// Whether the daemon accepts requests.
#[endpoint(
    operation_id = "ready",
    tags("health"),
    responses(
        (status_code = 200, body = Success<Health>, description = "The daemon accepts requests."),
        (status_code = 503, description = "The daemon does not accept requests: it is stopping, or the disk is full. On a node of a cluster also: `details` names `database`, which cannot be reached, or `copy`, which is over 10 s behind."),
    ),
    security(()),
)]
impl GetReady {
    async fn handle(&self) -> Result<Success<Health>, ApiError> {
        if let Some((what, sentence)) = self.0.not_ready() {
            return Err(ApiError::busy(sentence).with_names("FIELD_NOT_FOUND", [what].into_iter()));
        }
        self.0.check()?;
        Ok(envelope::ok(HEALTH))
    }
}

/// Progress of an upgrade, as a sentence.
pub type Progress = Arc<dyn Fn() -> String + Send + Sync>;

/// Answers all routes except `/healthz` while files are upgraded.
pub struct Upgrading(pub Progress);

#[async_trait]
impl Handler for Upgrading {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        ApiError::busy((self.0)()).answer(req, res);
    }
}

/// `GET /metrics`
pub struct GetMetrics(pub Operator);

/// Metrics for Prometheus.
///
/// OpenMetrics text.
#[endpoint(
    operation_id = "metrics",
    tags("health"),
    responses(
        (status_code = 200, body = String, content_type = "application/openmetrics-text", description = "All metrics."),
    ),
)]
impl GetMetrics {
    async fn handle(&self, res: &mut Response) {
        let metrics = self.0.metrics_now().await;
        res.status_code(StatusCode::OK);
        res.headers_mut().insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
        );
        res.body(metrics);
    }
}
