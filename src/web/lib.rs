//! The pages of the admin listener, rendered on the server: a directory per subject, a file per page. Each subject
//! lists its routes.
//!
//! They show the responses of the admin API, and their forms and buttons do the same as its calls. Every two seconds,
//! htmx requests the parts that follow the daemon; the server sends them only if they have changed.
//!
//! **Invariant**: without a session (`http::sessions`) whose token has the role in [`routes`], no data of the daemon is
//! shown and nothing can be done. A session gives access to these pages only.
#![deny(unsafe_code)]

mod assets;
mod audit;
mod badge;
mod chart;
mod connector;
mod cookie;
mod description;
pub mod docs;
mod form;
mod form_data;
mod frame;
mod grid;
mod guard;
mod held;
mod key;
mod moved;
mod node;
mod origin;
mod overview;
mod paths;
mod read_key;
mod renderers;
mod request;
mod search;
mod settings;
mod sign_in;
mod signed_in;
mod sink;
mod sink_table;
mod snippets;
mod stream;
mod text;
mod tool;

use std::sync::Arc;

use salvo_core::Router;

pub use guard::CheckSite;
use http::access::Needs;
use http::{AdminParts, database_wait};

/// Routes of the pages and their files.
pub fn routes(parts: &AdminParts) -> Router {
    let p = || parts.operator.clone();
    let settings = Router::with_path("settings")
        .get(settings::Settings(p()))
        .push(Router::with_path("back-up").post(settings::BackUp(p())));
    let search = Router::with_path("search").get(search::Search(p()));
    let subjects = [
        (Needs::VIEW, Router::new().get(overview::Overview(p()))),
        (Needs::VIEW, search),
        (Needs::VIEW, moved::routes()),
        (Needs::MANAGE, connector::routes(&parts.operator)),
        (Needs::RUN, connector::run(&parts.operator)),
        (Needs::RUN, request::routes(&parts.operator)),
        (Needs::RUN, sink::routes(&parts.operator)),
        (Needs::MANAGE, sink::made(&parts.operator)),
        (Needs::RUN, renderers::routes(&parts.operator)),
        (Needs::MANAGE, read_key::routes(&parts.operator)),
        (
            Needs::RUN,
            Router::with_path("audit")
                .get(audit::Audit(p()))
                .push(Router::with_path("{id}").get(audit::AuditEntryPage(p()))),
        ),
        (Needs::MANAGE, stream::routes(&parts.operator)),
        (Needs::RUN, stream::act_routes(&parts.operator)),
        (Needs::VIEW, stream::export_routes(&parts.operator)),
        (Needs::RUN, settings),
        (Needs::MANAGE, settings::of_nodes(&parts.operator)),
        (
            Needs::MANAGE,
            signed_in::routes(&parts.operator, &parts.sessions),
        ),
        (
            Needs::VIEW,
            Router::with_path("sign-out").post(sign_in::SignOut(p())),
        ),
    ];
    let pages = (subjects.into_iter()).fold(Router::new(), |all, (needs, pages)| {
        all.push(guard::require_session(parts, needs, pages))
    });
    let guarded = Router::new()
        .hoop(CheckSite::of_pages(&parts.hosts))
        .push(
            Router::with_path("sign-in")
                .get(sign_in::ShowSignIn)
                .post(sign_in::SignIn(
                    Arc::clone(&parts.sessions),
                    parts.operator.clone(),
                )),
        )
        .push(pages);
    Router::new()
        .push(assets::routes())
        .push(database_wait::bounded(
            &parts.operator,
            |error, req, res| frame::NoPage::from(error).answer(req, res),
            guarded,
        ))
}
