//! `/sources/{name}/new-key`: another key of a connector.
//!
//! **Invariant**: a connector that is declared may have keys that are made here.

use maud::html;
use salvo_core::{Depot, Request, handler};

use crate::catalog::{self, Connector};
use crate::http::web::connector::find_connector;
use crate::http::web::description;
use crate::http::web::form::{self, Field, NAME, Typed};
use crate::http::web::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::http::web::key::ENDS;
use crate::http::web::paths;
use crate::http::web::sessions::IssuedKey;
use crate::operate::Operator;

/// `/sources/{name}/new-key`
pub(super) struct NewKey(pub(super) Operator);

#[handler]
impl NewKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let connector = find_connector(&self.0, req)?;
        let Some(mut typed) = Typed::sent(depot) else {
            let typed = initial(depot, &connector);
            return Ok(typed.show(page(&self.0, &connector, &typed)));
        };
        let stream = typed.raw("stream").to_owned();
        let key = catalog::NewKey {
            connector: connector.name.to_string(),
            name: typed.name(),
            description: description::read(&typed),
            test: typed.choice("mode", &[("live", false), ("test", true)]) == Some(true),
            expires_ms: typed.time(ENDS.name),
            stream,
        };
        if key.stream.is_empty() {
            typed.reject("stream", "Choose a stream.");
        }
        let created = typed.submit(&self.0, req, &[], |catalog, by| catalog.create_key(key, by));
        let Some((secret, key)) = created.await? else {
            return Ok(typed.show(page(&self.0, &connector, &typed)));
        };
        let path = paths::connector(&connector.name);
        Ok(FormAnswer::Issued(IssuedKey::new(path, &key.name, secret)))
    }
}

/// The form with the stream of another key of the connector.
fn initial(depot: &Depot, connector: &Connector) -> Typed {
    let stream = connector.keys.first().map(|key| key.stream.to_string());
    let values = [
        ("stream", stream.unwrap_or_default()),
        ("mode", "live".to_owned()),
    ];
    Typed::new(depot, "name", &values)
}

fn page(operator: &Operator, connector: &Connector, typed: &Typed) -> FormPage {
    let stream = Field {
        name: "stream",
        label: "Stream",
        hint: "The one that it may send to.",
    };
    let mode = Field {
        name: "mode",
        label: "Live or test",
        hint: "What a test key sends is checked and logged, and nothing is stored.",
    };
    let fields = html! {
        (typed.input(NAME, 64, true))
        (description::field(typed))
        (typed.stream_select(stream, &operator.catalog, None))
        (typed.select(mode, &[("live", "live"), ("test", "test")]))
        (typed.time_input(ENDS))
        (form::buttons("Create key", &paths::connector(&connector.name)))
    };
    FormPage {
        title: format!("New key of {}", connector.name),
        place: Place::Connectors,
        content: typed.panel(None, &fields),
    }
}
