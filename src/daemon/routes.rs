//! Every route of both listeners: those of the service listener, the admin API and the admin pages, whose subjects list
//! their own.
//!
//! `daemon` binds and serves what this module builds.
//!
//! **Invariant**: what `http` promises of each answer holds for each route, since all pass its middleware.

use std::sync::Arc;

use api::openapi;
use http::access::Needs;
use http::document::Document;
use http::error::ApiError;
use http::ingest::{Direct, Submit};
use http::nowhere::Nowhere;
use http::reader::Readers;
use http::server::Routes;
use http::unauthenticated::Unauthenticated;
use http::{
    AdminParts, Outside, ServiceParts, access, acts, database_wait, head, health, ingest, items,
    live, middleware, pages, reader, ticket, user_pages,
};
use salvo_core::catcher::Catcher;
use salvo_core::{Router, Service};
use web::docs;

use operate::Operator;
use settings::Networks;

/// The service listener: what callers and renderers use.
pub fn service(parts: &ServiceParts) -> Routes {
    let described = parts.clone();
    let document = openapi::service(move || service_routes(&described));
    let router = service_routes(parts).push(document_routes(&document, docs::Listener::Service));
    let outer = Arc::new(middleware::Outer {
        unauthenticated: Unauthenticated::new(parts.outside.unauthorized_per_second),
        ..outer(&parts.operator, &parts.outside)
    });
    Routes {
        direct: Some(Arc::new(Direct {
            submit: submit(parts),
            outer: Arc::clone(&outer),
        })),
        service: finish(router, outer, Nowhere::SERVICE),
    }
}

fn submit(parts: &ServiceParts) -> Submit {
    Submit {
        ingest: Arc::clone(&parts.operator.ingest),
        body_timeout_seconds: parts.body_timeout_seconds,
    }
}

/// Its routes, but for those that describe them.
fn service_routes(parts: &ServiceParts) -> Router {
    let ingest = || Arc::clone(&parts.operator.ingest);
    let submit = || submit(parts);
    let readers = || Readers {
        catalog: Arc::clone(&parts.operator.catalog),
        pool: Arc::clone(&parts.operator.pool),
        live: Arc::clone(&parts.operator.live),
    };
    let requests = parts.operator.requests.clone();
    let gate = Arc::clone(&parts.operator.gate);
    Router::new()
        .push(Router::with_path("api/ingest").post(ingest::PostIngest(submit())))
        .push(Router::with_path("api/webhook/{stream}").post(ingest::PostWebhook(submit())))
        .push(
            Router::with_path("api/webhook/{stream}/{connector}")
                .post(ingest::PostAddress(submit()))
                .get(ingest::GetAddress(ingest()))
                .head(ingest::Greet(ingest()))
                .options(ingest::Greet(ingest())),
        )
        .push(
            Router::with_path("api/requests/{request_id}")
                .get(ingest::GetRequest(ingest(), requests)),
        )
        .push(
            Router::new()
                .hoop(reader::CheckOrigin {
                    listed: Arc::clone(&parts.origins),
                    catalog: Arc::clone(&parts.operator.catalog),
                })
                .push(read_route("api/live").get(live::GetLive(readers())))
                .push(read_route("api/tickets").post(ticket::PostTicket(readers())))
                .push(read_route("api/streams/{stream}/items").get(items::ListItems(readers())))
                .push(read_route("feed/{stream}.{format}").get(feed::GetFeed {
                    readers: readers(),
                    feeds: Arc::default(),
                    metrics: Arc::clone(&parts.operator.metrics),
                }))
                .push(
                    read_route("api/streams/{stream}/items/{key}")
                        .get(items::GetItem(readers()))
                        .delete(items::DeleteItem(ingest())),
                ),
        )
        .push(database_wait::bounded(
            &parts.operator,
            ApiError::answer,
            acts::routes(&acts::Operating {
                readers: readers(),
                operator: parts.operator.clone(),
            }),
        ))
        .push(pages::routes())
        .push(user_pages::routes(&parts.operator.about.data_dir))
        .push(Router::with_path("healthz").get(health::GetHealth))
        .push(Router::with_path("readyz").get(health::GetReady(gate)))
}

/// A path that pages of other origins may read from.
fn read_route(path: &str) -> Router {
    Router::with_path(path).options(reader::Preflight)
}

/// The admin listener: what operators use. Everything but `/healthz` and its documentation needs a token with
/// the role for it, or, for the pages, a session that was begun with one.
pub fn admin(parts: &AdminParts) -> Service {
    let described = parts.clone();
    let document = openapi::admin(move || admin_routes(&described));
    let router = admin_routes(parts)
        .push(document_routes(&document, docs::Listener::Admin))
        .push(web::routes(parts));
    let outer = middleware::Outer {
        networks: parts.outside.admin_networks.clone(),
        ..outer(&parts.operator, &parts.outside)
    };
    finish(router, Arc::new(outer), Nowhere::ADMIN)
}

/// Its routes, but for the pages and those that describe them.
fn admin_routes(parts: &AdminParts) -> Router {
    let operator = &parts.operator;
    let metrics = Router::with_path("metrics").get(health::GetMetrics(operator.clone()));
    let guarded = Router::new()
        .hoop(web::CheckSite::of_api(&parts.hosts))
        .push(access::require_token(operator, Needs::METRICS, metrics))
        .push(api::routes(operator, &parts.sessions));
    Router::new()
        .push(database_wait::bounded(operator, ApiError::answer, guarded))
        .push(Router::with_path("healthz").get(health::GetHealth))
}

/// What describes a listener. It is the same for everybody and needs no key. The document is made at the first call,
/// because it would be most of the work of a start.
fn document_routes(document: &Arc<Document>, listener: docs::Listener) -> Router {
    let guide = docs::GetGuide {
        document: Arc::clone(document),
        listener,
    };
    let reference = docs::GetReference {
        document: Arc::clone(document),
        listener,
    };
    let document = openapi::GetDocument(Arc::clone(document));
    Router::new()
        .push(Router::with_path("docs").get(guide))
        .push(Router::with_path("docs/api").get(reference))
        .push(Router::with_path("docs/{page}").get(docs::GetGuidePage(listener)))
        .push(Router::with_path("docs.css").get(docs::style()))
        .push(Router::with_path("favicon.ico").get(docs::icon()))
        .push(Router::with_path("openapi.json").get(document))
}

/// Either listener while files are upgraded. `/healthz` succeeds, so that a supervisor does not end the process in the
/// middle of an upgrade.
pub fn upgrading(progress: &health::Progress) -> Service {
    let handler = || health::Upgrading(Arc::clone(progress));
    Service::new(
        Router::new()
            .push(
                Router::with_path("healthz")
                    .get(health::GetHealth)
                    .head(health::GetHealth),
            )
            .push(Router::with_path("{**rest}").goal(handler())),
    )
}

/// What surrounds the requests of both listeners.
fn outer(operator: &Operator, outside: &Outside) -> middleware::Outer {
    middleware::Outer {
        metrics: Arc::clone(&operator.metrics),
        log_requests: outside.log_requests,
        proxies: outside.proxies.clone(),
        networks: Networks::default(),
        unauthenticated: None,
    }
}

fn finish(router: Router, outer: Arc<middleware::Outer>, nowhere: Nowhere) -> Service {
    let mut service = Service::new(head::with_get(router));
    service.hoops.push(outer);
    service.catcher(Catcher::new(middleware::ErrorEnvelope(nowhere)))
}
