//! Files that the pages load.
//!
//! `htmx-2.0.11.min.js` is htmx as published on npm; it is served after its license.
//!
//! **Invariant**: the files are embedded in the program and contain no data of the daemon, so they require no session.

use salvo_core::http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, Router, async_trait};

use http::asset;

pub(super) struct Asset(asset::Asset);

pub(super) fn routes() -> Router {
    Router::with_path("assets")
        .push(Router::with_path("htmx.js").get(Asset::htmx()))
        .push(Router::with_path("web.js").get(Asset::script()))
        .push(Router::with_path("web.css").get(Asset::style()))
        .push(Router::with_path("grid.js").get(Asset::grid_script()))
        .push(Router::with_path("grid.css").get(Asset::grid_style()))
        .push(Router::with_path("icon.svg").get(Asset::icon()))
        .push(Router::with_path("bold.woff2").get(Asset::font()))
}

impl Asset {
    fn htmx() -> Self {
        Self::new(
            "text/javascript; charset=utf-8",
            concat!(
                "/*! htmx 2.0.11, https://htmx.org\n\n",
                include_str!("assets/htmx-2.0.11.LICENSE"),
                "*/\n",
                include_str!("assets/htmx-2.0.11.min.js"),
            ),
        )
    }

    fn script() -> Self {
        Self::new(
            "text/javascript; charset=utf-8",
            include_str!("assets/web.js"),
        )
    }

    fn style() -> Self {
        Self::new("text/css; charset=utf-8", include_str!("assets/web.css"))
    }

    /// Additional script of the lists.
    fn grid_script() -> Self {
        Self::new(
            "text/javascript; charset=utf-8",
            include_str!("assets/grid.js"),
        )
    }

    fn grid_style() -> Self {
        Self::new("text/css; charset=utf-8", include_str!("assets/grid.css"))
    }

    /// The font of names and figures, as on screens.
    fn font() -> Self {
        let file = http::pages::BOLD_FONT;
        Self(asset::Asset::new("font/woff2", file))
    }

    fn icon() -> Self {
        Self::new("image/svg+xml", include_str!("assets/icon.svg"))
    }

    fn new(content_type: &'static str, text: &'static str) -> Self {
        Self(asset::Asset::new(content_type, text.as_bytes()))
    }
}

#[async_trait]
impl Handler for Asset {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        let known = self.0.is_known(req, res);
        for (name, value) in [
            (CONTENT_TYPE, self.0.content_type),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ] {
            res.headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        if !known {
            self.0.send(res);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Asset;
    use catalog::KeyHash;

    #[test]
    fn htmx_is_the_pinned_file_and_carries_its_licence() {
        let served = std::str::from_utf8(Asset::htmx().0.bytes).expect("text");
        assert!(
            served.contains("Permission to use, copy, modify"),
            "{}",
            &served[..99]
        );
        let file = include_str!("assets/htmx-2.0.11.min.js");
        assert!(served.ends_with(file));
        assert_eq!(
            KeyHash::of(file).to_string(),
            "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
        );
    }
}
