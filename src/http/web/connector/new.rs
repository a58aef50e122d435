//! `/new/source`: a connector with its stream and its first key, from one form.
//!
//! **Invariant**: all of it is made, or nothing.

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};

use super::change::path;
use crate::catalog::{Catalog, ConnectorWish, FirstStream, SetUpWish, StreamWish};
use crate::config::{ConnectorKind, OnUpdate, RATE_MAX};
use crate::http::web::form::{self, Field, NAME, Typed};
use crate::http::web::frame::{FormPage, NoPage, Place, Sent, token};
use crate::http::web::sessions::Made;
use crate::http::web::text::grouped;
use crate::operate::Operator;

const FIRST_KEY: &str = "main";

/// `GET /new/source`
pub(super) struct ShowNewConnector(pub(super) Operator);

#[handler]
impl ShowNewConnector {
    async fn handle(&self, depot: &mut Depot) -> FormPage {
        let values = [("kind", ConnectorKind::Webhook.as_str().to_owned())];
        new_page(&self.0, depot, &Typed::new("name", &values))
    }
}

/// `POST /new/source`
pub(super) struct NewConnector(pub(super) Operator);

#[handler]
impl NewConnector {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let mut typed = Typed::sent(depot);
        let wish = wish(&mut typed);
        let path = path(&wish.connector.name);
        let made = typed.submit(&self.0, req, &[], |catalog, by| catalog.set_up(wish, by));
        Ok(match made.await? {
            Some((secret, key)) => Sent::Made(Made {
                path,
                key: key.name.to_string(),
                secret,
                previous: None,
            }),
            None => typed.again(new_page(&self.0, depot, &typed)),
        })
    }
}

fn new_page(operator: &Operator, depot: &Depot, typed: &Typed) -> FormPage {
    FormPage {
        title: "New connector".to_owned(),
        place: Place::Connectors,
        content: html! {
            (typed.problems())
            form.panel method="post" action="/new/source" {
                (token(depot))
                (typed.input(NAME, 64, true))
                (kind(typed))
                (typed.stream_select(STREAM, &operator.catalog, Some("a new stream")))
                (typed.input(NEW_STREAM, 256, false))
                (settings(typed, &operator.catalog))
                (form::buttons("Create connector", "/sources"))
            }
        },
    }
}

const STREAM: Field<'_> = Field {
    name: "stream",
    label: "Stream",
    hint: "Where its items go.",
};
const NEW_STREAM: Field<'_> = Field {
    name: "new_stream",
    label: "Name of the new stream",
    hint: "Without one it is called like the connector.",
};

/// How its requests come.
pub(super) fn kind(typed: &Typed) -> Markup {
    let field = Field {
        name: "kind",
        label: "Kind",
        hint: "Both addresses work for both kinds.",
    };
    typed.select(
        field,
        &[
            ("webhook", "webhook: a tool is given a URL"),
            ("ingest", "ingest: a program of your own"),
        ],
    )
}

/// What a connector can do without.
pub(super) fn settings(typed: &Typed, catalog: &Catalog) -> Markup {
    let (rate, burst) = catalog.rate();
    let usual = |number| grouped(u64::from(number));
    let item_key = Field {
        name: "item_key",
        label: "Item key (optional)",
        hint: "The field that identifies an item, like order.id: sent again, it updates the item. A request can name another with X-Item-Key. Without any, items are identified by their position.",
    };
    let may_delete = Field {
        name: "may_delete",
        label: "May remove items",
        hint: "Whether its keys may remove items, whoever sent them. Unless you say so, those of a program may, and those given to a tool may not.",
    };
    let per_second = Field {
        name: "requests_per_second",
        label: "Requests per second of each key (optional)",
        hint: "Without a number the limit for all keys counts.",
    };
    let at_once = Field {
        name: "burst",
        label: "Requests at once of each key (optional)",
        hint: "How many may come in one moment.",
    };
    html! {
        (typed.input(item_key, 255, false))
        (typed.select(may_delete, &[("", "as its kind says"), ("yes", "yes"), ("no", "no")]))
        div.fields {
            (typed.number_input(per_second, &usual(rate)))
            (typed.number_input(at_once, &usual(burst)))
        }
    }
}

/// Words of the field `kind`.
pub(super) const KINDS: [(&str, ConnectorKind); 2] = [
    ("webhook", ConnectorKind::Webhook),
    ("ingest", ConnectorKind::Ingest),
];

/// What the field `may_delete` says, if anything.
pub(super) fn may_delete(typed: &Typed) -> Option<bool> {
    match typed.raw("may_delete") {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// A number of requests.
pub(super) fn rate(typed: &mut Typed, name: &'static str) -> Option<u32> {
    let number = typed.number(name, RATE_MAX)?;
    u32::try_from(number).ok()
}

/// What the form asks for.
fn wish(typed: &mut Typed) -> SetUpWish {
    let name = typed.name();
    let stream = match (typed.raw("stream"), typed.optional("new_stream")) {
        ("", new) => FirstStream::New(StreamWish {
            name: new.unwrap_or_else(|| name.clone()),
            on_update: OnUpdate::Replace,
            stale_after_seconds: None,
        }),
        (existing, new) => {
            let existing = existing.to_owned();
            if new.is_some() {
                let message = "Choose a stream above, or name a new one here, not both.";
                typed.wrong("new_stream", message);
            }
            FirstStream::Existing(existing)
        }
    };
    SetUpWish {
        connector: ConnectorWish {
            name,
            kind: typed.choice("kind", &KINDS).unwrap_or_default(),
            item_key: typed.optional("item_key"),
            may_delete: may_delete(typed),
            requests_per_second: rate(typed, "requests_per_second"),
            burst: rate(typed, "burst"),
        },
        key: FIRST_KEY.to_owned(),
        stream,
    }
}
