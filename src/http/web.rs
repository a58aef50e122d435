//! The pages of the admin listener, made on the server, one file a page.
//!
//! They show what the admin API answers, and their buttons do what its calls do. What follows the daemon is asked for
//! again every two seconds by htmx, and sent only if it has changed.
//!
//! **Invariant**: nothing of the daemon's data is shown, and nothing is done, without a session ([`sessions`]); the
//! session opens nothing but these pages.

mod assets;
mod badge;
mod chart;
mod curl;
mod frame;
mod guard;
mod overview;
mod renderers;
mod request;
pub(in crate::http) mod sessions;
mod settings;
mod sign_in;
mod sink;
mod sinks;
mod snippets;
mod source;
mod sources;
mod stream;
mod streams;
mod text;

use std::sync::Arc;

use salvo_core::Router;

pub(super) use guard::CheckSite;

use super::Parts;

/// The pages and what they load.
pub(super) fn routes(parts: &Parts) -> Router {
    let p = || parts.clone();
    let pages = Router::new()
        .hoop(guard::RequireSession(Arc::clone(&parts.sessions)))
        .push(Router::new().get(overview::Overview(p())))
        .push(Router::with_path("sources").get(sources::Sources(p())))
        .push(Router::with_path("sources/{name}").get(source::Source(p())))
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
                .push(Router::with_path("discard").post(sink::Discard(p()))),
        )
        .push(Router::with_path("renderers").get(renderers::Renderers(p())))
        .push(Router::with_path("streams").get(streams::Streams(p())))
        .push(
            Router::with_path("streams/{name}")
                .get(stream::Stream(p()))
                .push(Router::with_path("item").get(stream::ShowItem(p())))
                .push(Router::with_path("remove").post(stream::RemoveItem(p()))),
        )
        .push(
            Router::with_path("settings")
                .get(settings::Settings(p()))
                .push(Router::with_path("back-up").post(settings::BackUp(p()))),
        )
        .push(Router::with_path("sign-out").post(sign_in::SignOut(p())));
    let assets = Router::with_path("assets")
        .push(Router::with_path("htmx.js").get(assets::Asset::htmx()))
        .push(Router::with_path("web.js").get(assets::Asset::script()))
        .push(Router::with_path("web.css").get(assets::Asset::style()))
        .push(Router::with_path("icon.svg").get(assets::Asset::icon()));
    Router::new().push(assets).push(
        Router::new()
            .hoop(CheckSite::of_pages(parts))
            .push(
                Router::with_path("sign-in")
                    .get(sign_in::ShowSignIn)
                    .post(sign_in::SignIn(p())),
            )
            .push(pages),
    )
}
