//! The files that pages load.
//!
//! `htmx-2.0.11.min.js` is htmx as npm has it; it is served with its licence before it.
//!
//! **Invariant**: they are parts of the program and hold nothing of the daemon's data, so they need no session.

use salvo_core::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS,
};
use salvo_core::http::{ResBody, StatusCode};
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, async_trait};

use crate::catalog::KeyHash;

/// A file of the program.
pub(super) struct Asset {
    content_type: &'static str,
    text: &'static str,
    tag: String,
}

impl Asset {
    pub(super) fn htmx() -> Self {
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

    pub(super) fn script() -> Self {
        Self::new(
            "text/javascript; charset=utf-8",
            include_str!("assets/web.js"),
        )
    }

    pub(super) fn style() -> Self {
        Self::new("text/css; charset=utf-8", include_str!("assets/web.css"))
    }

    pub(super) fn icon() -> Self {
        Self::new("image/svg+xml", include_str!("assets/icon.svg"))
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
impl Handler for Asset {
    async fn handle(&self, req: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        let tag = req.headers().get(IF_NONE_MATCH);
        let known = tag.is_some_and(|tag| tag.as_bytes() == self.tag.as_bytes());
        let headers = res.headers_mut();
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            headers.insert(ETAG, tag);
        }
        // After an update of the daemon, pages and files must fit together.
        for (name, value) in [
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_TYPE, self.content_type),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if known {
            res.status_code(StatusCode::NOT_MODIFIED);
            return;
        }
        res.status_code(StatusCode::OK);
        res.replace_body(ResBody::Once(self.text.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::Asset;
    use crate::catalog::KeyHash;

    #[test]
    fn htmx_is_the_pinned_file_and_carries_its_licence() {
        let served = Asset::htmx().text;
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
