//! What the two listeners have in common, and the handlers of the service listener.
//!
//! `feed`, the admin API and the pages build on it; the daemon puts all routes together, binds and serves them.
//!
//! **Invariant**: every answer to a request that is HTTP, also one that the framework or a panic causes,
//! carries `X-Request-Id`, and every error the envelope of `envelope.rs`.
#![deny(unsafe_code)]

pub mod access;
pub mod acts;
mod admission;
pub mod asset;
pub mod body;
pub mod connections;
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
pub mod proxy_protocol;
pub mod rate;
pub mod reader;
pub mod sessions;
pub mod sink_state;
pub mod stale;
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

/// What both listeners have in common.
#[derive(Debug, Clone)]
pub struct Outside {
    /// Whether each request is a line in the log.
    pub log_requests: bool,
    /// Whose word on the client is taken.
    pub proxies: Proxies,
    /// Where the admin listener is asked from.
    pub admin_networks: Networks,
    /// Answers 401 that an address gets in a second.
    pub unauthorized_per_second: u32,
}

impl Outside {
    /// As the configuration says.
    pub fn of(settings: &Settings) -> Self {
        Self {
            log_requests: settings.log.requests,
            proxies: Proxies::of(&settings.server),
            admin_networks: settings.admin.networks.clone(),
            unauthorized_per_second: settings.limits.unauthorized_per_second,
        }
    }
}

/// What the service listener is made of.
#[derive(Debug, Clone)]
pub struct ServiceParts {
    /// What is submitted to, read from and looked at.
    pub operator: Operator,
    /// Where pages that may read come from, beside the daemon's own.
    pub origins: Arc<[String]>,
    /// Seconds that a body may take.
    pub body_timeout_seconds: u64,
    /// Who asks, and what the log is told of it.
    pub outside: Outside,
}

/// What the admin listener is made of.
#[derive(Debug, Clone)]
pub struct AdminParts {
    /// What is seen and done.
    pub operator: Operator,
    /// Who is signed in to the admin pages.
    pub sessions: Arc<Sessions>,
    /// Names that the admin pages and API may be asked for by, beside addresses and `localhost`.
    pub hosts: Hosts,
    /// Who asks, and what the log is told of it.
    pub outside: Outside,
}
