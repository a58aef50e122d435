//! `/connectors/{name}/new-key`: another key of a connector; with `?tool=NAME`, a key that verifies the signatures of this
//! provider.
//!
//! **Invariant**: a connector that is defined in the configuration can have keys that were created here.

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};
use serde_json::{Map, Value};

use crate::connector::{find_connector, verification};
use crate::form::{self, Field, NAME, Typed};
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::paths;
use catalog::Connector;
use operate::Operator;
use webhook::Preset;

/// `/connectors/{name}/new-key`
pub(super) struct NewKey(pub(super) Operator);

#[handler]
impl NewKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let connector = find_connector(&self.0, req)?;
        let signs = match &*req.query::<String>("tool").unwrap_or_default() {
            "" => None,
            name => Some(signing_tool(name)?),
        };
        let Some(mut typed) = Typed::sent(depot) else {
            let typed = initial(depot, &connector, signs);
            return Ok(typed.show(page(&self.0, &connector, signs, &typed)));
        };
        let key = read(&mut typed, &connector, signs);
        let fields = signs.map(verification::named).unwrap_or_default();
        let created = typed.submit(&self.0, req, &fields, |catalog, by| {
            catalog.create_key(key, by)
        });
        let Some((secret, key)) = created.await? else {
            return Ok(typed.show(page(&self.0, &connector, signs, &typed)));
        };
        let path = paths::connector(&connector.name);
        if key.awaits_secret() {
            let flash = format!("The key {} waits for the secret of its tool.", key.name);
            return Ok(FormAnswer::Done(path, flash));
        }
        Ok(FormAnswer::made(path, &key.name, secret))
    }
}

/// A preset with signatures.
fn signing_tool(name: &str) -> Result<&'static Preset, NoPage> {
    let preset = webhook::preset(name).filter(|preset| preset.signed());
    preset.ok_or(NoPage::NotFound(
        "No preset with signatures has this name. The form of a new key lists them.",
    ))
}

/// The form, with the stream of another key of the connector.
fn initial(depot: &Depot, connector: &Connector, signs: Option<&Preset>) -> Typed {
    let stream = connector.keys.first().map(|key| key.stream.to_string());
    let mut values = signs.map(verification::initial).unwrap_or_default();
    values.push(("stream", stream.unwrap_or_default()));
    values.push(("mode", "live".to_owned()));
    Typed::new(depot, "name", &values)
}

fn read(typed: &mut Typed, connector: &Connector, signs: Option<&Preset>) -> catalog::NewKey {
    let test = match signs {
        None => typed.choice("mode", &[("live", false), ("test", true)]) == Some(true),
        Some(_) => false,
    };
    let stream = typed.raw("stream").to_owned();
    if stream.is_empty() {
        typed.reject("stream", "Choose a stream.");
    }
    let mut known = Map::new();
    known.insert("stream".to_owned(), stream.into());
    known.insert("verify".to_owned(), Value::Null);
    let verify = signs.and_then(|preset| verification::read(typed, preset));
    let settings = settings::Key {
        verify,
        ..typed.settings(settings::Key::FIELDS, known)
    };
    catalog::NewKey {
        connector: connector.name.to_string(),
        settings,
        test,
    }
}

fn page(
    operator: &Operator,
    connector: &Connector,
    signs: Option<&'static Preset>,
    typed: &Typed,
) -> FormPage {
    let path = paths::connector(&connector.name);
    let stream = Field {
        name: "stream",
        label: "Stream",
        hint: "The stream that the key writes to.",
    };
    let mode = Field {
        name: "mode",
        label: "Live or test",
        hint: "Requests with a test key are checked and logged; nothing is stored.",
    };
    let fields = html! {
        (typed.input(NAME, 64, true))
        (typed.stream_select(stream, &operator.catalog, None))
        @match signs {
            Some(preset) => { (verification::fields(typed, preset)) },
            None => { (typed.select(mode, &[("live", "live"), ("test", "test")])) },
        }
        (typed.record(super::rows(signs.is_some()), true, &operator.catalog))
        (form::buttons("Create key", &path))
    };
    let own = match signs {
        Some(preset) => format!("{path}/new-key?tool={}", preset.name),
        None => format!("{path}/new-key"),
    };
    FormPage {
        title: match signs {
            Some(preset) if !preset.is_generic() => {
                let word = preset.published().unwrap_or("secret");
                format!("New {word} of {} for {}", preset.title, connector.name)
            }
            _ => format!("New key of {}", connector.name),
        },
        place: Place::Connectors,
        content: html! {
            @if signs.is_none() { (choice_of_tool(connector, &path)) }
            (typed.panel(Some(&own), &fields))
        },
    }
}

/// The choice of a provider, for a key that verifies signatures.
fn choice_of_tool(connector: &Connector, path: &str) -> Markup {
    let mut known: Vec<&Preset> = webhook::presets();
    known.retain(|preset| preset.signed());
    known.sort_by_key(|preset| (preset.is_generic(), preset.title.to_lowercase()));
    let own = connector.preset().map(|preset| &preset.name);
    html! {
        div.panel {
            form.filter method="get" action={ (path) "/new-key" } {
                div {
                    label for="tool" { "Provider that signs" }
                    select #tool name="tool" { @for preset in known {
                        option value=(preset.name) selected[own == Some(&preset.name)] { (preset.title) }
                    } }
                }
                button.plain { "Enter its secret" }
            }
            p.quiet { "The form below creates a key for the request." }
        }
    }
}
