//! The secret that a provider creates and sends before it signs: waiting for it, and accepting it.
//!
//! **Invariant**: the secret is passed only to the page that shows it once.

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};

use super::find_connector;
use crate::frame::{self, FormAnswer, NoPage};
use crate::guard::by;
use crate::text::{as_sentence, text, time};
use crate::{paths, tool};
use base::clock;
use catalog::{Actor, Catalog, CatalogError, Connector, IngestKey, KeyState};
pub(super) use http::sessions::IssuedKey;
use operate::Operator;

/// A panel for each key without its provider's secret: instructions, or the time when the secret arrived and a button.
pub(super) fn awaited(connector: &Connector, depot: &Depot) -> Markup {
    let keys = connector.keys.iter();
    let mut keys = keys.filter(|key| key.awaits_secret() && key.state() == KeyState::Active);
    html! { @while let Some(key) = keys.next() {
        @match key.sent_secret_at() {
            None => p.panel { (tool::name(key.preset)) " creates the secret of the key " (text(&key.name)) ". Enter the URL in " (tool::name_within(key.preset)) ". It then sends its verification token, and this page shows that. Until the token is accepted, all other requests with this key are rejected." },
            Some(sent_at) => form.panel.good.own-secret method="post" action={ (paths::ingest_key(key)) "/take-secret" } {
                (frame::token(depot))
                p { (tool::name(key.preset)) " sent its verification token at " (time(&clock::rfc3339(sent_at))) "." }
                @match key.created_at {
                    Some(_) => { p { "It becomes the secret of the key " (text(&key.name)) ", and is shown once. Paste it into " (tool::name_within(key.preset)) "." } button { "Accept token" } },
                    None => { p { "The key " (text(&key.name)) " is defined in the configuration: the token is shown once. Paste it into " (tool::name_within(key.preset)) ", and set it in the configuration." } button { "Show it" } },
                }
            },
        }
    } }
}

/// The accepted secret, and where to paste it.
pub(super) fn taken(key: &IngestKey, issued: &IssuedKey) -> Markup {
    let within = tool::name_within(key.preset);
    html! { div.panel.made {
        h2 #made tabindex="-1" autofocus { "The verification token of " (within) ", shown only now" }
        p { "Paste it into the settings of " (within) " now. It is not shown again." }
        div.copy data-once {
            code #secret { (issued.secret.expose()) }
            button type="button" data-copy="secret" { "Copy" }
        }
        @if key.created_at.is_some() {
            p { "It is now the secret of the key " strong { (text(&key.name)) } ". If " (within) " rejects it, another client sent it: delete the key, and create a new one." }
        } @else {
            p { "The key " strong { (text(&key.name)) } " is defined in the configuration. Set the token there, as " code { "secret" } " of its " code { "verify" } ". Until then, requests with this key are rejected." }
        }
    } }
}

/// `POST /connectors/{name}/keys/{key}/take-secret`
pub(super) struct TakeSecret(pub(super) Operator);

#[handler]
impl TakeSecret {
    async fn handle(&self, req: &mut Request) -> Result<FormAnswer, NoPage> {
        let connector = find_connector(&self.0, req)?;
        let (id, name) = (connector.name.clone(), paths::param(req, "key"));
        let path = paths::connector(&connector.name);
        let work = move |catalog: &Catalog, by: &Actor| catalog.take_secret(&id, &name, by);
        match self.0.change(by(req), work).await {
            Ok((secret, key)) => Ok(FormAnswer::made(path, &key.name, Some(secret))),
            Err(error @ CatalogError::NoneSent(_)) => {
                let sentence = as_sentence(&error.to_string());
                Ok(FormAnswer::Done(path, sentence))
            }
            Err(error) => Err(error.into()),
        }
    }
}
