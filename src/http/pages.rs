//! What browsers load: the client `/headgate.js` and the page `/render/{stream}`.
//!
//! **Invariant**: nothing here needs a key or holds one: the read key stands in the page's fragment,
//! which browsers do not send.

use salvo_core::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};

use crate::catalog::KeyHash;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'";

/// A file that is part of the program.
pub(super) struct Page {
    content_type: &'static str,
    text: &'static str,
    tag: String,
}

impl Page {
    /// The browser client, an ES module. Any page may load it.
    pub(super) fn client() -> Self {
        Self::new("text/javascript", include_str!("pages/headgate.js"))
    }

    /// The page that lists the items of a stream.
    pub(super) fn render() -> Self {
        Self::new("text/html", include_str!("pages/render.html"))
    }

    /// Its script.
    pub(super) fn render_script() -> Self {
        Self::new("text/javascript", include_str!("pages/render.js"))
    }

    /// Its style.
    pub(super) fn render_style() -> Self {
        Self::new("text/css", include_str!("pages/render.css"))
    }

    fn new(content_type: &'static str, text: &'static str) -> Self {
        let digest = KeyHash::of(text).to_string();
        Self {
            content_type,
            text,
            tag: format!("\"{}\"", &digest[..16]),
        }
    }
}

#[async_trait]
impl Handler for Page {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        let known = req
            .headers()
            .get(IF_NONE_MATCH)
            .is_some_and(|value| value.as_bytes() == self.tag.as_bytes());
        let headers = res.headers_mut();
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            headers.insert(ETAG, tag);
        }
        // A screen that runs for weeks and a daemon that was updated must fit together.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if known {
            res.status_code(StatusCode::NOT_MODIFIED);
            return;
        }
        if let Ok(value) = HeaderValue::from_str(&format!("{}; charset=utf-8", self.content_type)) {
            headers.insert(CONTENT_TYPE, value);
        }
        for (name, value) in [
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        // Public, and imported by pages from anywhere.
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        res.status_code(StatusCode::OK);
        res.replace_body(ResBody::Once(self.text.into()));
    }
}
