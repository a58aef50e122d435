//! Files for browsers: the client `/headgate.js`, the page `/render/{stream}` with its templates and fonts, the page
//! `/operate/{stream}`, and the style of `/docs`.
//!
//! **Invariant**: no file requires or contains a key. The read key or operate key is in the fragment of the URL, which
//! browsers do not send.

use salvo_core::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, Router, async_trait};

use super::asset::Asset;

pub(super) const SCRIPT: &str = "text/javascript; charset=utf-8";
/// Media type of a style sheet.
pub const STYLE: &str = "text/css; charset=utf-8";
/// Media type of an SVG image.
pub const ICON: &str = "image/svg+xml";
const PLAIN: &str = "text/plain; charset=utf-8";
const FONT: &str = "font/woff2";

macro_rules! policy {
    ($images:literal) => {
        concat!(
            "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:",
            $images,
            "; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'"
        )
    };
}

const POLICY: &str = policy!("");
/// For a page with `images=any`: browsers load the images that items name from any server.
const POLICY_ANY_IMAGES: &str = policy!(" https: http:");

macro_rules! files {
    ($($path:literal $content_type:ident $file:literal,)*) => {
        [$(($path, $content_type, include_bytes!($file) as &'static [u8]),)*]
    };
}

/// The bold font of screens; the admin pages use it for names.
pub static BOLD_FONT: &[u8] = include_bytes!("pages/fonts/barlow-condensed-latin-700.woff2");

/// The files of the pages and templates, by path.
pub(super) static FILES: [(&str, &str, &[u8]); 30] = files![
    "headgate.js" SCRIPT "pages/headgate.js",
    "headgate.d.ts" PLAIN "pages/headgate.d.ts",
    "offline.js" SCRIPT "pages/offline.js",
    "worker.js" SCRIPT "pages/worker.js",
    "render.js" SCRIPT "pages/render.js",
    "render.css" STYLE "pages/render.css",
    "operate.js" SCRIPT "pages/operate.js",
    "operate-acts.js" SCRIPT "pages/operate-acts.js",
    "operate-card.js" SCRIPT "pages/operate-card.js",
    "operate.css" STYLE "pages/operate.css",
    "templates/page.js" SCRIPT "pages/render/page.js",
    "templates/options.js" SCRIPT "pages/render/options.js",
    "templates/roles.js" SCRIPT "pages/render/roles.js",
    "templates/list.js" SCRIPT "pages/render/list.js",
    "templates/text.js" SCRIPT "pages/render/text.js",
    "templates/fit.js" SCRIPT "pages/render/fit.js",
    "templates/rows.js" SCRIPT "pages/render/rows.js",
    "templates/pager.js" SCRIPT "pages/render/pager.js",
    "templates/debug.js" SCRIPT "pages/render/debug.js",
    "templates/table.js" SCRIPT "pages/render/table.js",
    "templates/scoreboard.js" SCRIPT "pages/render/scoreboard.js",
    "templates/ticker.js" SCRIPT "pages/render/ticker.js",
    "templates/cards.js" SCRIPT "pages/render/cards.js",
    "templates/number.js" SCRIPT "pages/render/number.js",
    "templates/lower-third.js" SCRIPT "pages/render/lower-third.js",
    "fonts/barlow-condensed-latin-500.woff2" FONT "pages/fonts/barlow-condensed-latin-500.woff2",
    "fonts/barlow-condensed-latin-700.woff2" FONT "pages/fonts/barlow-condensed-latin-700.woff2",
    "fonts/barlow-condensed-latin-ext-500.woff2" FONT "pages/fonts/barlow-condensed-latin-ext-500.woff2",
    "fonts/barlow-condensed-latin-ext-700.woff2" FONT "pages/fonts/barlow-condensed-latin-ext-700.woff2",
    "fonts/OFL.txt" PLAIN "pages/fonts/OFL.txt",
];

/// An embedded file with its handler.
pub struct StaticPage(Asset);

/// Routes of the pages that show and operate a stream, of the client for other pages, and of their files.
pub fn routes() -> Router {
    let mut router = Router::new();
    for (path, page) in [
        (
            "render/{stream}",
            include_bytes!("pages/render.html") as &[u8],
        ),
        ("operate/{stream}", include_bytes!("pages/operate.html")),
    ] {
        let page = StaticPage(Asset::new("text/html; charset=utf-8", page));
        router = router.push(Router::with_path(path).get(page));
    }
    for (path, content_type, bytes) in FILES {
        router =
            router.push(Router::with_path(path).get(StaticPage(Asset::new(content_type, bytes))));
    }
    router
}

impl StaticPage {
    /// A file that any client can load.
    pub fn new(content_type: &'static str, bytes: &'static [u8]) -> Self {
        Self(Asset::new(content_type, bytes))
    }
}

#[async_trait]
impl Handler for StaticPage {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        if self.0.is_known(req, res) {
            return;
        }
        let any_images = req.query::<&str>("images") == Some("any");
        let policy = if any_images {
            POLICY_ANY_IMAGES
        } else {
            POLICY
        };
        let headers = res.headers_mut();
        for (name, value) in [
            (CONTENT_TYPE, self.0.content_type),
            (CONTENT_SECURITY_POLICY, policy),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        // The files are public, and pages of any origin import them.
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        self.0.send(res);
    }
}

#[cfg(test)]
mod tests;
