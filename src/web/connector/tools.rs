//! `/new/tool`: which tool sends.
//!
//! **Invariant**: without a script the page is a plain list; every tool in it leads to its form.

use maud::{Markup, html};
use salvo_core::handler;

use crate::frame::{Page, Place};
use webhook::Preset;

/// `GET /new/tool`
pub(super) struct Tools;

#[handler]
impl Tools {
    async fn handle(&self) -> Page {
        Page {
            title: "Which tool?".to_owned(),
            place: Place::Connectors,
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
        // The script shows it: without one it would find nothing.
        div.field #find hidden {
            label for="find-tool" { "Find a tool" }
            input #find-tool type="search" autocomplete="off" autocapitalize="off" spellcheck="false" aria-describedby="found";
            p.hint #found role="status" {}
        }
        ul.tools #tools {
            @for preset in known { li { a href=(form_of(&preset.name)) { (preset.title) } } }
        }
        h2 { "Not in the list" }
        ul.tools.others {
            li { a href=(form_of("hmac")) { "Another tool that signs" } p.quiet { "With a secret that both sides have, HMAC." } }
            li { a href=(form_of("token")) { "Another tool that sends a fixed secret" } p.quiet { "In a separate header." } }
            li { a href=(form_of("none")) { "A tool or program with an ingest key" } p.quiet { "It can send Authorization: Bearer, or a user name and a password." } }
        }
    }
}

/// The form of a tool.
fn form_of(name: &str) -> String {
    format!("/new/source?tool={name}")
}
