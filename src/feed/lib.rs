//! Feeds, for programs that only poll: `GET /feed/{stream}.{format}`, a flat table without an envelope.
//!
//! The query determines the table. `table` has the columns, the rows and the writers of the formats.
//!
//! **Invariant**: while nothing has changed, the same URL returns the same bytes and the same entity tag. There is no
//! `Last-Modified`, because two changes within a second would have the same time. In a cluster, the tag also has a position: no
//! node answers it with an older state.
#![deny(unsafe_code)]

pub mod export;
mod kept;
mod preview;

use std::sync::Arc;

use salvo_core::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use salvo_core::http::{Method, ResBody, StatusCode};
use salvo_core::{Request, Response};
use salvo_oapi::endpoint;

use base::order::ChangeSeq;
use catalog::Reader;
use http::error::ApiError;
use http::items::sending;
use http::reader::{self, Readers};
use http::tag;
use kept::{Body, Outcome};
use observe::metrics::Metrics;
use pool::{PoolError, Position};
use table::{QueryError, body, columns, fields, find};

pub use kept::Feeds;
pub use preview::{Choice, Preview, entry};
pub use table::{Format, Query, Sorter};

const X_TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

pub(crate) fn query_of(format: Format, req: &mut Request) -> Result<Query, ApiError> {
    Query::read(format, |name| req.query(name)).map_err(|error| match error {
        QueryError::Syntax(error) => error.into(),
        QueryError::Other(sentence) => ApiError::invalid(sentence),
    })
}

/// The file extensions of feeds.
pub fn formats() -> [&'static str; 7] {
    Format::ALL.map(|(name, _)| name)
}

/// The content type of each format.
pub fn content_types() -> [&'static str; 7] {
    Format::ALL.map(|(_, format)| format.content_type())
}

/// `GET /feed/{stream}.{format}`
pub struct GetFeed {
    pub readers: Readers,
    pub feeds: Arc<Feeds>,
    pub metrics: Arc<Metrics>,
}

/// A stream as a table.
///
/// For programs that poll a URL: flat rows without an envelope, in one response. The key can be the password of Basic
/// authentication, with any user name. While nothing changes, the bytes stay the same; `ETag` is their digest. Unknown
/// parameters are ignored.
#[endpoint(
    operation_id = "get_feed",
    tags("read"),
    parameters(
        ("stream" = String, Path, description = "Name of the stream."),
        ("format" = String, Path, description = "The format."),
        ("fields" = Option<String>, Query, description = "The columns, in this order: `home.name,home.score`; with new names: `Home:home.name,Score:home.score`; `home.*`: all fields that begin with `home.`; `-note`: all fields except this one. Beside fields there are `_key`, `_stream`, `_updated_at` and `_position`. All fields if absent, in the order in which they were first seen."),
        ("names" = Option<String>, Query, description = "`_`: dots in names become `_`; `.`: dots stay; `nested`: objects (json, ndjson, xml)."),
        ("key" = Option<String>, Query, description = "One item, or several: `m1,m2`."),
        ("where" = Option<String>, Query, description = "`status:live,period:1|2,!team:x,score>=2,name^A,winner?`: all must hold. Equal to one of the values, a numeric comparison, a beginning, not null; `!` negates."),
        ("sort" = Option<String>, Query, description = "`-home.score,home.name`; by key if absent. Digits count as numbers."),
        ("limit" = Option<u32>, Query, description = "Rows, 1 to 10000; 1000 if absent."),
        ("offset" = Option<u32>, Query, description = "Number of rows to skip."),
        ("shape" = Option<String>, Query, description = "`rows`; `object`: by key (json); `one`: the first item alone; `fields`: the fields of the first item, as names and values."),
        ("decimals" = Option<u32>, Query, description = "Decimal places to round numbers to, 0 to 20."),
        ("comma" = Option<bool>, Query, description = "Numbers with a decimal comma."),
        ("text" = Option<String>, Query, description = "A line of txt, a title of rss: `{home.name} {home.score|or:0}:{away.score}`."),
        ("join" = Option<String>, Query, description = "Separator between lines of txt, in place of a line break."),
        ("header" = Option<bool>, Query, description = "`false`: csv and tsv without a header line."),
        ("sep" = Option<String>, Query, description = "The character between values of csv; a comma if absent."),
        ("bom" = Option<bool>, Query, description = "csv and tsv with a byte order mark, as Excel expects it."),
        ("safe" = Option<bool>, Query, description = "csv and tsv with `'` before values that a spreadsheet would treat as formulas."),
        ("title" = Option<String>, Query, description = "Title of an item of rss: a field, or a text with `{field}` in it."),
        ("description" = Option<String>, Query, description = "The item's description, a template as in `title`."),
        ("link" = Option<String>, Query, description = "The item's link, a template as in `title`."),
        ("image" = Option<String>, Query, description = "The item's picture, a template as in `title`, as `media:content`."),
        ("token" = Option<String>, Query, description = "A read key that is marked `allow_in_url`."),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer."),
    ),
    responses(
        (status_code = 200, description = "The rows. `X-Total-Count` is their number without limit and offset."),
        (status_code = 304, description = "The table has not changed."),
        (status_code = 403, description = "The page's origin is not allowed."),
        (status_code = 404, description = "The key does not read such a stream, or there is no such format."),
        (status_code = 429, description = "The key has exceeded its rate of feeds."),
        (status_code = 503, description = "The limit of responses in progress is reached. On a node of a cluster also: its copy does not have the state that `If-None-Match` names."),
    ),
)]
impl GetFeed {
    async fn handle(&self, req: &mut Request, res: &mut Response) {
        if let Err(error) = self.answer(req, res).await {
            self.readers.note_refused(req, &error);
            let is_unauthorized = error.status == StatusCode::UNAUTHORIZED;
            error.answer(req, res);
            if is_unauthorized {
                // Programs that can do Basic wait to be asked; on other routes pages would open a dialogue.
                let basic = HeaderValue::from_static("Basic realm=\"headgate\", charset=\"UTF-8\"");
                res.headers_mut().append(WWW_AUTHENTICATE, basic);
            }
        }
    }
}

impl GetFeed {
    async fn answer(&self, req: &mut Request, res: &mut Response) -> Result<(), ApiError> {
        let reader = self.readers.with_key_token_or_password(req)?;
        let name = req.param::<String>("stream").unwrap_or_default();
        let stream = reader.stream(&name).ok_or_else(reader::no_stream)?;
        let format = req.param::<String>("format").unwrap_or_default();
        let format = Format::of(&format).ok_or_else(|| {
            let message = format!(
                "there is no such format; a feed ends with one of {}",
                formats().join(", ")
            );
            ApiError::not_found("NOT_FOUND", message)
        })?;
        reader.take_poll().map_err(|seconds| {
            let message = format!(
                "this read key has exceeded its limit of feeds per second; wait {seconds} s, or raise its requests_per_second"
            );
            ApiError::wait(seconds, message)
        })?;
        let query = query_of(format, req)?.within(reader.limits());
        let known = self.readers.newest_known(&reader, req.headers());
        if let Some(seq) = known {
            // On the heap: the others are not to be as large.
            Box::pin(self.readers.reach(seq)).await?;
        }
        let body = self.body(stream, query, known.unwrap_or_default()).await?;
        let body = body.map_err(|sentence| ApiError::invalid(&*sentence))?;
        self.readers.note_poll(req, &reader);
        let headers = res.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(X_TOTAL_COUNT, HeaderValue::from(body.total));
        if self.is_known(&reader, &body, req, res) {
            return Ok(());
        }
        let headers = res.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static(format.content_type()),
        );
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        res.status_code(StatusCode::OK);
        res.replace_body(ResBody::Once(body.bytes.clone()));
        if *req.method() != Method::HEAD {
            let room = sending::room(&self.readers.live, &reader, body.bytes.len()).await?;
            sending::in_pieces(res, room);
        }
        Ok(())
    }

    /// Sets the entity tag; answers 304 if the client has these bytes, whether or not the stream has changed since. Returns
    /// whether it did.
    fn is_known(&self, reader: &Reader, body: &Body, req: &Request, res: &mut Response) -> bool {
        let pool = &self.readers.pool;
        if !pool.is_logged() {
            return tag::is_known(&body.tag, req, res);
        }
        let digest = body.tag.trim_matches('"');
        let position = Position {
            seq: body.through,
            epoch: reader.epoch(pool.epoch()),
        };
        let is_tag = tag::is_known(&format!("\"{digest}-{position}\""), req, res);
        let bytes_of = |tag: &str| {
            tag.split_once('-')
                .is_some_and(|(bytes, _)| bytes == digest)
        };
        let is_known = is_tag || tag::named(req.headers()).any(bytes_of);
        if is_known {
            res.status_code(StatusCode::NOT_MODIFIED);
        }
        is_known
    }

    /// The body of a query, which includes this change of any stream.
    async fn body(
        &self,
        stream: &Arc<str>,
        query: Query,
        known: ChangeSeq,
    ) -> Result<Outcome, ApiError> {
        let build = || self.build(Arc::clone(stream), query.clone());
        let pool = &self.readers.pool;
        let body = self.feeds.body(pool, (stream, &query), known, build);
        Ok(body.await?)
    }

    /// The text is written on a blocking thread, because a large one would hold up other requests.
    async fn build(
        &self,
        stream: Arc<str>,
        query: Query,
    ) -> Result<Result<Body, String>, PoolError> {
        self.metrics.feeds_built.inc();
        let pool = &self.readers.pool;
        let (found, fields) = {
            let _turn = self.readers.live.turn_to_read().await;
            let found = find(pool, &stream, &query).await?;
            (found, fields(pool, &stream, &query).await?)
        };
        let found = match found {
            Ok(found) => found,
            Err(sentence) => return Ok(Err(sentence)),
        };
        // Behind everything that was read: another node may show less.
        let through = match pool.is_logged() {
            true => pool.last_change(&stream).await?,
            false => ChangeSeq::MIN,
        };
        let write = move || {
            let columns = columns(&query, fields);
            let text = body(&query, &stream, &columns, &found)?;
            Ok(Body::new(text, found.total, through))
        };
        let written = tokio::task::spawn_blocking(write).await;
        Ok(written
            .unwrap_or_else(|_| Err("the feed could not be written; the log says why".to_owned())))
    }
}
