//! The page for browsers at unknown paths, and at `/` of the service listener.
//!
//! **Invariant**: the page contains no data of the request or of the daemon. Programs receive the usual error envelope.

use salvo_core::http::header::{
    ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, VARY, X_CONTENT_TYPE_OPTIONS,
};
use salvo_core::http::{Method, ResBody, StatusCode};
use salvo_core::{Request, Response};

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Content of the page of a listener: title, sentence, and three links.
#[derive(Debug, Clone, Copy)]
pub struct Nowhere {
    /// Title and sentence of `/`, if no other route answers there.
    root: Option<(&'static str, &'static str)>,
    links: [(&'static str, &'static str); 3],
}

impl Nowhere {
    /// The service listener.
    pub const SERVICE: Self = Self {
        root: Some((
            "Headgate is running",
            "Programs send data to this address, and screens read it. To see the data, open the admin pages. The daemon prints their address when it starts.",
        )),
        links: [
            ("/docs", "Guide"),
            ("/docs/show", "Show a stream on a screen"),
            ("/docs/api", "API reference"),
        ],
    };

    /// The admin listener.
    pub const ADMIN: Self = Self {
        root: None,
        links: [
            ("/", "Overview"),
            ("/docs", "Guide"),
            ("/docs/api", "API reference"),
        ],
    };

    /// Answers a browser that requests a page. `false`: the client is not a browser, or the request is not for a page.
    pub(super) fn answer(&self, req: &Request, res: &mut Response) -> bool {
        let looks = matches!(*req.method(), Method::GET | Method::HEAD);
        let is_page = matches!(res.status_code, None | Some(StatusCode::NOT_FOUND));
        if !looks || !is_page {
            return false;
        }
        res.headers_mut()
            .insert(VARY, HeaderValue::from_static("accept"));
        if !wants_page(req) {
            return false;
        }
        let root = self.root.filter(|_| req.uri().path() == "/");
        let (status, title, sentence) = match root {
            Some((title, sentence)) => (StatusCode::OK, title, sentence),
            None => (
                StatusCode::NOT_FOUND,
                "There is no page at this address",
                "Check the address, or go to one of these:",
            ),
        };
        let links = self
            .links
            .map(|(path, name)| format!("<li><a href=\"{path}\">{name}</a></li>"));
        let page = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>{title} · Headgate</title>\
             <link rel=\"icon\" href=\"/favicon.ico\"><link rel=\"stylesheet\" href=\"/docs.css\"></head>\
             <body><main class=\"bare\"><p class=\"brand\">Headgate</p><h1>{title}</h1><p>{sentence}</p>\
             <ul>{}</ul></main></body></html>\n",
            links.concat()
        );
        for (name, value) in [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ] {
            res.headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        res.status_code(status);
        res.replace_body(ResBody::Once(page.into()));
        true
    }
}

/// Whether the request names HTML, as browsers do and programs do not.
fn wants_page(req: &Request) -> bool {
    let mut accepted = req.headers().get_all(ACCEPT).iter();
    accepted.any(|value| {
        let value = value.to_str().unwrap_or_default();
        let mut kinds = value.split([',', ';']).map(str::trim);
        kinds.any(|kind| kind.eq_ignore_ascii_case("text/html"))
    })
}
