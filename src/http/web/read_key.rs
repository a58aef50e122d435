//! `/new/read-key` and `/read-keys/{name}`: what renderers read with.
//!
//! **Invariant**: a key's text leaves this file only towards the page that shows it once. A key that is declared has
//! a page without forms.

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::form::{self, Ending, Field, NAME, Typed, form_time};
use super::frame::{FormPage, NoPage, Place, Sent, token};
use super::sessions::Made;
use super::text::{segment, text, time};
use super::{key_shown_once, snippets};
use crate::catalog::{Catalog, KeyState, Kind, ReadKey, ReadKeyChange, ReadKeyWish};
use crate::clock;
use crate::operate::Operator;

const NO_KEY: NoPage =
    NoPage::NotFound("There is no read key of this name. The page Renderers lists them.");

/// Read keys, and what can be done to them.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    let end_key = |path: &str, ending| {
        Router::with_path(path)
            .get(ShowEndReadKey(p(), ending))
            .post(EndReadKey(p(), ending))
    };
    Router::new()
        .push(
            Router::with_path("new/read-key")
                .get(ShowNewReadKey(p()))
                .post(NewReadKey(p())),
        )
        .push(
            Router::with_path("read-keys/{name}")
                .get(ShowReadKey(p()))
                .post(ChangeReadKey(p()))
                .push(end_key("revoke", Ending::Revoke))
                .push(end_key("delete", Ending::Delete)),
        )
}

/// `GET /new/read-key`
struct ShowNewReadKey(Operator);

#[handler]
impl ShowNewReadKey {
    async fn handle(&self, depot: &mut Depot) -> FormPage {
        new_page(&self.0, depot, &Typed::new("name", &[]))
    }
}

/// `POST /new/read-key`
struct NewReadKey(Operator);

#[handler]
impl NewReadKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let mut typed = Typed::sent(depot);
        let wish = ReadKeyWish {
            name: typed.name(),
            streams: streams(&mut typed),
            expires_ms: typed.time("expires_at"),
            allow_in_url: typed.is_ticked("allow_in_url"),
        };
        let made = typed.submit(&self.0, req, &[], |catalog, by| {
            catalog.create_read_key(wish, by)
        });
        Ok(match made.await? {
            Some((secret, key)) => Sent::Made(Made {
                path: path(&key),
                key: key.name.to_string(),
                secret,
                previous: None,
            }),
            None => typed.again(new_page(&self.0, depot, &typed)),
        })
    }
}

/// The streams that were chosen, at least one.
fn streams(typed: &mut Typed) -> Vec<String> {
    let mut streams = typed.all("streams");
    streams.retain(|name| !name.is_empty());
    if streams.is_empty() {
        typed.wrong("streams", "Choose at least one stream.");
    }
    streams
}

fn new_page(operator: &Operator, depot: &Depot, typed: &Typed) -> FormPage {
    FormPage {
        title: "New read key".to_owned(),
        place: Place::Renderers,
        content: html! {
            (typed.problems())
            form.panel method="post" action="/new/read-key" {
                (token(depot))
                (typed.input(NAME, 64, true))
                (settings(typed, &operator.catalog))
                (form::buttons("Create read key", "/renderers"))
            }
        },
    }
}

fn settings(typed: &Typed, catalog: &Catalog) -> Markup {
    let streams = Field {
        name: "streams",
        label: "Streams",
        hint: "What it may read.",
    };
    let ends = Field {
        name: "expires_at",
        label: "Ends (UTC, optional)",
        hint: "Without a time it never ends.",
    };
    let in_url = Field {
        name: "allow_in_url",
        label: "May stand in a URL",
        hint: "Only for programs that can neither set headers nor run a script: URLs are kept in logs and histories.",
    };
    html! {
        (typed.stream_boxes(streams, catalog))
        (typed.time_input(ends))
        (typed.tick(in_url))
    }
}

/// `GET /read-keys/{name}`
struct ShowReadKey(Operator);

#[handler]
impl ShowReadKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormPage, NoPage> {
        let made = key_shown_once::take(req, depot);
        let key = key(&self.0, req)?;
        let mut values: Vec<(&str, String)> = key
            .streams
            .iter()
            .map(|name| ("streams", name.to_string()))
            .collect();
        values.push(("expires_at", form_time(key.expires_ms)));
        if key.allow_in_url {
            values.push(("allow_in_url", "yes".to_owned()));
        }
        let shown = made.map(|made| shown_once(&self.0, req, &key, &made));
        let typed = Typed::new("", &values);
        Ok(key_page(&self.0, depot, &key, shown, &typed))
    }
}

fn shown_once(operator: &Operator, req: &Request, key: &ReadKey, made: &Made) -> Markup {
    let address = snippets::address(operator, req);
    html! {
        div.panel.made {
            (key_shown_once::panel(made, "read key"))
            @if let Some(stream) = key.streams.first() {
                p { "The page that shows " (text(stream)) ", for a browser, an OBS source or a signage player. The key stands behind the #, which browsers send to nobody." }
                div.copy data-once {
                    code #render { (address.render_url(stream)) "#" (made.secret.expose()) }
                    button.plain type="button" data-copy="render" { "Copy" }
                }
            }
        }
    }
}

/// `POST /read-keys/{name}`
struct ChangeReadKey(Operator);

#[handler]
impl ChangeReadKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let key = own(&self.0, req)?;
        let mut typed = Typed::sent(depot);
        let wanted = ReadKeyChange {
            streams: Some(streams(&mut typed)),
            expires_ms: Some(typed.time("expires_at")),
            allow_in_url: Some(typed.is_ticked("allow_in_url")),
        };
        let name = Arc::clone(&key.name);
        let changed = typed.submit(&self.0, req, &[], move |catalog, by| {
            catalog.change_read_key(&name, wanted, by)
        });
        Ok(match changed.await? {
            Some(changed) => {
                let said = format!("The read key {} is changed.", changed.name);
                Sent::Done("/renderers".to_owned(), said)
            }
            None => typed.again(key_page(&self.0, depot, &key, None, &typed)),
        })
    }
}

fn key_page(
    operator: &Operator,
    depot: &Depot,
    key: &ReadKey,
    shown: Option<Markup>,
    typed: &Typed,
) -> FormPage {
    let path = path(key);
    let is_own = key.created_ms.is_some();
    let is_revoked = key.state() == KeyState::Revoked;
    FormPage {
        title: format!("Read key {}", key.name),
        place: Place::Renderers,
        content: html! {
            (typed.problems())
            @if let Some(shown) = shown { (shown) }
            div.panel { (facts(operator, key)) }
            @if is_own && !is_revoked {
                h2 { "Change" }
                form.panel method="post" action=(path) {
                    (token(depot))
                    p.quiet { "Renderers that are connected with it connect again." }
                    (settings(typed, &operator.catalog))
                    p.row { button { "Save" } }
                }
            }
            p.row {
                @if is_own && !is_revoked { a.button.danger href={ (path) "/revoke" } { "Revoke…" } }
                @if is_own { a.button.danger href={ (path) "/delete" } { "Delete…" } }
                a.button.plain href="/renderers" { "Back to the renderers" }
            }
        },
    }
}

fn facts(operator: &Operator, key: &ReadKey) -> Markup {
    let prefix = key.prefix.as_deref().unwrap_or_default();
    html! { dl {
        dt { "Begins with" } dd.mono { @if prefix.is_empty() { span.quiet { "known as a digest only" } } @else { (text(prefix)) "…" } }
        dt { "Streams" } dd { (text(&key.streams.join(", "))) }
        dt { "State" } dd { (form::key_state(key.state(), key.expires_ms, false)) }
        dt { "May stand in a URL" } dd { @if key.allow_in_url { "yes" } @else { "no" } }
        dt { "Made" } dd { @match key.created_ms {
            Some(created_ms) => { (time(&clock::rfc3339(created_ms))) },
            None => { (form::declared("read_keys", &operator.configuration.declared_in("read_keys", &key.name))) },
        } }
    } }
}

/// `GET /read-keys/{name}/revoke`, or `delete`
struct ShowEndReadKey(Operator, Ending);

#[handler]
impl ShowEndReadKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormPage, NoPage> {
        let key = own(&self.0, req)?;
        Ok(end_page(depot, &key, self.1, &Typed::default()))
    }
}

/// `POST /read-keys/{name}/revoke`, or `delete`
struct EndReadKey(Operator, Ending);

#[handler]
impl EndReadKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let key = own(&self.0, req)?;
        let mut typed = Typed::sent(depot);
        let name = Arc::clone(&key.name);
        let ending = self.1;
        let ended = typed.submit(&self.0, req, &[], move |catalog, by| match ending {
            Ending::Revoke => catalog.revoke_read_key(&name, by),
            Ending::Delete => catalog.delete_read_key(&name, by),
        });
        if ended.await?.is_none() {
            return Ok(typed.again(end_page(depot, &key, ending, &typed)));
        }
        let done = match ending {
            Ending::Revoke => "revoked",
            Ending::Delete => "deleted",
        };
        let said = format!("The read key {} is {done}.", key.name);
        Ok(Sent::Done("/renderers".to_owned(), said))
    }
}

fn end_page(depot: &Depot, key: &ReadKey, ending: Ending, typed: &Typed) -> FormPage {
    let (title, does) = match ending {
        Ending::Revoke => ("Revoke", "Revoke the read key"),
        Ending::Delete => ("Delete", "Delete the read key"),
    };
    let what = html! {
        p {
            "Renderers that are connected with the read key " strong { (text(&key.name)) } " are sent away at once, and it is refused from then on. "
            @match ending {
                Ending::Revoke => "It stays in the list, and cannot be made valid again.",
                Ending::Delete => "It is no longer listed.",
            }
        }
    };
    FormPage {
        title: format!("{title} {}?", key.name),
        place: Place::Renderers,
        content: form::question(typed, &token(depot), &what, does, &path(key)),
    }
}

/// The page of a read key.
pub(super) fn path(key: &ReadKey) -> String {
    format!("/read-keys/{}", segment(&key.name))
}

fn key(operator: &Operator, req: &Request) -> Result<Arc<ReadKey>, NoPage> {
    let name = req.param::<String>("name").unwrap_or_default();
    operator.catalog.read_key(&name).ok_or(NO_KEY)
}

/// The key that the path names, if it was made at run time.
fn own(operator: &Operator, req: &Request) -> Result<Arc<ReadKey>, NoPage> {
    let key = key(operator, req)?;
    match key.created_ms {
        Some(_) => Ok(key),
        None => Err(NoPage::declared(Kind::ReadKey)),
    }
}
