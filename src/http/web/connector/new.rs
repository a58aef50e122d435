//! `/new/source`: a connector with its stream and its first key, from one form.
//!
//! **Invariant**: all of it is made, or nothing.

use maud::html;
use salvo_core::{Depot, Request, handler};

use super::settings;
use crate::catalog::{FirstStream, SetUp};
use crate::config::{self, ConnectorKind};
use crate::http::web::form::{self, Field, NAME, Typed};
use crate::http::web::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::http::web::paths;
use crate::http::web::sessions::IssuedKey;
use crate::operate::Operator;

const FIRST_KEY: &str = "main";

/// `/new/source`
pub(super) struct NewConnector(pub(super) Operator);

#[handler]
impl NewConnector {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let Some(mut typed) = Typed::sent(depot) else {
            let values = [("kind", ConnectorKind::Webhook.as_str().to_owned())];
            let typed = Typed::new(depot, "name", &values);
            return Ok(typed.show(page(&self.0, &typed)));
        };
        let set_up = read(&mut typed);
        let path = paths::connector(&set_up.connector.name);
        let created = typed.submit(&self.0, req, &[], |catalog, by| catalog.set_up(set_up, by));
        let Some((secret, key)) = created.await? else {
            return Ok(typed.show(page(&self.0, &typed)));
        };
        Ok(FormAnswer::Issued(IssuedKey::new(path, &key.name, secret)))
    }
}

fn page(operator: &Operator, typed: &Typed) -> FormPage {
    let stream = Field {
        name: "stream",
        label: "Stream",
        hint: "Where its items go.",
    };
    let new_stream = Field {
        name: "new_stream",
        label: "Name of the new stream",
        hint: "Without one it is called like the connector.",
    };
    let fields = html! {
        (typed.input(NAME, 64, true))
        (settings::kind_field(typed))
        (typed.stream_select(stream, &operator.catalog, Some("a new stream")))
        (typed.input(new_stream, 256, false))
        (settings::fields(typed, &operator.catalog))
        (form::buttons("Create connector", "/sources"))
    };
    FormPage {
        title: "New connector".to_owned(),
        place: Place::Connectors,
        content: typed.panel(Some("/new/source"), &fields),
    }
}

/// What the form asks for.
fn read(typed: &mut Typed) -> SetUp {
    let name = typed.name();
    let stream = match (typed.raw("stream"), typed.optional("new_stream")) {
        ("", new) => FirstStream::New(config::Stream {
            name: new.unwrap_or_else(|| name.clone()),
            ..config::Stream::default()
        }),
        (existing, new) => {
            let existing = existing.to_owned();
            if new.is_some() {
                let message = "Choose a stream above, or name a new one here, not both.";
                typed.reject("new_stream", message);
            }
            FirstStream::Existing(existing)
        }
    };
    SetUp {
        connector: settings::read(typed, name),
        key: FIRST_KEY.to_owned(),
        stream,
    }
}
