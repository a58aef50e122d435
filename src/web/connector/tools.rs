//! `/new/tool`: the choice of a preset; `/presets`: the origin of each preset.
//!
//! **Invariant**: without a script, the page is a plain list; each preset links to its form.

use maud::{Markup, html};
use salvo_core::handler;

use crate::frame::{Head, Page, Place};
use webhook::{Preset, PresetOrigin};

/// `GET /new/tool`
pub(super) struct Tools;

#[handler]
impl Tools {
    async fn handle(&self) -> Page {
        Page {
            title: "Which tool?".to_owned(),
            place: Place::Connectors,
            head: Head {
                above: vec![("/connectors".to_owned(), "Connectors".to_owned())],
                ..Head::default()
            },
            still: list(),
            live: html! {},
            old: true,
        }
    }
}

fn list() -> Markup {
    let mut known: Vec<&Preset> = webhook::presets();
    known.retain(|preset| !preset.is_generic());
    known.sort_by_key(|preset| preset.title.to_lowercase());
    html! {
        // The script shows it: the field has no function without a script.
        div.field #find hidden {
            label for="find-tool" { "Find a tool" }
            input #find-tool type="search" autocomplete="off" autocapitalize="off" spellcheck="false" aria-describedby="found";
            p.hint #found role="status" {}
        }
        ul.tools #tools {
            @for preset in known { li {
                a href=(form_of(&preset.name)) { (preset.title) }
                @if let PresetOrigin::Own(place) = &preset.origin { p.quiet { "From " (place) } }
            } }
        }
        p { a href="/presets" { "Origin and tests of each preset" } }
        h2 { "Not in the list" }
        ul.tools.others {
            li { a href=(form_of("hmac")) { "Another provider that signs" } p.quiet { "Shared secret (HMAC)." } }
            li { a href=(form_of("token")) { "Another provider with a fixed secret" } p.quiet { "In a separate header." } }
            li { a href=(form_of("none")) { "A tool or program with an ingest key" } p.quiet { "It can send Authorization: Bearer, or a user name and a password." } }
        }
    }
}

/// `GET /presets`
pub(super) struct Presets;

#[handler]
impl Presets {
    async fn handle(&self) -> Page {
        Page {
            title: "Presets".to_owned(),
            place: Place::Connectors,
            head: Head {
                above: vec![("/connectors".to_owned(), "Connectors".to_owned())],
                ..Head::default()
            },
            still: table(),
            live: html! {},
            old: true,
        }
    }
}

fn table() -> Markup {
    html! {
        p { "The presets of tools. Your own presets are files in " code { "presets" } " of the data directory, or " code { "[[presets]]" } " in the configuration. " code { "vector" } " means that a delivery of the tool or of its SDK was verified, " code { "itself" } " that only samples were, which are signed by the same rules: send a test from the tool before you rely on it." }
        div.table { table {
            thead { tr { th { "Preset" } th { "Tool" } th { "Verified by" } th { "Tested with" } th { "From" } } }
            tbody { @for preset in webhook::presets() { tr {
                td data-label="Preset" { code { (preset.name) } }
                td data-label="Tool" { span { (preset.title) } }
                td data-label="Verified by" { span { (verified_by(preset)) } }
                td data-label="Tested with" { span { (preset.proved()) } }
                td data-label="From" { span { (preset.origin.shown()) } }
            } } }
        } }
    }
}

fn verified_by(preset: &Preset) -> &'static str {
    match (preset.signed(), preset.has_unsigned_body()) {
        (false, _) => "a key in its requests",
        (true, false) => "its signature",
        (true, true) => "a signature that does not cover the body",
    }
}

/// The URL of the form for a preset.
fn form_of(name: &str) -> String {
    format!("/new/connector?tool={name}")
}
