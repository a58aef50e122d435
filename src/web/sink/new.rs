//! `/new/sink`: a card for each plugin, then a form from the plugin's schema, which tries and saves the sink.
//!
//! It works without a script: **Try** sends the form, and the page shows the requests that the sink would send.
//!
//! **Invariant**: a sink is created only from the values in the form.

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};

use super::controls::{SinkForm, draft};
use super::rows::{Asked, Follows};
use super::schema_form::{Wrong, resolved};
use crate::form::{Field, Typed};
use crate::form_data::FormData;
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::guard::by;
use crate::paths;
use crate::text::{plain, segment, text, text_of};
use operate::{Operator, TrialRequest, UsedPlugin};

/// Maximum characters of a reason.
const REASON_CHARS_MAX: usize = 600;

/// `/new/sink`; `?plugin=NAME` selects a plugin
pub(super) struct NewSink(pub(super) Operator);

#[handler]
impl NewSink {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let operator = &self.0;
        let sent = Typed::sent(depot);
        let name = match &sent {
            Some(typed) => typed.text("plugin"),
            None => req.query::<String>("plugin").unwrap_or_default(),
        };
        let plugins = operator.plugins().await;
        let chosen = plugins.iter().find(|used| used.plugin.name == name);
        let Some(plugin) = chosen.filter(|used| used.error().is_none()) else {
            let typed = Typed::new(depot, "", &[]);
            return Ok(typed.show(choice(&plugins)));
        };
        let schema = resolved(&plugin.schema());
        let mut form = SinkForm {
            operator,
            plugin,
            schema: &schema,
            asked: Asked::of(plugin, Follows::Either),
            kept: None,
            data: FormData::of(depot).cloned().unwrap_or_default(),
            wrong: Wrong::new(),
            tried: None,
            notes: Vec::new(),
        };
        let Some(mut typed) = sent else {
            let typed = Typed::new(depot, "name", &[]);
            return Ok(typed.show(page(&form, &typed)));
        };
        let mut body = form.read(&mut typed);
        body.insert("name".to_owned(), typed.text("name").into());
        if typed.raw("do") == "paused" {
            body.insert("enabled".to_owned(), false.into());
        }
        if typed.is_wrong() {
            return Ok(typed.show(page(&form, &typed)));
        }
        let done = match typed.raw("do") {
            "try" => {
                let request = TrialRequest::default();
                form.notes = operator.sink_notes(&draft(&body));
                let tried = operator.try_section(body, request, by(req)).await;
                tried.map(|tried| form.tried = Some(tried))
            }
            _ => match operator.create_sink(body, by(req)).await {
                Ok(sink) => {
                    let flash = format!("Sink {} created.", plain(sink.name()));
                    return Ok(FormAnswer::Done(paths::sink(sink.name()), flash));
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = done {
            form.refuse(error, &mut typed)?;
        }
        Ok(typed.show(page(&form, &typed)))
    }
}

/// The choice of a plugin: a card for each.
fn choice(plugins: &[UsedPlugin]) -> FormPage {
    FormPage {
        title: "Add a sink".to_owned(),
        place: Place::Sinks,
        content: html! {
            p { "A sink hands items of streams to a plugin. Choose the plugin." }
            (cards(plugins, "/new/sink"))
            p.quiet { "A component that you put into the plugins directory appears here within a few seconds." }
        },
    }
}

/// A card for each plugin, with a link to the form at this path.
pub(super) fn cards(plugins: &[UsedPlugin], path: &str) -> Markup {
    html! {
        ul.tools {
            @for used in plugins {
                li {
                    @match used.error() {
                        None => {
                            a href={ (path) "?plugin=" (segment(&used.plugin.name)) } { (text(&used.plugin.name)) }
                            p.quiet {
                                (used.kind()) " " (text(used.version())) ". Asks for: " (text(&used.asks_for()))
                                @if !used.used_by.is_empty() { ". Used by " (text(&used.used_by.join(", "))) }
                            }
                        },
                        Some(error) => { (text(&used.plugin.name)) p.quiet { "It cannot be used: " (text_of(error, REASON_CHARS_MAX)) } },
                    }
                }
            }
        }
    }
}

fn page(form: &SinkForm<'_>, typed: &Typed) -> FormPage {
    let fields = html! {
        (typed.input(NAME, 64, true))
        (form.controls(typed))
        p.row {
            button name="do" value="save" { "Save" }
            button.plain name="do" value="try" { "Try" }
            button.plain name="do" value="paused" { "Save paused" }
            a.button.plain href="/sinks" { "Cancel" }
        }
    };
    FormPage {
        title: format!("Add a sink with {}", plain(&form.plugin.plugin.name)),
        place: Place::Sinks,
        content: html! {
            (form.outcome())
            (typed.panel(Some("/new/sink"), &fields))
            p.quiet { "Secrets are stored in catalog.db as they are, so backups contain them. They are never shown: after " strong { "Try" } ", type them again." }
        },
    }
}

const NAME: Field<'_> = Field {
    name: "name",
    label: "Name",
    hint: "Letters, digits, dots, dashes and underscores. It cannot be changed later.",
};
