//! The secret that a tool makes itself, and sends before it signs: waiting for it, and taking it.
//!
//! **Invariant**: the secret goes from here only to the page that shows it once.

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

/// For each key that awaits its tool's secret: that it does, or when the secret came, and the way to it.
pub(super) fn awaited(connector: &Connector, depot: &Depot) -> Markup {
    let keys = connector.keys.iter();
    let mut keys = keys.filter(|key| key.awaits_secret() && key.state() == KeyState::Active);
    html! { @while let Some(key) = keys.next() {
        @match key.sent_secret_at() {
            None => p.panel { (tool::name(key.preset)) " makes the secret of the key " (text(&key.name)) " itself. Enter the URL in " (tool::name_within(key.preset)) ": it sends its verification token here then, and this page says so. Until the token is used, nothing else is accepted with this key." },
            Some(sent_at) => form.panel.good.own-secret method="post" action={ (paths::ingest_key(key)) "/take-secret" } {
                (frame::token(depot))
                p { (tool::name(key.preset)) " sent its verification token at " (time(&clock::rfc3339(sent_at))) "." }
                @match key.created_at {
                    Some(_) => { p { "It becomes the secret of the key " (text(&key.name)) ", and is shown once, to be pasted into " (tool::name_within(key.preset)) "." } button { "Use it, and show it" } },
                    None => { p { "The key " (text(&key.name)) " is declared: the token is shown once, to be pasted into " (tool::name_within(key.preset)) " and set in the configuration." } button { "Show it" } },
                }
            },
        }
    } }
}

/// The secret that was just taken, and what to do with it.
pub(super) fn taken(key: &IngestKey, issued: &IssuedKey) -> Markup {
    let within = tool::name_within(key.preset);
    html! { div.panel.made {
        h2 #made tabindex="-1" autofocus { "The verification token of " (within) ", shown only now" }
        p { "Paste it into " (within) ", where it asks for it. When this page is left or loaded again, nobody can see it any more." }
        div.copy data-once {
            code #secret { (issued.secret.expose()) }
            button type="button" data-copy="secret" { "Copy" }
        }
        @if key.created_at.is_some() {
            p { "It is the secret of the key " strong { (text(&key.name)) } " from now on. If " (within) " does not take it, somebody else has sent it: delete the key, and make another one." }
        } @else {
            p { "The key " strong { (text(&key.name)) } " is declared: put the token into the configuration, as " code { "secret" } " of its " code { "verify" } ". Until then nothing is accepted with it." }
        }
    } }
}

/// `POST /sources/{name}/keys/{key}/take-secret`
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
