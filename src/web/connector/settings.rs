//! What can be set of a connector: the fields that its forms share.
//!
//! **Invariant**: the form that creates a connector and the one that changes it have the same fields and words. What a
//! form has no field for stays as it is.

use maud::{Markup, html};
use salvo_core::Depot;

use crate::catalog::{Catalog, Connector};
use crate::config::{self, ConnectorKind, RATE_MAX, VOLUME_MAX};
use crate::description;
use crate::form::{Field, Typed};
use crate::rules::Rules;
use crate::sender::{self, Preset};
use crate::text::grouped;

/// The form with the connector as it is; with an item key that was chosen elsewhere, its field has the focus.
pub(super) fn initial(depot: &Depot, connector: &Connector, chosen: Option<String>) -> Typed {
    let number = |number: Option<u64>| number.map(|n| n.to_string()).unwrap_or_default();
    let may_delete = match connector.may_delete {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    };
    let first = if chosen.is_some() { "item_key" } else { "kind" };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut values = vec![
        description::initial(connector.description.as_deref()),
        ("kind", connector.kind.as_str().to_owned()),
        ("preset", text(&connector.preset)),
        (
            "item_key",
            chosen.unwrap_or_else(|| text(&connector.item_key)),
        ),
        ("items", text(&connector.items)),
        ("may_delete", may_delete.to_owned()),
        (
            "requests_per_second",
            number(connector.requests_per_second.map(u64::from)),
        ),
        ("burst", number(connector.burst.map(u64::from))),
        ("bytes_per_second", number(connector.bytes_per_second)),
        ("bytes_per_day", number(connector.bytes_per_day)),
    ];
    values.extend(Rules::initial(
        connector.version.as_ref(),
        connector.delete_when.as_ref(),
        connector.expire_after_seconds,
    ));
    Typed::new(depot, first, &values)
}

/// How its requests come.
pub(super) fn kind_field(typed: &Typed) -> Markup {
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

/// The tool that sends, where it has its items, and what decides over them.
pub(super) fn tool_fields(typed: &Typed) -> Markup {
    let preset = Field {
        name: "preset",
        label: "Tool",
        hint: "What its requests are called and how its items are identified. Keys that verify signatures say so by themselves.",
    };
    let items = Field {
        name: "items",
        label: "Where the items are (optional)",
        hint: "The path of an array or an object in a body that holds more, like value. Without one it is the whole body, unless the tool is known to do otherwise.",
    };
    let mut known: Vec<&Preset> = sender::presets().iter().collect();
    known.sort_by_key(|preset| (preset.is_generic(), preset.title.to_lowercase()));
    let mut words = vec![("", "as its keys say")];
    words.extend(known.iter().map(|preset| (preset.name, preset.title)));
    html! {
        (typed.select(preset, &words))
        (typed.input(items, 255, false))
        (Rules::fields(typed, "Without one the tool's counts, or that of the stream."))
    }
}

/// What a connector can do without.
pub(super) fn fields(typed: &Typed, catalog: &Catalog) -> Markup {
    let limits = catalog.limits();
    let bytes = |number| match number {
        0 => "any".to_owned(),
        number => grouped(number),
    };
    let item_key = Field {
        name: "item_key",
        label: "Item key (optional)",
        hint: "The field that identifies an item, like order.id: sent again, it updates the item; @delivery makes each delivery an item of its own. A request can name another with X-Item-Key. Without any, items are identified as their tool is known to do it, or by their position.",
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
    let of_second = Field {
        name: "bytes_per_second",
        label: "Bytes per second of each key (optional)",
        hint: "Of bodies that are stored; 0: any number.",
    };
    let of_day = Field {
        name: "bytes_per_day",
        label: "Bytes per day of each key (optional)",
        hint: "From midnight to midnight, UTC; 0: any number.",
    };
    html! {
        (description::field(typed))
        (typed.input(item_key, 255, false))
        (typed.select(may_delete, &[("", "as its kind says"), ("yes", "yes"), ("no", "no")]))
        div.fields {
            (typed.number_input(per_second, &grouped(limits.requests_per_second.into())))
            (typed.number_input(at_once, &grouped(limits.burst.into())))
        }
        div.fields {
            (typed.number_input(of_second, &bytes(limits.bytes_per_second)))
            (typed.number_input(of_day, &bytes(limits.bytes_per_day)))
        }
    }
}

/// The connector as the form has it; what the form does not ask for stays.
pub(super) fn read(typed: &mut Typed, before: config::Connector) -> config::Connector {
    let text = |typed: &Typed, name: &str, before: Option<String>| match typed.has(name) {
        true => typed.optional(name),
        false => before,
    };
    let rules = match typed.has("version") {
        true => Rules::read(typed),
        false => Rules {
            version: before.version,
            delete_when: before.delete_when,
            expire_after_seconds: before.expire_after_seconds,
        },
    };
    config::Connector {
        preset: text(typed, "preset", before.preset),
        version: rules.version,
        delete_when: rules.delete_when,
        expire_after_seconds: rules.expire_after_seconds,
        items: text(typed, "items", before.items),
        description: description::read(typed),
        kind: kind(typed).unwrap_or_default(),
        item_key: typed.optional("item_key"),
        may_delete: may_delete(typed),
        requests_per_second: rate(typed, "requests_per_second"),
        burst: rate(typed, "burst"),
        bytes_per_second: volume(typed, "bytes_per_second", before.bytes_per_second),
        bytes_per_day: volume(typed, "bytes_per_day", before.bytes_per_day),
        ..before
    }
}

/// What the field `kind` says.
fn kind(typed: &mut Typed) -> Option<ConnectorKind> {
    let words = [ConnectorKind::Webhook, ConnectorKind::Ingest].map(|one| (one.as_str(), one));
    typed.choice("kind", &words)
}

/// What the field `may_delete` says, if anything.
fn may_delete(typed: &Typed) -> Option<bool> {
    match typed.raw("may_delete") {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// A number of requests.
fn rate(typed: &mut Typed, name: &'static str) -> Option<u32> {
    let number = typed.number(name, RATE_MAX)?;
    u32::try_from(number).ok()
}

/// A number of bytes; a form that has no field for it leaves it as it is.
fn volume(typed: &mut Typed, name: &'static str, before: Option<u64>) -> Option<u64> {
    match typed.has(name) {
        true => typed.number_from(name, 0, VOLUME_MAX),
        false => before,
    }
}
