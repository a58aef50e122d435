//! All items of a stream as a table: `export.csv`, `.tsv`, `.json`, `.ndjson` on the admin listener.
//!
//! The admin API and the page of a stream return it; `table/write.rs` has the writers of feeds.
//!
//! **Invariant**: rows are in the order of keys and are read page by page, so a stream of any size needs the memory of
//! one page. If keys are requested, only their items are read. An item that changes meanwhile may be included or not,
//! but no item is included twice.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use salvo_core::http::StatusCode;
use salvo_core::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use salvo_core::{Request, Response};

use crate::query_of;
use base::text::percent_encoded;
use http::error::ApiError;
use pool::{Item, PageLimit, Pool, PoolError};
use table::{Column, Format, Query, Row, Writer, columns};

const PAGE: PageLimit = PageLimit {
    rows: 1_000,
    bytes: 1 << 20,
};

pub const FORMATS: [&str; 4] = ["csv", "tsv", "json", "ndjson"];

/// The content type of each format.
pub fn content_types() -> impl Iterator<Item = &'static str> {
    let formats = FORMATS.into_iter().filter_map(Format::of);
    formats.map(Format::content_type)
}

struct Export {
    pool: Arc<Pool>,
    stream: Arc<str>,
    query: Query,
    columns: Vec<Column>,
    /// Key of the last row.
    after: Option<String>,
    rows: usize,
    is_begun: bool,
    is_done: bool,
}

/// Responds with all items of a stream.
pub async fn answer(
    pool: &Arc<Pool>,
    stream: &Arc<str>,
    format: &str,
    req: &mut Request,
    res: &mut Response,
) -> Result<(), ApiError> {
    let ending = format;
    let known = FORMATS.contains(&ending).then(|| Format::of(ending));
    let format = known.flatten().ok_or_else(|| {
        let message = format!(
            "there is no such format; an export ends with one of {}",
            FORMATS.join(", ")
        );
        ApiError::not_found("NOT_FOUND", message)
    })?;
    let query = query_of(format, req)?.of_all_rows();
    let export = Export {
        columns: columns(&query, pool.fields(stream).await?),
        pool: Arc::clone(pool),
        stream: Arc::clone(stream),
        query,
        after: None,
        rows: 0,
        is_begun: false,
        is_done: false,
    };
    let file = format!("{stream}.{ending}");
    let disposition = format!("attachment; filename*=UTF-8''{}", percent_encoded(&file));
    let headers = res.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(disposition) = HeaderValue::try_from(disposition) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    res.status_code(StatusCode::OK);
    res.stream(stream::unfold(export, async |mut export| {
        if export.is_done {
            return None;
        }
        let piece = export.next().await;
        if let Err(error) = &piece {
            // The connection ends within the body: who reads knows that it is not whole.
            tracing::error!(%error, stream = &*export.stream, "an export ended early");
            export.is_done = true;
        }
        Some((piece.map(Bytes::from), export))
    }));
    Ok(())
}

impl Export {
    /// Reads the next items: all, or those with the requested keys. Requested keys are sorted, so that the last key
    /// says where the next page begins.
    async fn items(&self) -> Result<Vec<Item>, PoolError> {
        let after = self.after.as_deref();
        let Some(keys) = &self.query.keys() else {
            return self.pool.items(&self.stream, after, PAGE).await;
        };
        let keys = keys.iter().map(String::as_str);
        let mut keys: Vec<&str> = keys
            .filter(|key| after.is_none_or(|after| *key > after))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let (mut items, mut bytes) = (Vec::new(), 0);
        for key in keys {
            if bytes >= PAGE.bytes {
                break;
            }
            if let Some(item) = self.pool.item(&self.stream, key).await? {
                bytes += item.fields.len();
                items.push(item);
            }
        }
        Ok(items)
    }

    /// The next page of rows as text, with the text before the first row and after the last one.
    async fn next(&mut self) -> Result<String, PoolError> {
        let items = self.items().await?;
        let mut out = String::new();
        let mut writer = Writer::new(&self.query, &self.stream, &self.columns).after(self.rows);
        if !std::mem::replace(&mut self.is_begun, true) {
            writer.begin(0, &mut out);
        }
        for item in items
            .iter()
            .filter(|item| self.query.wants(item, &self.stream))
        {
            self.rows += 1;
            let position = self.rows;
            let row = Row {
                item,
                stream: &self.stream,
                position,
            };
            writer.row(row, &mut out);
        }
        self.is_done = items.is_empty();
        if self.is_done {
            writer.end(&mut out);
        }
        self.after = items.into_iter().last().map(|item| item.key);
        Ok(out)
    }
}
