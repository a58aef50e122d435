//! The admin API: what operators and the command line read and do.
//!
//! Each file lists its routes, describes what it takes and answers, and translates; the work is done in
//! [`operate`].
//!
//! **Invariant**: every route here needs a token with the role that [`routes`] names for its subject, and no answer holds
//! a secret, except those that make a key, a ticket or a link to sign in.
#![deny(unsafe_code)]

mod acts;
mod audit;
mod backups;
mod body;
mod cluster;
mod connectors;
mod dead_letters;
mod items;
mod keys;
pub mod openapi;
mod paging;
mod plugins;
mod presets;
mod read_keys;
mod renderers;
mod requests;
mod resend;
mod retries;
mod screens;
mod search;
mod sessions;
mod sign_in_link;
mod sinks;
mod status;
mod streams;
mod trial;
mod trigger;

use std::sync::Arc;

use salvo_core::{Request, Router};

use base::clock::Unix;
use http::access::{Needs, by_token as by, require_token};
use http::error::ApiError;
use http::sessions::Sessions;
use operate::Operator;

pub use audit::verified_data;

/// Every route of the admin API, and the roles that it needs.
pub fn routes(operator: &Operator, signed_in: &Arc<Sessions>) -> Router {
    let subjects = [
        (Needs::VIEW, status::routes(operator)),
        (Needs::VIEW, search::routes(operator)),
        (Needs::MANAGE, streams::routes(operator)),
        (Needs::RUN, acts::routes(operator)),
        (Needs::RUN, items::routes(operator)),
        (Needs::MANAGE, connectors::routes(operator)),
        (Needs::MANAGE, keys::routes(operator)),
        (Needs::RUN, trigger::routes(operator)),
        (Needs::MANAGE, read_keys::routes(operator)),
        (Needs::RUN, requests::routes(operator)),
        (Needs::RUN, resend::routes(operator)),
        (Needs::RUN, sinks::routes(operator)),
        (Needs::RUN, trial::routes(operator)),
        (Needs::MANAGE, sinks::made(operator)),
        (Needs::MANAGE, plugins::routes(operator)),
        (Needs::MANAGE, presets::routes(operator)),
        (Needs::RUN, retries::routes(operator)),
        (Needs::RUN, dead_letters::routes(operator)),
        // A ticket reads, which every viewer may.
        (Needs::VIEW, renderers::routes(operator)),
        (Needs::RUN, screens::routes(operator)),
        (Needs::RUN, backups::routes(operator)),
        (Needs::RUN, audit::routes(operator)),
        // Who comes with the link may do no more than who asked for it.
        (Needs::VIEW, sign_in_link::routes(operator, signed_in)),
        (Needs::MANAGE, sessions::routes(operator, signed_in)),
        (Needs::MANAGE, cluster::routes(operator)),
    ];
    let all = Router::with_path("api/admin");
    (subjects.into_iter()).fold(all, |all, (needs, routes)| {
        all.push(require_token(operator, needs, routes))
    })
}

/// A time of the query; none: it is not there.
fn time(req: &mut Request, name: &str) -> Result<Option<Unix>, ApiError> {
    match req.query::<String>(name) {
        None => Ok(None),
        Some(text) => base::clock::parse_rfc3339(&text).map(Some).ok_or_else(|| {
            ApiError::invalid(format!(
                "{name} must be a time like 2026-01-31T12:00:00Z (a + must be sent as %2B)"
            ))
        }),
    }
}

/// A part of the path.
fn param(req: &Request, name: &str) -> String {
    req.param::<String>(name).unwrap_or_default()
}
