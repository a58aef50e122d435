//! What browsers load: the client `/headgate.js`, the page `/render/{stream}`, and the style of `/docs`.
//!
//! **Invariant**: nothing here needs a key or holds one: the read key stands in the page's fragment,
//! which browsers do not send.

use salvo_core::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};

use super::asset::Asset;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'";

/// A file that is part of the program.
pub(super) struct Page(Asset);

impl Page {
    /// The browser client, an ES module. Any page may load it.
    pub(super) fn client() -> Self {
        Self(Asset::new(
            "text/javascript; charset=utf-8",
            include_str!("pages/headgate.js"),
        ))
    }

    /// The page that lists the items of a stream.
    pub(super) fn render() -> Self {
        Self(Asset::new(
            "text/html; charset=utf-8",
            include_str!("pages/render.html"),
        ))
    }

    /// Its script.
    pub(super) fn render_script() -> Self {
        Self(Asset::new(
            "text/javascript; charset=utf-8",
            include_str!("pages/render.js"),
        ))
    }

    /// Its style.
    pub(super) fn render_style() -> Self {
        Self(Asset::new(
            "text/css; charset=utf-8",
            include_str!("pages/render.css"),
        ))
    }

    /// The style of the documentation: that of the admin pages, and its own.
    pub(super) fn docs_style() -> Self {
        Self(Asset::new(
            "text/css; charset=utf-8",
            concat!(
                include_str!("web/assets/web.css"),
                include_str!("docs/docs.css")
            ),
        ))
    }
}

#[async_trait]
impl Handler for Page {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        if self.0.is_known(req, res) {
            return;
        }
        let headers = res.headers_mut();
        for (name, value) in [
            (CONTENT_TYPE, self.0.content_type),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        // Public, and imported by pages from anywhere.
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        self.0.send(res);
    }
}
