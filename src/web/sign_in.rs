//! Signing in and out.
//!
//! The link that `headgate sign-in` prints carries its secret in the fragment. So it is in no request line, in no log
//! of a proxy and in no `Referer`, and a program that only fetches links does not consume it. The script of the page
//! puts it into the form and sends it.
//!
//! **Invariant**: a session requires a token of the admin listener or an invitation, and no response repeats either.

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::http::StatusCode;
use salvo_core::http::header::RETRY_AFTER;
use salvo_core::{Depot, Request, Response, handler};
use serde_json::json;

use super::form_data::FormData;
use super::text::as_sentence;
use super::{cookie, frame};
use catalog::{AuditChange, ResourceKind};
use http::access::by_page;
use http::middleware;
use http::sessions::{SESSION, SessionError, Sessions, Visitor};
use operate::{By, Operator};
use settings::Role;

/// Unauthenticated clients can send this form, so it is small.
const FORM_BYTES_MAX: usize = 64 << 10;

/// `GET /sign-in`
pub(super) struct ShowSignIn;

#[handler]
impl ShowSignIn {
    async fn handle(&self, res: &mut Response) {
        frame::bare(res, StatusCode::OK, "Sign in", &form("/", None));
    }
}

/// `POST /sign-in`
pub(super) struct SignIn(pub(super) Arc<Sessions>, pub(super) Operator);

#[handler]
impl SignIn {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        let form_sent = FormData::read(req, FORM_BYTES_MAX)
            .await
            .unwrap_or_default();
        let token = form_sent.get("token").unwrap_or_default().trim();
        let next = form_sent.get("next").filter(|next| is_path(next));
        let next = next.unwrap_or("/");
        let Self(sessions, operator) = self;
        let with_token = operator.access.token(token);
        let who = with_token.as_ref().map(|token| token.who());
        let known = match with_token {
            Some(token) => Some(token),
            None => match sessions.accept_invitation(token).await {
                Ok(known) => known,
                Err(error) => return failed(&error, next, res),
            },
        };
        let by = By {
            who: match (who, &known) {
                (Some(who), _) => who,
                (None, Some(token)) => token.who_with_link(),
                (None, None) => "link".into(),
            },
            client: middleware::client(req),
            request_id: middleware::request_id(req),
        };
        let Some(known) = known else {
            if let Some(seconds) = operator.wrong_token(by).await {
                let why = format!("Too many invalid tokens from this address. Wait {seconds} s.");
                let page = form(next, Some(&why));
                res.headers_mut().insert(RETRY_AFTER, seconds.into());
                return frame::bare(res, StatusCode::TOO_MANY_REQUESTS, "Sign in", &page);
            }
            let why = "Invalid admin token or expired link. A link works once, for 10 minutes. To get a new one, run `headgate sign-in`.";
            let page = form(next, Some(why));
            return frame::bare(res, StatusCode::UNAUTHORIZED, "Sign in", &page);
        };
        if known.role < Role::Viewer {
            let why = operator
                .refuse_role(&known, Role::Viewer, "sign in to the pages", by)
                .await;
            let page = form(next, Some(&as_sentence(&why)));
            return frame::bare(res, StatusCode::FORBIDDEN, "Sign in", &page);
        }
        let (id, secret) = match sessions.begin(&known, by.client).await {
            Ok(begun) => begun,
            Err(error) => return failed(&error, next, res),
        };
        let change = AuditChange::done(
            "sign_in",
            ResourceKind::Session,
            by.client.to_string(),
            json!({ "session": id.to_string() }),
        );
        operator.record_access(by, change).await;
        cookie::set(req, res, &secret, SESSION.as_secs());
        frame::go(res, next);
    }
}

/// `POST /sign-out`
pub(super) struct SignOut(pub(super) Operator);

#[handler]
impl SignOut {
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        if let Some(visitor) = Visitor::of(depot) {
            match visitor.sign_out().await {
                Ok(Some(ended)) => self.0.record(by_page(req), ended.signed_out()).await,
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(%error, "a session cannot be ended");
                    let why = "The database of the cluster does not answer, so you are still signed in. Sign out again when it is back.";
                    let status = StatusCode::SERVICE_UNAVAILABLE;
                    return frame::notice(res, status, "Still signed in", why);
                }
            }
        }
        cookie::set(req, res, "", 0);
        frame::go(res, "/sign-in");
    }
}

/// Nobody can sign in now, or not with this link.
fn failed(error: &SessionError, next: &str, res: &mut Response) {
    let (status, why) = match error {
        SessionError::Random(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "The system has no random numbers. Try again.",
        ),
        SessionError::Database(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "The database of the cluster does not answer, so nobody can sign in. Try again when it is back; headgate cluster status shows its state.",
        ),
    };
    tracing::debug!(%error, "a sign-in failed");
    if status == StatusCode::SERVICE_UNAVAILABLE {
        res.headers_mut().insert(RETRY_AFTER, 5.into());
    }
    frame::bare(res, status, "Sign in", &form(next, Some(why)));
}

/// The form; after the sign-in, the visitor is redirected to `next`.
pub(super) fn form(next: &str, why: Option<&str>) -> Markup {
    html! {
        h1 { "Sign in" }
        @if let Some(why) = why { p.problem role="alert" { (why) } }
        form #sign-in method="post" action="/sign-in" {
            input type="hidden" name="next" value=(next);
            // For password managers.
            input type="text" name="username" value="admin" autocomplete="username" hidden;
            label for="token" { "Admin token" }
            input #token type="password" name="token" autocomplete="current-password" required autofocus;
            button { "Sign in" }
        }
        p.quiet { "By default, it is in the file " code { "admin.token" } " of the data directory. " code { "headgate sign-in" } " on the daemon's machine prints a one-time link that signs in without it." }
    }
}

/// Whether the text is a path of this site that browsers cannot take for a URL of another one.
fn is_path(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next() == Some(b'/')
        && !matches!(bytes.next(), Some(b'/' | b'\\'))
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::is_path;

    #[test]
    fn only_paths_of_this_site_are_led_to() {
        for path in ["/", "/connectors", "/connectors/a?status=failed"] {
            assert!(is_path(path), "{path}");
        }
        for other in [
            "",
            "connectors",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/a\r\nSet-Cookie: b",
        ] {
            assert!(!is_path(other), "{other}");
        }
    }
}
