//! Names of providers on the pages.
//!
//! **Invariant**: a generic preset is never shown with a name that could be that of a provider.

use maud::{Markup, html};

use super::text::text;
use journal::log::Sender;
use webhook::Preset;

/// The name at the beginning of a sentence.
pub(super) fn name(preset: Option<&Preset>) -> &str {
    preset
        .filter(|preset| !preset.is_generic())
        .map_or("The tool", |preset| &preset.title)
}

/// The name within a sentence.
pub(super) fn name_within(preset: Option<&Preset>) -> &str {
    match name(preset) {
        "The tool" => "the tool",
        title => title,
    }
}

/// The name of a scheme that verifies signatures: `GitHub`.
pub(super) fn scheme(name: &str) -> Markup {
    html! { @match webhook::preset(name) {
        Some(preset) if !preset.is_generic() => { (preset.title) " (" code { (preset.name) } ")" },
        Some(preset) if preset.name == "token" => { "the fixed secret in its header (" code { "token" } ")" },
        Some(preset) => { "its signature (" code { (preset.name) } ")" },
        None => { (text(name)) },
    } }
}

/// The provider's data about a request, and how the request was verified, as entries in the list of facts.
pub(super) fn facts(said: &Sender) -> Markup {
    html! {
        dt { "Verified by" }
        dd { @match &said.scheme { Some(name) => { (scheme(name)) }, None => "its key" } }
        @if let Some(event) = &said.event { dt { "Event" } dd { (text(event)) } }
        @if let Some(id) = &said.delivery { dt { "Delivery" } dd.mono { (text(id)) } }
    }
}
