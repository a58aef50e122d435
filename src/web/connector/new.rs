//! `/new/connector`: a form that creates a connector with its stream and its first key.
//!
//! **Invariant**: either all three are created or none.

mod tool;

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};
use serde_json::Map;

use crate::form::{self, Field, NAME, Typed};
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::paths;
use ::settings::ConnectorKind;
use catalog::{Catalog, FIRST_KEY, FirstStream, SetUp};
use operate::Operator;

/// `/new/connector`, for a preset `/new/connector?tool=NAME`
pub(super) struct NewConnector(pub(super) Operator);

#[handler]
impl NewConnector {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let name = req.query::<String>("tool").unwrap_or_default();
        if !matches!(&*name, "" | "none") {
            let preset = webhook::preset(&name).ok_or(NoPage::NotFound(
                "There is no such preset. The page of a new connector leads to the list of presets.",
            ))?;
            return tool::answer(&self.0, req, depot, preset).await;
        }
        let Some(mut typed) = Typed::sent(depot) else {
            let values = [("kind", ConnectorKind::Webhook.as_str().to_owned())];
            let typed = Typed::new(depot, "name", &values);
            return Ok(typed.show(page(&self.0, &typed)));
        };
        let set_up = read(&mut typed);
        let path = paths::connector(&typed.text(NAME.name));
        let stream = set_up.stream.made().map(str::to_owned);
        let created = typed.submit_with(stream, &self.0, req, &[], |catalog, by| {
            catalog.set_up(set_up, by)
        });
        let Some((secret, key)) = created.await? else {
            return Ok(typed.show(page(&self.0, &typed)));
        };
        Ok(FormAnswer::made(path, &key.name, secret))
    }
}

fn page(operator: &Operator, typed: &Typed) -> FormPage {
    let fields = html! {
        (typed.input(NAME, 64, true))
        (stream_fields(typed, &operator.catalog))
        (typed.record(::settings::Connector::FIELDS, true, &operator.catalog))
        (form::buttons("Create connector", "/connectors"))
    };
    FormPage {
        title: "New connector".to_owned(),
        place: Place::Connectors,
        content: html! {
            p.panel {
                "Which tool sends? " a href="/new/tool" { "Choose it from the list" } ": Shopify, Stripe, GitHub, Slack, Twilio and others that sign what they send. "
                "This form is for a tool or program with an ingest key."
            }
            (typed.panel(Some("/new/connector"), &fields))
        },
    }
}

/// The fields for the stream of the items.
fn stream_fields(typed: &Typed, catalog: &Catalog) -> Markup {
    let stream = Field {
        name: "stream",
        label: "Stream",
        hint: "The stream of its items.",
    };
    let new_stream = Field {
        name: "new_stream",
        label: "Name of the new stream",
        hint: "Default: the connector's name.",
    };
    html! {
        (typed.stream_select(stream, catalog, Some("a new stream")))
        (typed.input(new_stream, 256, false))
    }
}

/// Reads the stream; a new one has the connector's name by default.
fn read_stream(typed: &mut Typed, connector: &str) -> FirstStream {
    match (typed.raw("stream"), typed.optional("new_stream")) {
        ("", new) => FirstStream::New(new.unwrap_or_else(|| connector.to_owned())),
        (existing, new) => {
            let existing = existing.to_owned();
            if new.is_some() {
                let message = "Choose a stream above, or name a new one here, not both.";
                typed.reject("new_stream", message);
            }
            FirstStream::Existing(existing)
        }
    }
}

fn read(typed: &mut Typed) -> SetUp {
    let name = typed.text(NAME.name);
    SetUp {
        stream: read_stream(typed, &name),
        key: FIRST_KEY.to_owned(),
        allow_in_url: false,
        verify: None,
        connector: typed.new_record(::settings::Connector::FIELDS, Map::new()),
    }
}
