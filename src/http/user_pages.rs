//! Pages of the user: the files of `<data_dir>/pages/`, at `/pages/…` of the service listener.
//!
//! They have the daemon's origin, so that `/headgate.js` and `/api/live` work there without `[live] origins`. Files
//! cannot be uploaded over HTTP: users who can write to the data directory put them there.
//!
//! **Invariant**: only regular files of listed kinds below that directory are served. Directory listings, names that
//! begin with a dot, and symbolic links are not, even if a link is created during a request.

mod file;
mod range;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use salvo_core::http::StatusCode;
use salvo_core::http::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, IF_RANGE, LOCATION, RANGE,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, Router, async_trait};

use super::error::ApiError;
use super::tag;
use base::text::percent_encoded;
use file::{Found, Missing, find, kind, names};
use operate::in_background;

/// Name of the directory in the data directory.
pub const FOLDER: &str = "pages";
/// Bytes per piece that the connection receives.
const PIECE_BYTES: u64 = 64 << 10;
/// The authors of the pages can run their own scripts. The pages load everything from the daemon, except images and
/// sounds that are embedded in the data. Any page can show them in a frame.
const POLICY: &str = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' ws: wss:; \
     object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors *";

/// Routes of the files in the pages of a data directory.
pub fn routes(data_dir: &str) -> Router {
    let folder = Path::new(data_dir).join(FOLDER).into();
    Router::with_path("pages/{**path}").get(GetOwnPage(folder))
}

/// Path and media type of a font; `None` if no file in the directory can have the name, or it is not the name of a
/// font.
pub fn font(name: &str) -> Option<(String, &'static str)> {
    let parts: Vec<String> = name.split('/').map(percent_encoded).collect();
    let path = format!("/{FOLDER}/{}", parts.join("/"));
    names(&path)?;
    let kind = kind(name).filter(|kind| kind.starts_with("font/"))?;
    Some((path, kind))
}

/// `GET /pages/…`
struct GetOwnPage(Arc<Path>);

#[async_trait]
impl Handler for GetOwnPage {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        if let Err(error) = self.answer(req, res).await {
            error.answer(req, res);
        }
    }
}

impl GetOwnPage {
    async fn answer(&self, req: &Request, res: &mut Response) -> Result<(), ApiError> {
        let names = names(req.uri().path()).ok_or(Missing::NoFile)?;
        let content_type = names.last().and_then(|name| kind(name));
        let folder = Arc::clone(&self.0);
        let found = in_background(move || find(&folder, &names)).await?;
        let Found::File { file, bytes, tag } = found else {
            return go_into_folder(req, res);
        };
        let content_type = content_type.ok_or(Missing::Kind)?;
        let headers = res.headers_mut();
        for (name, value) in [
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (ACCEPT_RANGES, "bytes"),
            // Programs with other origins load templates of OGraf and CasparCG. The files contain no secrets.
            (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if tag::is_known(&tag, req, res) {
            return Ok(());
        }
        insert(res, CONTENT_TYPE, content_type);
        send(file, wanted_part(req, res, &tag, bytes), res);
        Ok(())
    }
}

/// The requested part of a file; sets the status of the response.
fn wanted_part(req: &Request, res: &mut Response, tag: &str, bytes: u64) -> Range<u64> {
    let of_this = |it: &HeaderValue| it.as_bytes() == tag.as_bytes();
    let is_same = req.headers().get(IF_RANGE).is_none_or(of_this);
    let wanted = req.headers().get(RANGE).filter(|_| is_same);
    let wanted = wanted.and_then(|wanted| range::part(wanted.to_str().ok()?, bytes));
    match wanted {
        None => {
            res.status_code(StatusCode::OK);
            0..bytes
        }
        Some(None) => {
            res.status_code(StatusCode::RANGE_NOT_SATISFIABLE);
            insert(res, CONTENT_RANGE, &format!("bytes */{bytes}"));
            0..0
        }
        Some(Some(part)) => {
            res.status_code(StatusCode::PARTIAL_CONTENT);
            let last = part.end - 1;
            let range = format!("bytes {}-{last}/{bytes}", part.start);
            insert(res, CONTENT_RANGE, &range);
            part
        }
    }
}

/// Redirects to the path with a final slash: relative URLs in a page depend on it.
fn go_into_folder(req: &Request, res: &mut Response) -> Result<(), ApiError> {
    let query = req.uri().query();
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    let place = HeaderValue::try_from(format!("{}/{query}", req.uri().path()));
    let place = place.map_err(|_| Missing::NoFile)?;
    res.status_code(StatusCode::TEMPORARY_REDIRECT);
    res.headers_mut().insert(LOCATION, place);
    Ok(())
}

fn insert(res: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        res.headers_mut().insert(name, value);
    }
}

/// Answers with a part of a file in pieces: a slow client holds the memory of one piece.
fn send(file: File, part: Range<u64>, res: &mut Response) {
    let length = HeaderValue::from(part.end - part.start);
    res.headers_mut().insert(CONTENT_LENGTH, length);
    res.stream(stream::try_unfold((file, part), |(file, part)| {
        in_background(move || {
            let length = (part.end - part.start).min(PIECE_BYTES);
            if length == 0 {
                return Ok(None);
            }
            let mut piece = vec![0; usize::try_from(length).unwrap_or_default()];
            file.read_exact_at(&mut piece, part.start)?;
            let rest = part.start + length..part.end;
            Ok::<_, std::io::Error>(Some((Bytes::from(piece), (file, rest))))
        })
    }));
}
