//! The item key of a connector, and the question for one if nothing identifies its items.
//!
//! **Invariant**: the question is shown only if each object would overwrite the last, and a choice only fills in the
//! form that changes the connector.

use maud::{Markup, html};

use crate::paths;
use crate::text::{segment, text};
use catalog::Connector;
use journal::Outcome;
use operate::Operator;
use operate::content::{Content, FieldContent};
use operate::requests::{self, Report};
use settings::ConnectorKind;
use webhook::Preset;

/// The item key of providers whose deliveries are separate items.
const DELIVERY: &str = "@delivery";
/// Maximum fields to choose from.
const CHOICES_MAX: usize = 12;
/// Maximum bytes of an item key.
const NAME_BYTES_MAX: usize = 255;
/// Typical ends of the names of identifying fields.
const LIKELY: [&str; 8] = ["id", "key", "uuid", "number", "sku", "code", "ref", "name"];

/// The effective item key: the connector's own, or that of its preset.
pub(super) fn fact(connector: &Connector) -> Markup {
    let preset = connector.preset();
    let by_delivery = html! { "each delivery is a separate item" };
    html! {
        @match (&connector.item_key, preset) {
            (Some(field), _) if field == DELIVERY => { (by_delivery) },
            (Some(field), _) => { (text(field)) },
            (None, Some(Preset { item_key: Some(key), title, .. })) if key.described() != DELIVERY => { (key.described()) span.quiet { ", as usual for " (title) } },
            (None, Some(preset)) if !preset.is_generic() => { (by_delivery) span.quiet { ", as usual for " (preset.title) } },
            (None, _) => span.quiet { "none: a request names it with X-Item-Key, or items are identified by their position" },
        }
    }
}

/// Whether a new object overwrites the last one.
pub(super) fn is_missing(connector: &Connector, log: &requests::Page) -> bool {
    connector.kind == ConnectorKind::Webhook
        && connector.item_key.is_none()
        && connector
            .preset()
            .is_none_or(|preset| preset.is_generic() && preset.item_key.is_none())
        && !connector.keys.is_empty()
        && newest(connector, log).is_none_or(|report| report.row.entry.item_key.is_none())
}

/// The question for an item key, with the fields of the newest request of `asked`; none: it is not asked. If these cannot be
/// read, the question has no fields, because a page that shows a key once must not fail.
pub(super) async fn question(
    operator: &Operator,
    connector: &Connector,
    asked: Option<&requests::Page>,
) -> Markup {
    let Some(log) = asked else {
        return html! {};
    };
    let kept = match newest(connector, log) {
        Some(report) => operator.ingest.kept(&report.row).await.ok(),
        None => None,
    };
    let content = kept.as_ref().map(Content::from);
    let fields = match &content {
        Some(Content::Items { items, .. }) => items.first().map(|item| choices(&item.fields)),
        _ => None,
    };
    panel(connector, &fields.unwrap_or_default())
}

fn panel(connector: &Connector, fields: &[&FieldContent]) -> Markup {
    let path = format!("{}/change", paths::connector(&connector.name));
    html! {
        div.panel.asks #identity {
            p {
                strong { "No item key: each new object overwrites the last." }
                " Which field identifies an order, a person or a machine?"
            }
            @if connector.created_at.is_none() {
                p { "Set " code { "item_key" } " of this connector in the configuration." }
            } @else if fields.is_empty() {
                p { "After the first request, its fields are listed here. " a href={ (path) "?item_key=" } { "Name the field now" } "." }
            } @else {
                p { "The newest request has these fields:" }
                ul.choices { @for field in fields {
                    li { a href={ (path) "?item_key=" (segment(&field.name)) } { (text(&field.name)) } " " span.quiet { (text(&field.value)) } }
                } }
                p.quiet { "For things that happen once, like messages, " a href={ (path) "?item_key=" (segment(DELIVERY)) } { "make each delivery a separate item" } "." }
            }
        }
    }
}

/// The newest accepted request.
fn newest<'a>(connector: &Connector, log: &'a requests::Page) -> Option<&'a Report> {
    let since = connector.created_at.unwrap_or_default();
    log.reports.iter().find(|report| {
        let entry = &report.row.entry;
        entry.outcome == Outcome::Accepted && entry.received_at >= since
    })
}

/// Fields that can identify an item, the likely ones first.
fn choices(fields: &[FieldContent]) -> Vec<&FieldContent> {
    let could = |field: &&FieldContent| {
        let is_scalar = !field.value.starts_with(['[', '{']) && field.value != "null";
        is_scalar && field.bytes_left_out == 0 && (1..=NAME_BYTES_MAX).contains(&field.name.len())
    };
    let is_unlikely = |field: &&FieldContent| {
        let name = field.name.to_lowercase();
        !LIKELY.iter().any(|end| name.ends_with(end))
    };
    let mut fields: Vec<&FieldContent> = fields.iter().filter(could).collect();
    // Stable: other fields stay in their order.
    fields.sort_by_key(is_unlikely);
    fields.truncate(CHOICES_MAX);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likely_fields_stand_first_and_what_cannot_identify_does_not_stand_there() {
        let field = |name: &str, value: &str| FieldContent {
            name: name.to_owned(),
            value: value.to_owned(),
            bytes_left_out: 0,
        };
        let fields = [
            field("total", "12"),
            field("lines", "[1]"),
            field("customer.id", "7"),
            field("note", "null"),
            field("order_number", "\"A-1\""),
        ];
        let chosen = choices(&fields);
        let names: Vec<&str> = chosen.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["customer.id", "order_number", "total"]);
    }
}
