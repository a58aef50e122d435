//! Search over everything that has a key, an id, a name or an error.
//!
//! **Invariant**: a text that cannot be searched for is refused; whatever else is in it is found as text.

use salvo_core::http::StatusCode;
use salvo_core::{Depot, Request, Response, Router, Writer, async_trait};
use salvo_oapi::{Components, EndpointOutRegister, Operation, RouterExt, ToSchema, endpoint};
use serde::Serialize;

use super::paging::{cursor, limit};
use base::clock;
use http::envelope::write_json;
use http::error::ApiError;
use operate::Operator;
use operate::search::{SearchHit, check_text};
use wire::SearchData;

/// Searching.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("search")
        .oapi_tag("status")
        .get(SearchAll(operator.clone()))
}

/// `{"success": true, "data": […], "next": …, "stopped_at": …}`
#[derive(Debug, Serialize, ToSchema)]
struct SearchListing {
    success: bool,
    data: Vec<SearchData>,
    /// The `cursor` of the next page; null: everything was searched.
    next: Option<String>,
    /// Of a page with fewer than `limit` hits although there is a next one: the search stopped at requests or dead letters of this time, RFC 3339; `next` continues with older ones. Otherwise null.
    stopped_at: Option<String>,
}

#[async_trait]
impl Writer for SearchListing {
    async fn write(self, _: &mut Request, _: &mut Depot, res: &mut Response) {
        let json = serde_json::to_vec(&self).unwrap_or_default();
        write_json(res, StatusCode::OK, json);
    }
}

impl EndpointOutRegister for SearchListing {
    fn register(components: &mut Components, operation: &mut Operation) {
        let schema = Self::to_schema(components);
        let page = salvo_oapi::Response::new("A page.").add_content("application/json", schema);
        operation.responses.insert("200", page);
    }
}

struct SearchAll(Operator);

/// Search items, requests and everything that has a name.
///
/// In this order: items with exactly this key, the request with this id, streams, connectors, keys, read keys and sinks
/// whose names (of keys also the beginning that is shown) have the text, items whose keys begin with it, dead letters of
/// an item with this key or with the text in their reason, and requests with the text in their error, idempotency key,
/// delivery id, key or client address.
/// A page reads a bounded part of what is stored: it may be shorter than `limit`, even empty, and `next` continues from
/// there until it is null.
#[endpoint(
    operation_id = "search",
    parameters(
        ("q" = String, Query, min_length = 1, description = "The text, 1 to 512 bytes without NUL. Keys of items are compared exactly; other texts are found ignoring the case of A to Z."),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50."),
        ("cursor" = Option<String>, Query, description = "`next` of the previous page, with the same `q`."),
    ),
)]
impl SearchAll {
    async fn handle(&self, req: &mut Request) -> Result<SearchListing, ApiError> {
        let text = req.query::<String>("q").unwrap_or_default();
        check_text(&text).map_err(ApiError::invalid)?;
        let (cursor, limit) = (cursor(req)?, limit(req)?);
        let page = self.0.search(&text, cursor, limit).await?;
        if let Some(error) = page.unread {
            return Err(error.into());
        }
        Ok(SearchListing {
            success: true,
            data: page.hits.into_iter().map(data).collect(),
            next: page.next.map(|next| next.to_string()),
            stopped_at: page.stopped_at.map(clock::rfc3339),
        })
    }
}

fn data(hit: SearchHit) -> SearchData {
    SearchData {
        kind: hit.kind.to_owned(),
        stream: hit.stream,
        key: hit.key,
        title: hit.title,
        at: hit.at,
        page: hit.page,
    }
}
