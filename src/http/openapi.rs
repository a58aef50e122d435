//! The OpenAPI documents, made from the same routes that serve.
//!
//! **Invariant**: a route that exists is described: the documents are generated, not written.

use std::sync::Once;

use salvo_core::http::StatusCode;
use salvo_core::{Depot, FlowCtrl, Handler, Request, Response, Router, async_trait};
use salvo_oapi::naming::{FlexNamer, set_namer};
use salvo_oapi::security::{Http, HttpAuthScheme};
use salvo_oapi::{Info, OpenApi, SecurityScheme};

use super::envelope;

/// Serves a document.
pub(super) struct Document(Vec<u8>);

/// The document of the service listener.
pub(super) fn service(router: &Router) -> Document {
    document(
        router,
        "Headgate",
        "Submit items and ask what became of them; read them and follow their changes.",
        &[
            ("ingest_key", "An ingest key, `ik_live_…` or `ik_test_…`."),
            ("read_key", "A read key, `rk_live_…`."),
        ],
    )
}

/// The document of the admin listener.
pub(super) fn admin(router: &Router) -> Document {
    document(
        router,
        "Headgate admin",
        "See what arrived, what became of it, and how the sinks are; send again what they gave up, or discard it. Make and change streams, connectors and keys. Make backups.",
        &[(
            "admin_token",
            "The admin token; without a setting it is in the file `admin.token` of the data folder.",
        )],
    )
}

fn document(router: &Router, title: &str, description: &str, schemes: &[(&str, &str)]) -> Document {
    // OpenAPI allows letters, digits, `.`, `-` and `_` in the names of schemas.
    static NAMES: Once = Once::new();
    NAMES.call_once(|| {
        set_namer(
            FlexNamer::new()
                .short_mode(true)
                .generic_delimiter("_", "_"),
        );
    });
    let info = Info::new(title, env!("CARGO_PKG_VERSION")).description(description);
    let mut document = OpenApi::with_info(info);
    for (name, about) in schemes {
        let bearer = Http::new(HttpAuthScheme::Bearer).description(*about);
        document = document.add_security_scheme(*name, SecurityScheme::Http(bearer));
    }
    let document = document.merge_router(router);
    Document(serde_json::to_vec(&document).unwrap_or_default())
}

#[async_trait]
impl Handler for Document {
    async fn handle(&self, _: &mut Request, _: &mut Depot, res: &mut Response, _: &mut FlowCtrl) {
        envelope::write_json(res, StatusCode::OK, self.0.clone());
    }
}
