//! The pages of the admin listener, made on the server, one file a page.
//!
//! They show what the admin API answers, and their forms and buttons do what its calls do. What follows the daemon is
//! asked for again every two seconds by htmx, and sent only if it has changed.
//!
//! **Invariant**: nothing of the daemon's data is shown, and nothing is done, without a session ([`sessions`]); the
//! session opens nothing but these pages.

mod assets;
mod audit;
mod badge;
mod chart;
mod connector;
mod connector_change;
mod connectors;
mod curl;
mod form;
mod frame;
mod guard;
mod ingest_key;
mod key_shown_once;
mod new_connector;
mod overview;
mod read_key;
mod renderers;
mod request;
pub(in crate::http) mod sessions;
mod settings;
mod sign_in;
mod sink;
mod sinks;
mod snippets;
mod stream;
mod stream_change;
mod streams;
mod text;

use std::sync::Arc;

use salvo_core::Router;

pub(super) use guard::CheckSite;

use super::AdminParts;
use crate::operate::Operator;

/// The pages and what they load.
pub(super) fn routes(parts: &AdminParts) -> Router {
    let p = || parts.operator.clone();
    let pages = Router::new()
        .hoop(guard::RequireSession(Arc::clone(&parts.sessions)))
        .push(Router::new().get(overview::Overview(p())))
        .push(Router::with_path("sources").get(connectors::Connectors(p())))
        .push(connector_routes(&parts.operator))
        .push(
            Router::with_path("requests/{request_id}")
                .get(request::ShowRequest(p()))
                .push(Router::with_path("send-again").post(request::SendAgain(p()))),
        )
        .push(Router::with_path("sinks").get(sinks::Sinks(p())))
        .push(
            Router::with_path("sinks/{name}")
                .get(sink::Sink(p()))
                .push(Router::with_path("retry").post(sink::Retry(p())))
                .push(Router::with_path("again").post(sink::SendAgain(p())))
                .push(Router::with_path("discard").post(sink::Discard(p())))
                .push(Router::with_path("give-up").post(sink::GiveUp(p())))
                .push(Router::with_path("forget").post(sink::Forget(p()))),
        )
        .push(Router::with_path("renderers").get(renderers::Renderers(p())))
        .push(read_key_routes(&parts.operator))
        .push(Router::with_path("audit").get(audit::Audit(p())))
        .push(Router::with_path("streams").get(streams::Streams(p())))
        .push(
            Router::with_path("new/stream")
                .get(stream_change::ShowNewStream)
                .post(stream_change::NewStream(p())),
        )
        .push(
            Router::with_path("streams/{name}")
                .get(stream::Stream(p()))
                .push(
                    Router::with_path("change")
                        .get(stream_change::ShowChange(p()))
                        .post(stream_change::Change(p())),
                )
                .push(
                    Router::with_path("delete")
                        .get(stream_change::ShowDelete(p()))
                        .post(stream_change::Delete(p())),
                )
                .push(Router::with_path("item").get(stream::ShowItem(p())))
                .push(Router::with_path("remove").post(stream::RemoveItem(p()))),
        )
        .push(
            Router::with_path("settings")
                .get(settings::Settings(p()))
                .push(Router::with_path("back-up").post(settings::BackUp(p()))),
        )
        .push(Router::with_path("sign-out").post(sign_in::SignOut));
    let assets = Router::with_path("assets")
        .push(Router::with_path("htmx.js").get(assets::Asset::htmx()))
        .push(Router::with_path("web.js").get(assets::Asset::script()))
        .push(Router::with_path("web.css").get(assets::Asset::style()))
        .push(Router::with_path("icon.svg").get(assets::Asset::icon()));
    Router::new().push(assets).push(
        Router::new()
            .hoop(CheckSite::of_pages(&parts.hosts))
            .push(
                Router::with_path("sign-in")
                    .get(sign_in::ShowSignIn)
                    .post(sign_in::SignIn(
                        Arc::clone(&parts.sessions),
                        parts.admin_token,
                    )),
            )
            .push(pages),
    )
}

/// A connector and its keys.
fn connector_routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    let end_key = |path: &str, ending| {
        Router::with_path(path)
            .get(ingest_key::ShowEndKey(p(), ending))
            .post(ingest_key::EndKey(p(), ending))
    };
    let key = Router::with_path("keys/{key}")
        .get(ingest_key::ShowKey(p()))
        .push(Router::with_path("change").post(ingest_key::ChangeKey(p())))
        .push(Router::with_path("rotate").post(ingest_key::RotateKey(p())))
        .push(end_key("revoke", ingest_key::Ending::Revoke))
        .push(end_key("delete", ingest_key::Ending::Delete));
    Router::new()
        .push(
            Router::with_path("new/source")
                .get(new_connector::ShowNewConnector(p()))
                .post(new_connector::NewConnector(p())),
        )
        .push(
            Router::with_path("sources/{name}")
                .get(connector::ShowConnector(p()))
                .push(
                    Router::with_path("change")
                        .get(connector_change::ShowChange(p()))
                        .post(connector_change::Change(p())),
                )
                .push(
                    Router::with_path("delete")
                        .get(connector_change::ShowDelete(p()))
                        .post(connector_change::Delete(p())),
                )
                .push(
                    Router::with_path("new-key")
                        .get(ingest_key::ShowNewKey(p()))
                        .post(ingest_key::NewKey(p())),
                )
                .push(key),
        )
}

fn read_key_routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    let end_key = |path: &str, ending| {
        Router::with_path(path)
            .get(read_key::ShowEndReadKey(p(), ending))
            .post(read_key::EndReadKey(p(), ending))
    };
    Router::new()
        .push(
            Router::with_path("new/read-key")
                .get(read_key::ShowNewReadKey(p()))
                .post(read_key::NewReadKey(p())),
        )
        .push(
            Router::with_path("read-keys/{name}")
                .get(read_key::ShowReadKey(p()))
                .post(read_key::ChangeReadKey(p()))
                .push(end_key("revoke", ingest_key::Ending::Revoke))
                .push(end_key("delete", ingest_key::Ending::Delete)),
        )
}
