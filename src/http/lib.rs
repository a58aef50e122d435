//! Common parts of the two listeners, and the handlers of the service listener.
//!
//! `feed`, the admin API and the pages use it; the daemon combines all routes, binds the listeners and serves them.
//!
//! **Invariant**: every response to an HTTP request carries `X-Request-Id`, and every error has the envelope of
//! `envelope.rs`, even if the framework or a panic causes it.
#![deny(unsafe_code)]

pub mod access;
pub mod acts;
mod admission;
pub mod asset;
mod behind;
pub mod body;
pub mod connections;
pub mod database_wait;
mod dispatch;
pub mod document;
pub mod envelope;
pub mod error;
pub mod filter;
pub mod forwarded;
pub mod head;
pub mod health;
pub mod host;
pub mod ingest;
pub mod items;
pub mod listen;
pub mod live;
pub mod middleware;
pub mod nowhere;
pub mod offline_page;
pub mod pages;
pub mod paging;
mod proxy_protocol;
pub mod rate;
pub mod reader;
pub mod server;
pub mod sessions;
pub mod sink_state;
pub mod stale;
mod stream;
pub mod tag;
pub mod ticket;
pub mod tls;
pub mod unauthenticated;
pub mod user_pages;

use std::sync::Arc;

use forwarded::Proxies;
use host::Hosts;
use operate::Operator;
use sessions::Sessions;
use settings::{Networks, Settings};

/// Settings that both listeners share.
#[derive(Debug, Clone)]
pub struct Outside {
    /// Whether each request is logged.
    pub log_requests: bool,
    /// Proxies that can name the client.
    pub proxies: Proxies,
    /// Networks from which the admin listener accepts requests.
    pub admin_networks: Networks,
    /// Maximum responses with status 401 per second for one address.
    pub unauthorized_per_second: u32,
}

impl Outside {
    /// The settings of the configuration.
    pub fn of(settings: &Settings) -> Self {
        Self {
            log_requests: settings.log.requests,
            proxies: Proxies::of(&settings.server),
            admin_networks: settings.admin.networks.clone(),
            unauthorized_per_second: settings.limits.unauthorized_per_second,
        }
    }
}

/// State of the service listener.
#[derive(Debug, Clone)]
pub struct ServiceParts {
    /// The core, for submitting and reading items.
    pub operator: Operator,
    /// Origins of pages that can read, in addition to the daemon's own.
    pub origins: Arc<[String]>,
    /// Maximum seconds for reading a body.
    pub body_timeout_seconds: u64,
    /// Settings that both listeners share.
    pub outside: Outside,
}

/// State of the admin listener.
#[derive(Debug, Clone)]
pub struct AdminParts {
    /// The core, for reading and changing it.
    pub operator: Operator,
    /// Sessions of the admin pages.
    pub sessions: Arc<Sessions>,
    /// Names of the admin pages and the admin API, in addition to addresses and `localhost`.
    pub hosts: Hosts,
    /// Settings that both listeners share.
    pub outside: Outside,
}
