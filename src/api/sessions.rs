//! Who is signed in to the admin pages.
//!
//! **Invariant**: what names a session here opens nothing; its secret is in no answer.

use std::sync::Arc;

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};

use super::{by, param};
use base::clock;
use http::envelope::{self, Listing, Success};
use http::error::ApiError;
use http::sessions::{Sessions, SignedIn};
use operate::Operator;
use wire::SessionData;

/// Looking who is signed in, and ending a session.
pub(super) fn routes(operator: &Operator, sessions: &Arc<Sessions>) -> Router {
    Router::with_path("sessions")
        .oapi_tag("status")
        .get(ListSessions(Arc::clone(sessions)))
        .push(Router::with_path("{id}").delete(EndSession(operator.clone(), Arc::clone(sessions))))
}

fn session_data(one: SignedIn) -> SessionData {
    SessionData {
        id: one.id.to_string(),
        token: one.token.name.to_string(),
        role: one.token.role.as_str().to_owned(),
        client: one.client,
        since: clock::rfc3339(one.since),
        last_seen: clock::rfc3339(one.seen_at),
        ends_at: clock::rfc3339(one.ends_at),
    }
}

struct ListSessions(Arc<Sessions>);

/// The sessions of the admin pages, newest first.
#[endpoint(operation_id = "list_sessions")]
impl ListSessions {
    async fn handle(&self) -> Result<Listing<SessionData>, ApiError> {
        let all = self.0.list().await?.into_iter().map(session_data);
        Ok(envelope::list(all.collect(), None))
    }
}

struct EndSession(Operator, Arc<Sessions>);

/// End a session.
///
/// Who has it is asked to sign in again.
#[endpoint(
    operation_id = "end_session",
    parameters(("id" = String, Path, description = "Id of the session.")),
    responses(
        (status_code = 200, body = Success<SessionData>, description = "The session that was ended."),
        (status_code = 404, description = "No such session."),
    ),
)]
impl EndSession {
    async fn handle(&self, req: &mut Request) -> Result<Success<SessionData>, ApiError> {
        let Self(operator, sessions) = self;
        let ended = match param(req, "id").parse() {
            Ok(id) => sessions.end(id).await?,
            Err(_) => None,
        };
        let ended = ended.ok_or_else(|| {
            let message = "no such session; /api/admin/sessions lists them";
            ApiError::not_found("SESSION_NOT_FOUND", message)
        })?;
        operator.record(by(req), ended.signed_out()).await;
        Ok(envelope::ok(session_data(ended)))
    }
}
