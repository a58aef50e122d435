//! `POST /connectors/{name}/trigger`: a button that sends a test delivery, for connectors of providers that sign.
//!
//! **Invariant**: the test does the same as `headgate trigger`, and passes the same checks as a delivery of the
//! provider.

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::find_connector;
use crate::form_data::FormData;
use crate::frame::{FormAnswer, NoPage};
use crate::guard::by;
use crate::{paths, tool};
use base::clock::Unix;
use catalog::Connector;
use operate::Operator;
use webhook::Preset;

/// Routes for users who cannot manage connectors.
pub(crate) fn routes(operator: &Operator) -> Router {
    Router::with_path("connectors/{name}/trigger").post(SendTest(operator.clone()))
}

/// The preset of the connector, if a test delivery can be created.
pub(super) fn tool_of(connector: &Connector) -> Option<&'static Preset> {
    let now = Unix::now();
    let mut keys = connector.keys.iter();
    let key = keys.find(|key| key.signing.is_some() && key.is_valid_at(now))?;
    key.preset.filter(|preset| !preset.samples.is_empty())
}

/// The button, with a choice of events.
pub(super) fn panel(connector: &Connector, token: &Markup) -> Markup {
    let Some(preset) = tool_of(connector) else {
        return html! {};
    };
    html! {
        form.panel method="post" action={ (paths::connector(&connector.name)) "/trigger" } {
            (token)
            label for="event" { "Test delivery" }
            div.row {
                select #event name="event" {
                    @for sample in &preset.samples { option value=(sample.event) { (sample.event) } }
                }
                button { "Send test" }
            }
            p.quiet { "It is signed with the connector's secret, and stored like a delivery from " (tool::name_within(Some(preset))) ": every sink of its stream receives it." }
        }
    }
}

struct SendTest(Operator);

#[handler]
impl SendTest {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let connector = find_connector(&self.0, req)?;
        let event = FormData::of(depot).and_then(|form| form.get("event"));
        let event = event.filter(|event| !event.is_empty());
        let sent = self.0.trigger(&connector.name, None, event, by(req)).await;
        let path = paths::connector(&connector.name);
        Ok(match sent {
            Ok(sent) => {
                let flash = format!("The test delivery {} was accepted.", sent.event);
                let path = match sent.accepted {
                    Some(accepted) => paths::request(&accepted.receipt.request_id.to_string()),
                    None => path,
                };
                FormAnswer::Done(path, flash)
            }
            Err(error) => FormAnswer::Done(
                path,
                format!("The test delivery was not accepted: {error}."),
            ),
        })
    }
}
