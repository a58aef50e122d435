//! `/read-keys/{name}`: a read key, and the form that changes it.
//!
//! **Invariant**: the text of a key is shown only once, on the page after its creation. The page of a key that is
//! defined in the configuration has no forms.

mod end;
mod new;

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::form::{self, Typed};
use super::frame::{FormAnswer, FormPage, NoPage, Place};
use super::key::{self, Ending, shown_once};
use super::origin::origin;
use super::text::text;
use super::{description, paths, snippets};
use catalog::{KeyState, POLLS_PER_SECOND, ReadKey, ResourceKind};
use http::sessions::IssuedKey;
use operate::Operator;

/// Maximum links to streams of a key.
const LINKS_MAX: usize = 50;

/// Routes of the read keys.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    let end_key = |path, ending| form::route(path, || end::EndReadKey(p(), ending));
    Router::new()
        .push(form::route("new/read-key", || new::NewReadKey(p())))
        .push(
            Router::with_path("read-keys/{name}")
                .get(ShowReadKey(p()))
                .post(ShowReadKey(p()))
                .push(end_key("revoke", Ending::Revoke))
                .push(end_key("delete", Ending::Delete)),
        )
}

/// `/read-keys/{name}`
struct ShowReadKey(Operator);

#[handler]
impl ShowReadKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let Some(mut typed) = Typed::sent(depot) else {
            let issued = shown_once::take(req, depot).await?;
            let key = find_key(&self.0, req)?;
            let shown = issued.map(|issued| issued_key(&self.0, req, &key, &issued));
            let typed = initial(depot, &key);
            let shown = html! {
                @if let Some(shown) = shown { (shown) }
                (operate_links(&self.0, req, &key))
            };
            return Ok(typed.show(page(&self.0, &key, &shown, &typed)));
        };
        let key = find_changeable(&self.0, req)?;
        let patch = typed.changed_record(settings::ReadKey::FIELDS);
        let name = Arc::clone(&key.name);
        let changed = typed.submit(&self.0, req, &[], move |catalog, by| {
            catalog.change_read_key(&name, &patch, by)
        });
        let Some(changed) = changed.await? else {
            return Ok(typed.show(page(&self.0, &key, &html! {}, &typed)));
        };
        let flash = format!("The read key {} is changed.", changed.name);
        Ok(FormAnswer::Done("/renderers".to_owned(), flash))
    }
}

/// The form with the current settings of the key.
fn initial(depot: &Depot, key: &ReadKey) -> Typed {
    let settings = serde_json::to_value(&*key.settings).unwrap_or_default();
    let values = Typed::initial(settings::ReadKey::FIELDS, &settings);
    Typed::new(depot, "", &values)
}

fn issued_key(operator: &Operator, req: &Request, key: &ReadKey, issued: &IssuedKey) -> Markup {
    let address = snippets::address(operator, req);
    html! {
        div.panel.made {
            (shown_once::panel(issued, "read key"))
            @if let Some(stream) = key.streams.first().filter(|_| key.operate) {
                p { "The page to override and hold items of " (text(stream)) ", for a phone, a tablet or a desk. The key is in the part after #, which browsers do not send." }
                div.copy data-once {
                    code #operate { (address.operate_url(stream)) "#" (issued.secret.expose()) }
                    button.plain type="button" data-copy="operate" { "Copy" }
                }
            } @else if let Some(stream) = key.streams.first() {
                p { "The page that shows " (text(stream)) ", for a browser, an OBS source or a signage player. The key is in the part after #, which browsers do not send." }
                div.copy data-once {
                    code #render { (address.render_url(stream)) "#" (issued.secret.expose()) }
                    button.plain type="button" data-copy="render" { "Copy" }
                }
            }
        }
    }
}

/// The pages on which a valid operate key can be used.
fn operate_links(operator: &Operator, req: &Request, key: &ReadKey) -> Markup {
    let address = snippets::address(operator, req);
    let is_valid = key.state() == KeyState::Active;
    html! {
        @if key.operate && is_valid {
            p { "Use it on the " a href="/docs/show#correct-and-hold-what-is-shown" { "operate page" } " of each stream, which asks for the key: "
                @for (place, stream) in key.streams.iter().take(LINKS_MAX).enumerate() {
                    @if place > 0 { ", " }
                    a href=(address.operate_url(stream)) { (text(stream)) }
                }
                @if key.streams.len() > LINKS_MAX { " …" }
            }
        }
    }
}

fn page(operator: &Operator, key: &ReadKey, shown: &Markup, typed: &Typed) -> FormPage {
    let path = paths::read_key(&key.name);
    let is_own = key.created_at.is_some();
    let is_revoked = key.state() == KeyState::Revoked;
    let fields = html! {
        p.quiet { "Screens with this key reconnect." }
        (typed.record(settings::ReadKey::FIELDS, false, &operator.catalog))
        p.row { button { "Save" } }
    };
    FormPage {
        title: format!("Read key {}", key.name),
        place: Place::Renderers,
        content: html! {
            (typed.problems())
            (shown)
            div.panel { (facts(operator, key)) }
            @if is_own && !is_revoked {
                h2 { "Change" }
                (typed.form(&path, &fields))
            }
            p.row {
                @if is_own && !is_revoked { a.button.danger href={ (path) "/revoke" } { "Revoke…" } }
                @if is_own { a.button.danger href={ (path) "/delete" } { "Delete…" } }
                a.button.plain href="/renderers" { "Back to the screens" }
            }
        },
    }
}

fn facts(operator: &Operator, key: &ReadKey) -> Markup {
    let prefix = key.prefix.as_deref().unwrap_or_default();
    html! { dl {
        (description::fact(key.description.as_deref()))
        dt { "Begins with" } dd.mono { @if prefix.is_empty() { span.quiet { "known as a digest only" } } @else { (text(prefix)) "…" } }
        dt { "Streams" } dd { (text(&key.streams.join(", "))) }
        dt { "State" } dd { (super::key::state(key.state(), key.expires_at, false)) }
        (key::networks_fact(&key.networks))
        @if !key.origins.is_empty() { dt { "Allowed origins" } dd.mono { (text(&key.origins.join(", "))) } }
        @if let Some(limit) = &key.r#where { dt { "Only items where" } dd.mono { (text(limit.text())) } }
        @if let Some(limit) = &key.fields { dt { "Only these fields" } dd.mono { (text(limit.text())) } }
        @if key.operate { dt { "Acts" } dd { "yes: it overrides and holds items of its streams" } }
        dt { "Allowed in URLs" } dd { @if key.allow_in_url { "yes" } @else { "no" } }
        dt { "Feeds per second" } dd { (key.requests_per_second.unwrap_or(POLLS_PER_SECOND)) }
        @if let Some(shown) = &key.page { dt { "Should show" } dd.mono { (text(shown)) } }
        @if key.expect { dt { "Always connected" } dd { "expected; away for " (key.away_after_seconds) " s is a problem" } }
        dt { "Created" } dd { (origin(operator, "read_keys", &key.name, key.created_at)) }
    } }
}

fn find_key(operator: &Operator, req: &Request) -> Result<Arc<ReadKey>, NoPage> {
    let key = operator.catalog.read_key(&paths::param(req, "name"));
    key.ok_or(NoPage::NotFound(
        "There is no such read key. The page Screens lists the read keys.",
    ))
}

/// The key in the path, if it was created at run time.
fn find_changeable(operator: &Operator, req: &Request) -> Result<Arc<ReadKey>, NoPage> {
    let key = find_key(operator, req)?;
    NoPage::if_declared(key.created_at, ResourceKind::ReadKey)?;
    Ok(key)
}
