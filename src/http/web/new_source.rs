//! `/new/source`: a connector with its stream and its first key, from one form.
//!
//! **Invariant**: all of it is made, or nothing.

use maud::{Markup, html};
use salvo_core::{Depot, Request, Response, handler};

use super::form::{self, Field, NAME, Typed};
use super::frame::{self, FormPage, NoPage, Place, form_token};
use super::guard::visitor;
use super::made;
use super::sessions::Made;
use super::text::{grouped, segment};
use crate::catalog::{Catalog, ConnectorWish, FirstStream, SetUpWish, StreamWish};
use crate::config::{ConnectorKind, OnUpdate, RATE_MAX};
use crate::operate::Operator;

const FIRST_KEY: &str = "main";

/// `GET /new/source`
pub(super) struct ShowNewSource(pub(super) Operator);

#[handler]
impl ShowNewSource {
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let typed = Typed::new(
            "name",
            &[("kind", ConnectorKind::Webhook.as_str().to_owned())],
        );
        answer(&self.0, req, depot, res, &typed);
    }
}

/// `POST /new/source`
pub(super) struct NewSource(pub(super) Operator);

#[handler]
impl NewSource {
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let mut typed = Typed::sent(depot);
        match create(&self.0, req, &mut typed).await {
            Ok(Some(made)) => made::show(depot, res, made),
            Ok(None) => answer(&self.0, req, depot, res, &typed),
            Err(no_page) => frame::refuse(req, res, no_page),
        }
    }
}

fn answer(operator: &Operator, req: &Request, depot: &Depot, res: &mut Response, typed: &Typed) {
    let token = visitor(depot).map(form_token).unwrap_or_default();
    let page = FormPage {
        title: "New connector".to_owned(),
        place: Place::Sources,
        content: html! {
            (typed.problems())
            form.panel method="post" action="/new/source" {
                (token)
                (typed.input(NAME, 64, true))
                (kind(typed))
                (typed.stream_select(STREAM, &operator.catalog, Some("a new stream")))
                (typed.input(NEW_STREAM, 256, false))
                (settings(typed, &operator.catalog))
                (form::buttons("Create connector", "/sources"))
            }
        },
    };
    frame::answer_form(req, depot, res, typed.status(), Ok(page));
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

async fn create(
    operator: &Operator,
    req: &Request,
    typed: &mut Typed,
) -> Result<Option<Made>, NoPage> {
    let name = typed.name();
    let kind = typed.choice("kind", &KINDS);
    let stream = match (typed.raw("stream"), typed.optional("new_stream")) {
        ("", new) => FirstStream::New(StreamWish {
            name: new.unwrap_or_else(|| name.clone()),
            on_update: OnUpdate::Replace,
            stale_after_seconds: None,
        }),
        (existing, None) => FirstStream::Existing(existing.to_owned()),
        (_, Some(_)) => {
            let message = "Choose a stream above, or name a new one here, not both.";
            typed.wrong("new_stream", message);
            return Ok(None);
        }
    };
    let item_key = typed.optional("item_key");
    let may_delete = may_delete(typed);
    let requests_per_second = rate(typed, "requests_per_second");
    let burst = rate(typed, "burst");
    let Some(kind) = kind.filter(|_| !typed.is_wrong()) else {
        return Ok(None);
    };
    let path = format!("/sources/{}", segment(&name));
    let wish = SetUpWish {
        connector: ConnectorWish {
            name,
            kind,
            item_key,
            may_delete,
            requests_per_second,
            burst,
        },
        key: FIRST_KEY.to_owned(),
        stream,
    };
    let made = form::change(operator, req, |catalog, by| catalog.set_up(wish, by)).await;
    match made {
        Ok((secret, key)) => Ok(Some(Made {
            path,
            key: key.name.to_string(),
            secret,
            previous: None,
        })),
        Err(error) => typed.refuse(error, &[]).map(|()| None),
    }
}
