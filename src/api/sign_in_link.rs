//! A link that signs in to the admin pages, for who has an admin token.
//!
//! **Invariant**: the answer that holds it is kept by nobody, and the audit log does not have it.

use std::sync::Arc;

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, endpoint};
use serde_json::json;

use super::by;
use base::clock;
use catalog::{AuditChange, ResourceKind};
use http::access::token_of;
use http::envelope::{self, Success};
use http::error::ApiError;
use http::sessions::Sessions;
use operate::Operator;
use wire::SignInLinkData;

/// Getting a link.
pub(super) fn routes(operator: &Operator, sessions: &Arc<Sessions>) -> Router {
    Router::with_path("sign-in-links")
        .oapi_tag("status")
        .post(PostSignInLink(operator.clone(), Arc::clone(sessions)))
}

struct PostSignInLink(Operator, Arc<Sessions>);

/// Get a link that signs in to the admin pages.
///
/// It works once, within ten minutes, and replaces the previous link. The session has the role of the requesting token.
#[endpoint(
    operation_id = "create_sign_in_link",
    responses((status_code = 201, body = Success<SignInLinkData>, description = "The link.")),
)]
impl PostSignInLink {
    async fn handle(&self, req: &mut Request) -> Result<Success<SignInLinkData>, ApiError> {
        let Self(operator, sessions) = self;
        let token = token_of(req)?;
        let invitation = sessions.invite(&token).await?;
        let expires_at = clock::rfc3339(invitation.ends_at);
        let details = json!({ "expires_at": expires_at });
        let change = AuditChange::done("create", ResourceKind::SignInLink, &*token.name, details);
        operator.record_access(by(req), change).await;
        Ok(envelope::created(SignInLinkData {
            path: invitation.path(),
            expires_at,
        }))
    }
}
