//! Forgetting a sink that is not configured any more.
//!
//! **Invariant**: what a sink has not taken is kept until somebody says here that nobody will ever want it.

use std::sync::Arc;

use salvo_core::{Request, Response};
use salvo_oapi::{ToSchema, endpoint};
use serde::Serialize;
use serde_json::json;

use super::super::Parts;
use super::super::envelope::{ErrorBody, Success};
use super::change::{actor, note};
use super::in_background;
use super::letters::{Refused, TOKEN, answer, name};
use crate::catalog::{Actor, AuditChange, Kind};
use crate::delivery::ForgetError;
use crate::pool::Undelivered;

/// What was forgotten of a sink.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct ForgottenData {
    /// Batches that waited for another attempt.
    retries: u64,
    /// Dead letters.
    dead_letters: u64,
}

/// `DELETE /api/admin/sinks/{name}`
pub(in crate::http) struct ForgetSink(pub(in crate::http) Parts);

/// Forget a sink.
///
/// Of a sink that is not in the configuration any more everything is kept: what was accepted since, its retries, dead
/// letters and state. All of that is gone for good then. A sink of this name that is configured later is a new one.
#[endpoint(
    operation_id = "forget_sink",
    tags("sinks"),
    parameters(("name" = String, Path, description = "Name of the sink.")),
    responses(
        (status_code = 200, body = Success<ForgottenData>, description = "Nothing is kept for it any more."),
        (status_code = 401, body = ErrorBody, description = "No valid admin token."),
        (status_code = 404, body = ErrorBody, description = "No such sink."),
        (status_code = 409, body = ErrorBody, description = "It is in the configuration."),
    ),
    security(("admin_token" = [])),
)]
impl ForgetSink {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let forgotten = forget(&self.0, &name(req), &actor(TOKEN, req)).await;
        let data = |forgotten: Undelivered| ForgottenData {
            retries: forgotten.retries,
            dead_letters: forgotten.dead_letters,
        };
        answer(forgotten.map(data), req, res);
    }
}

/// Forgets a sink that is not configured; what was kept of it.
pub(in crate::http) async fn forget(
    parts: &Parts,
    sink: &str,
    actor: &Actor,
) -> Result<Undelivered, Refused> {
    let (delivery, name) = (Arc::clone(&parts.delivery), sink.to_owned());
    let forgotten = match in_background(move || delivery.forget(&name)).await {
        Ok(Some(forgotten)) => forgotten,
        Ok(None) => return Err(Refused::NoSink),
        Err(ForgetError::Configured) => return Err(Refused::Configured),
        Err(ForgetError::Pool(error)) => return Err(error.into()),
    };
    let done = json!({ "retries": forgotten.retries, "dead_letters": forgotten.dead_letters });
    let change = AuditChange::done("forget", Kind::Sink, sink, done);
    note(parts, actor, change).await;
    Ok(forgotten)
}
