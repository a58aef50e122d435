//! `/new/connector?tool=NAME`: a form for the connector of a preset.
//!
//! **Invariant**: the form has no fields for values that the preset determines.

use maud::{Markup, html};
use salvo_core::{Depot, Request};
use serde_json::Map;

use super::{read_stream, stream_fields};
use crate::connector::verification;
use crate::form::{self, Field, NAME, Typed};
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::{paths, tool};
use catalog::{Catalog, FIRST_KEY, SetUp};
use operate::Operator;
use settings::ConnectorKind;
use webhook::{ItemKey, Preset};

/// The item key of providers whose deliveries are separate items.
const DELIVERY: &str = "@delivery";

/// Answers with the form, or handles the form that was sent.
pub(super) async fn answer(
    operator: &Operator,
    req: &Request,
    depot: &Depot,
    preset: &'static Preset,
) -> Result<FormAnswer, NoPage> {
    let Some(mut typed) = Typed::sent(depot) else {
        let mut values = verification::initial(preset);
        values.push(("name", free_name(&operator.catalog, preset)));
        let typed = Typed::new(depot, "name", &values);
        return Ok(typed.show(page(operator, preset, &typed)));
    };
    let set_up = read(&mut typed, preset);
    let path = paths::connector(&typed.text(NAME.name));
    let fields = verification::named(preset);
    let stream = set_up.stream.made().map(str::to_owned);
    let created = typed.submit_with(stream, operator, req, &fields, |catalog, by| {
        catalog.set_up(set_up, by)
    });
    let Some((secret, key)) = created.await? else {
        return Ok(typed.show(page(operator, preset, &typed)));
    };
    Ok(match secret {
        Some(_) => FormAnswer::made(path, &key.name, secret),
        None => {
            let within = tool::name_within(Some(preset));
            let flash = format!(
                "Connector {} created. Now paste its URL into {within}.",
                key.connector
            );
            FormAnswer::Done(path, flash)
        }
    })
}

/// The name of the preset, with a number if such a connector exists.
fn free_name(catalog: &Catalog, preset: &Preset) -> String {
    if preset.is_generic() {
        return String::new();
    }
    let numbered = (2..100).map(|number| format!("{}-{number}", preset.name));
    let mut names = std::iter::once(preset.name.clone()).chain(numbered);
    names
        .find(|name| catalog.connector(name).is_none())
        .unwrap_or_default()
}

fn page(operator: &Operator, preset: &'static Preset, typed: &Typed) -> FormPage {
    let item_key = Field {
        name: "item_key",
        label: "Item key (optional)",
        hint: &item_key_hint(preset),
    };
    let fields = html! {
        (typed.input(NAME, 64, true))
        (stream_fields(typed, &operator.catalog))
        @if preset.signed() { (verification::fields(typed, preset)) } @else { (unsigned(preset)) }
        (typed.input(item_key, 255, false))
        (form::buttons("Create connector", "/new/tool"))
    };
    FormPage {
        title: match preset.is_generic() {
            true => preset.title.clone(),
            false => format!("Connect {}", preset.title),
        },
        place: Place::Connectors,
        content: typed.panel(
            Some(&format!("/new/connector?tool={}", preset.name)),
            &fields,
        ),
    }
}

/// Shown in place of the field for a secret.
fn unsigned(preset: &Preset) -> Markup {
    html! { p #no-secret {
        "Requests from " (tool::name_within(Some(preset))) " have no signature that Headgate can verify, so the URL contains a key. "
        "The next page shows that URL once. Anyone with the URL can send: URLs are kept in logs and histories."
    } }
}

/// The hint with the default item key.
fn item_key_hint(preset: &Preset) -> String {
    let example = "A field such as order.id: sent again, it updates the item.";
    match preset.item_key.as_ref().map(ItemKey::described).as_deref() {
        None if preset.is_generic() => {
            format!("{example} If empty, each new object overwrites the last.")
        }
        None | Some(DELIVERY) => {
            format!("{example} If empty, each delivery is a separate item.")
        }
        Some(fields) => {
            // The delivery is the default only if no field is present; the hint omits it.
            let fields = fields
                .strip_suffix(&format!(", else {DELIVERY}"))
                .unwrap_or(fields);
            format!("{example} Default: {fields}.")
        }
    }
}

fn read(typed: &mut Typed, preset: &Preset) -> SetUp {
    let name = typed.text(NAME.name);
    let mut known = Map::new();
    known.insert("kind".to_owned(), ConnectorKind::Webhook.as_str().into());
    if !preset.signed() {
        // For a key that verifies signatures, the scheme determines the preset.
        known.insert("preset".to_owned(), preset.name.as_str().into());
    }
    SetUp {
        stream: read_stream(typed, &name),
        key: FIRST_KEY.to_owned(),
        allow_in_url: !preset.signed(),
        verify: verification::read(typed, preset),
        connector: typed.new_record(settings::Connector::FIELDS, known),
    }
}
