//! Tools as pages name them.
//!
//! **Invariant**: what stands for no tool of its own is never called by a name that could be one.

use maud::{Markup, html};

use super::text::text;
use journal::log::Sender;
use webhook::Preset;

/// At the beginning of a sentence.
pub(super) fn name(preset: Option<&Preset>) -> &str {
    preset
        .filter(|preset| !preset.is_generic())
        .map_or("The tool", |preset| &preset.title)
}

/// The same within one.
pub(super) fn name_within(preset: Option<&Preset>) -> &str {
    match name(preset) {
        "The tool" => "the tool",
        title => title,
    }
}

/// By what a scheme verifies: `GitHub`.
pub(super) fn scheme(name: &str) -> Markup {
    html! { @match webhook::preset(name) {
        Some(preset) if !preset.is_generic() => { (preset.title) " (" code { (preset.name) } ")" },
        Some(preset) if preset.name == "token" => { "the fixed secret in its header (" code { "token" } ")" },
        Some(preset) => { "its signature (" code { (preset.name) } ")" },
        None => { (text(name)) },
    } }
}

/// Among the facts of a request: what the tool said of it, and how that was verified.
pub(super) fn facts(said: &Sender) -> Markup {
    html! {
        dt { "Verified by" }
        dd { @match &said.scheme { Some(name) => { (scheme(name)) }, None => "its key" } }
        @if let Some(event) = &said.event { dt { "Event" } dd { (text(event)) } }
        @if let Some(id) = &said.delivery { dt { "Delivery" } dd.mono { (text(id)) } }
    }
}
