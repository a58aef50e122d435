//! The two listeners and every route of the daemon, in one table each.
//!
//! `daemon` binds and serves what this module builds. The handlers are in `http/`, one file an area.
//!
//! **Invariant**: every answer to a request that is HTTP, also one that the framework or a panic causes,
//! carries `X-Request-Id`, and every error the envelope of `http/envelope.rs`.

mod admin;
mod asset;
mod body;
mod condition;
mod docs;
mod envelope;
mod error;
mod health;
mod ingest;
mod items;
mod listen;
mod live;
mod middleware;
mod openapi;
mod pages;
mod reader;
mod shell;
mod web;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use salvo_core::catcher::Catcher;
use salvo_core::{Router, Service};

use crate::backup::Backups;
use crate::catalog::{Catalog, KeyHash};
use crate::config::Row;
use crate::delivery::Delivery;
use crate::ingest::{Gate, Ingest};
use crate::journal::Journal;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::pool::Pool;

pub use listen::{Bound, ListenError, Stopper, bind};
pub use web::sessions::Sessions;

/// What the handlers work with.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The pipeline.
    pub ingest: Arc<Ingest>,
    /// Streams, connectors, keys.
    pub catalog: Arc<Catalog>,
    /// The request log.
    pub journal: Arc<Journal>,
    /// Copies of the files.
    pub backups: Arc<Backups>,
    /// The lanes.
    pub delivery: Arc<Delivery>,
    /// The data pool.
    pub pool: Arc<Pool>,
    /// The renderers.
    pub live: Arc<Live>,
    /// Where pages that may read come from, beside the daemon's own.
    pub origins: Arc<[String]>,
    /// Whether requests are taken at the moment.
    pub gate: Arc<Gate>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Digest of the admin token.
    pub admin_token: KeyHash,
    /// Who is signed in to the admin pages.
    pub sessions: Arc<Sessions>,
    /// Names that the admin pages and API may be asked for by, beside addresses and `localhost`.
    pub hosts: Arc<[String]>,
    /// Whether each request is a line in the log.
    pub log_requests: bool,
    /// Seconds that a body may take.
    pub body_timeout_seconds: u64,
    /// What the status page says of the daemon.
    pub about: Arc<About>,
    /// How the last reading of the configuration went.
    pub configuration: Arc<Configuration>,
}

/// The configuration that is in use, and how the last reading of it went.
#[derive(Debug)]
pub struct Configuration {
    /// As it was at the start.
    started: Vec<Row>,
    last: Mutex<LastReading>,
}

#[derive(Debug)]
struct LastReading {
    problem: Option<String>,
    rows: Vec<Row>,
}

impl Configuration {
    /// The one that the daemon starts with.
    pub fn new(rows: Vec<Row>) -> Self {
        let last = LastReading {
            problem: None,
            rows: rows.clone(),
        };
        Self {
            started: rows,
            last: Mutex::new(last),
        }
    }

    /// Keeps what was read and is in use as far as it can be while the daemon runs.
    pub fn set_rows(&self, rows: Vec<Row>) {
        *self.lock() = LastReading {
            problem: None,
            rows,
        };
    }

    /// Every setting that is in use: read keys and sinks as they were read last, everything else as at the start.
    pub fn in_use(&self) -> Vec<Row> {
        let last = self.lock();
        let started = self.started.iter().filter(|row| !is_taken_at_once(row));
        let taken = last.rows.iter().filter(|row| is_taken_at_once(row));
        started.chain(taken).cloned().collect()
    }

    /// The settings that were read last and are used from the next start on. One that is gone is not among them.
    pub fn waiting(&self) -> Vec<Row> {
        let last = self.lock();
        let same = |row: &&Row| {
            let mut started = self.started.iter();
            started.any(|old| old.path == row.path && old.value == row.value)
        };
        let rows = last.rows.iter().filter(|row| !is_taken_at_once(row));
        rows.filter(|row| !same(row)).cloned().collect()
    }

    /// Where an element of a list is declared: files as they were named, `environment variable NAME`.
    pub fn declared_in(&self, list: &str, name: &str) -> String {
        let rows = self.in_use();
        let is_name = |row: &&Row| {
            let path = row.path.strip_prefix(list).unwrap_or_default();
            path.ends_with("].name") && path.matches('[').count() == 1 && row.value == name
        };
        let Some(element) = rows.iter().find(is_name) else {
            return "the configuration".to_owned();
        };
        let element = element.path.trim_end_matches("name");
        let mut sources: Vec<&str> = Vec::new();
        for row in rows.iter().filter(|row| row.path.starts_with(element)) {
            let source = match row.origin.rsplit_once(':') {
                Some((source, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => source,
                _ => &row.origin,
            };
            if source != "default" && !sources.contains(&source) {
                sources.push(source);
            }
        }
        sources.join(" and ")
    }

    /// Why the configuration as it stands is not in use.
    pub fn problem(&self) -> Option<String> {
        self.lock().problem.clone()
    }

    /// Keeps why it is not in use.
    pub fn set_problem(&self, problem: String) {
        self.lock().problem = Some(problem);
    }

    fn lock(&self) -> MutexGuard<'_, LastReading> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a change of this setting takes effect while the daemon runs.
fn is_taken_at_once(row: &Row) -> bool {
    ["sinks", "read_keys", "pool"].iter().any(|taken| {
        let rest = row.path.strip_prefix(taken);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
    })
}

/// Facts that do not change while the daemon runs.
#[derive(Debug)]
pub struct About {
    /// Name of the configuration profile.
    pub profile: String,
    /// Where the service listener is reached: `http://127.0.0.1:8080` or `unix:/…`.
    pub service_address: String,
    /// The data folder.
    pub data_dir: String,
    /// `fsync` or `os`.
    pub durability: &'static str,
    /// When the daemon started: Unix time in milliseconds.
    pub started_ms: u64,
}

/// The service listener: what callers and renderers use.
pub fn service(parts: &Parts) -> Service {
    let api = Router::new()
        .push(Router::with_path("api/ingest").post(ingest::PostIngest(parts.clone())))
        .push(Router::with_path("api/webhook/{stream}").post(ingest::PostWebhook(parts.clone())))
        .push(Router::with_path("api/requests/{request_id}").get(ingest::GetRequest(parts.clone())))
        .push(
            Router::new()
                .hoop(reader::CheckOrigin(Arc::clone(&parts.origins)))
                .push(read_route("api/live").get(live::GetLive(parts.clone())))
                .push(read_route("api/tickets").post(live::PostTicket(parts.clone())))
                .push(read_route("api/streams/{stream}/items").get(items::ListItems(parts.clone())))
                .push(
                    read_route("api/streams/{stream}/items/{key}")
                        .get(items::GetItem(parts.clone()))
                        .delete(items::DeleteItem(parts.clone())),
                ),
        )
        .push(Router::with_path("headgate.js").get(pages::Page::client()))
        .push(Router::with_path("render/{stream}").get(pages::Page::render()))
        .push(Router::with_path("render.js").get(pages::Page::render_script()))
        .push(Router::with_path("render.css").get(pages::Page::render_style()))
        .push(Router::with_path("healthz").get(health::GetHealth))
        .push(Router::with_path("readyz").get(health::GetReady(parts.clone())));
    let document = openapi::service(&api);
    let router = api.push(document_routes(document, docs::Listener::Service));
    finish(router, parts)
}

/// A path that pages of other origins may read from.
fn read_route(path: &str) -> Router {
    Router::with_path(path).options(reader::Preflight)
}

/// The admin listener: what operators use. Everything but `/healthz` and its documentation needs the
/// admin token, or, for the pages, a session.
pub fn admin(parts: &Parts) -> Service {
    let guarded = Router::new()
        .hoop(admin::RequireToken(parts.admin_token))
        .hoop(web::CheckSite::of_api(parts))
        .push(Router::with_path("metrics").get(health::GetMetrics(parts.clone())))
        .push(
            Router::with_path("api/admin")
                .push(Router::with_path("status").get(admin::GetStatus(parts.clone())))
                .push(catalog_routes(parts))
                .push(
                    Router::with_path("connectors/{id}/requests")
                        .get(admin::ListRequests(parts.clone())),
                )
                .push(
                    Router::with_path("requests/{request_id}")
                        .get(admin::GetRequest(parts.clone())),
                )
                .push(
                    Router::with_path("requests/{request_id}/content")
                        .get(admin::GetContent(parts.clone())),
                )
                .push(
                    Router::with_path("requests/{request_id}/send-again")
                        .post(admin::SendRequestAgain(parts.clone())),
                )
                .push(Router::with_path("backups").post(admin::PostBackup(parts.clone())))
                .push(Router::with_path("sinks").get(admin::ListSinks(parts.clone())))
                .push(Router::with_path("renderers").get(admin::ListRenderers(parts.clone())))
                .push(Router::with_path("tickets").post(admin::PostAdminTicket(parts.clone())))
                .push(Router::with_path("sinks/{name}/retry").post(admin::RetrySink(parts.clone())))
                .push(Router::with_path("sinks/{name}").delete(admin::ForgetSink(parts.clone())))
                .push(
                    Router::with_path("sinks/{name}/retries")
                        .get(admin::ListRetries(parts.clone())),
                )
                .push(
                    Router::with_path("sinks/{name}/retries/give-up")
                        .post(admin::GiveUpRetries(parts.clone())),
                )
                .push(
                    Router::with_path("sinks/{name}/retries/{id}")
                        .delete(admin::GiveUpRetry(parts.clone())),
                )
                .push(
                    Router::with_path("sinks/{name}/dead-letters")
                        .get(admin::ListDeadLetters(parts.clone()))
                        .delete(admin::DiscardLetters(parts.clone())),
                )
                .push(
                    Router::with_path("sinks/{name}/dead-letters/retry")
                        .post(admin::SendAgain(parts.clone())),
                )
                .push(
                    Router::with_path("sinks/{name}/dead-letters/{id}")
                        .delete(admin::DiscardLetter(parts.clone())),
                ),
        );
    let api = Router::new()
        .push(guarded)
        .push(Router::with_path("healthz").get(health::GetHealth));
    let document = openapi::admin(&api);
    let router = api
        .push(document_routes(document, docs::Listener::Admin))
        .push(web::routes(parts));
    finish(router, parts)
}

/// What describes a listener. It is the same for everybody and needs no key.
fn document_routes(document: openapi::Document, listener: docs::Listener) -> Router {
    Router::new()
        .push(Router::with_path("docs").get(docs::Docs::new(document.value(), listener)))
        .push(Router::with_path("docs.css").get(pages::Page::docs_style()))
        .push(Router::with_path("openapi.json").get(document))
}

/// What can be changed at run time.
fn catalog_routes(parts: &Parts) -> Router {
    Router::new()
        .push(
            Router::with_path("streams")
                .get(admin::ListStreams(parts.clone()))
                .post(admin::CreateStream(parts.clone())),
        )
        .push(
            Router::with_path("streams/{name}")
                .get(admin::GetStream(parts.clone()))
                .patch(admin::ChangeStream(parts.clone()))
                .delete(admin::DeleteStream(parts.clone())),
        )
        .push(
            Router::with_path("connectors")
                .get(admin::ListConnectors(parts.clone()))
                .post(admin::CreateConnector(parts.clone())),
        )
        .push(
            Router::with_path("connectors/{id}")
                .get(admin::GetConnector(parts.clone()))
                .patch(admin::ChangeConnector(parts.clone()))
                .delete(admin::DeleteConnector(parts.clone())),
        )
        .push(
            Router::with_path("connectors/{id}/keys")
                .get(admin::ListKeys(parts.clone()))
                .post(admin::CreateKey(parts.clone())),
        )
        .push(
            Router::with_path("connectors/{id}/keys/{name}")
                .get(admin::GetKey(parts.clone()))
                .patch(admin::ChangeKey(parts.clone()))
                .delete(admin::DeleteKey(parts.clone())),
        )
        .push(
            Router::with_path("connectors/{id}/keys/{name}/rotate")
                .post(admin::RotateKey(parts.clone())),
        )
        .push(
            Router::with_path("connectors/{id}/keys/{name}/revoke")
                .post(admin::RevokeKey(parts.clone())),
        )
        .push(
            Router::with_path("read-keys")
                .get(admin::ListReadKeys(parts.clone()))
                .post(admin::CreateReadKey(parts.clone())),
        )
        .push(
            Router::with_path("read-keys/{name}")
                .get(admin::GetReadKey(parts.clone()))
                .patch(admin::ChangeReadKey(parts.clone()))
                .delete(admin::DeleteReadKey(parts.clone())),
        )
        .push(
            Router::with_path("read-keys/{name}/revoke").post(admin::RevokeReadKey(parts.clone())),
        )
        .push(Router::with_path("audit").get(admin::ListAudit(parts.clone())))
}

fn finish(router: Router, parts: &Parts) -> Service {
    Service::new(router)
        .hoop(middleware::Outer {
            metrics: Arc::clone(&parts.metrics),
            log_requests: parts.log_requests,
        })
        .catcher(Catcher::new(middleware::Refusal))
}
