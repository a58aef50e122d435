//! What all changes of the catalog have in common: who makes them, where they run, how they are refused; and the
//! pages of its lists.
//!
//! **Invariant**: a change that has begun is made or refused as a whole, also when its caller has gone; renderers
//! whose keys ended hear of it then.

use std::sync::Arc;

use salvo_core::http::header::{CACHE_CONTROL, HeaderValue};
use salvo_core::{Request, Response};
use salvo_oapi::ToSchema;
use serde::Serialize;

use super::super::Parts;
use super::super::envelope;
use super::super::error::ApiError;
use super::super::ingest::client;
use super::{in_background, limit};
use crate::catalog::{Actor, AuditChange, Catalog, CatalogError};

/// Why a change was not made.
pub(super) enum Refused {
    /// The body or the query cannot be used.
    Invalid(String),
    /// The catalog says no.
    Catalog(CatalogError),
}

impl From<String> for Refused {
    fn from(message: String) -> Self {
        Self::Invalid(message)
    }
}

impl From<CatalogError> for Refused {
    fn from(error: CatalogError) -> Self {
        Self::Catalog(error)
    }
}

/// Makes a change for somebody with the admin token.
pub(super) async fn change<T: Send + 'static>(
    parts: &Parts,
    req: &Request,
    work: impl FnOnce(&Catalog, &Actor) -> Result<T, CatalogError> + Send + 'static,
) -> Result<T, Refused> {
    Ok(change_by("admin token", parts, req, work).await?)
}

/// Makes a change for somebody who was admitted by `who`.
pub(in crate::http) async fn change_by<T: Send + 'static>(
    who: &'static str,
    parts: &Parts,
    req: &Request,
    work: impl FnOnce(&Catalog, &Actor) -> Result<T, CatalogError> + Send + 'static,
) -> Result<T, CatalogError> {
    let actor = actor(who, req);
    let (catalog, live) = (Arc::clone(&parts.catalog), Arc::clone(&parts.live));
    let changed = in_background(move || {
        let changed = work(&catalog, &actor);
        live.look_again();
        changed
    });
    changed.await
}

/// Who calls: admitted by `who`.
pub(in crate::http) fn actor(who: &'static str, req: &Request) -> Actor {
    Actor {
        who,
        client: client(req).to_string(),
    }
}

/// Writes into the audit trail what was done to something that is not in the catalog. It is done: that the trail
/// cannot be written is told to the log alone.
pub(in crate::http) async fn note(parts: &Parts, actor: &Actor, change: AuditChange) {
    let (catalog, actor) = (Arc::clone(&parts.catalog), actor.clone());
    in_background(move || {
        if let Err(error) = catalog.note(&change, &actor) {
            tracing::error!(%error, ?change, "something was done, and the audit trail could not be written");
        }
    })
    .await;
}

/// Answers 200 with what is there now, or with the refusal.
pub(super) fn answer<T: Serialize + ToSchema + 'static>(
    done: Result<T, Refused>,
    req: &Request,
    res: &mut Response,
) {
    match done {
        Ok(data) => envelope::ok(res, data),
        Err(refused) => refuse(refused, req, res),
    }
}

/// Answers 201 with what was made, or with the refusal. It may hold a secret, so nobody keeps it.
pub(super) fn answer_made<T: Serialize + ToSchema + 'static>(
    done: Result<T, Refused>,
    req: &Request,
    res: &mut Response,
) {
    match done {
        Ok(data) => {
            res.headers_mut()
                .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            envelope::created(res, data);
        }
        Err(refused) => refuse(refused, req, res),
    }
}

/// Answers with a refusal.
pub(super) fn refuse(refused: Refused, req: &Request, res: &mut Response) {
    let error = match refused {
        Refused::Invalid(message) => ApiError::invalid(message),
        Refused::Catalog(error) => error.into(),
    };
    error.answer(req, res);
}

/// Answers with a page of what is listed by name: `limit` of them after the name `cursor`.
pub(super) fn list_page<T, D: Serialize + ToSchema + 'static>(
    all: &[Arc<T>],
    name: impl Fn(&T) -> &str,
    show: impl Fn(&T) -> D,
    req: &mut Request,
    res: &mut Response,
) {
    let limit = match limit(req) {
        Ok(limit) => limit as usize,
        Err(message) => return envelope::invalid(req, res, message),
    };
    let after = req.query::<String>("cursor").unwrap_or_default();
    let first = all.partition_point(|one| name(one) <= after.as_str());
    let rest = &all[first..];
    let page = &rest[..rest.len().min(limit)];
    let next = page.last().filter(|_| rest.len() > limit);
    let next = next.map(|last| name(last).to_owned());
    envelope::list(res, page.iter().map(|one| show(one)).collect(), next);
}

/// A part of the path.
pub(super) fn param(req: &Request, name: &str) -> String {
    req.param::<String>(name).unwrap_or_default()
}
