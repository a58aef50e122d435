//! `/connectors/{name}/keys/{key}`: an ingest key, and the forms that rotate and change it.
//!
//! **Invariant**: the text of a key is passed only to the page that shows it once. These pages do not exist for a key
//! that is defined in the configuration.

mod end;
mod new;

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::{find_connector, own_secret, verification};
use crate::description;
use crate::form::{self, Field, Typed};
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::key::{self, Ending};
use crate::text::{text, time};
use crate::{paths, tool};
use base::clock;
use catalog::{GRACE_SECONDS_MAX, IngestKey, KeyState, ResourceKind, Rotation};
use operate::Operator;

/// Units of the field `grace_unit`, in seconds.
const UNITS: [(&str, u64); 4] = [
    ("seconds", 1),
    ("minutes", 60),
    ("hours", 3_600),
    ("days", 86_400),
];

/// Routes of the keys of a connector, below its path.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    let end_key = |path, ending| form::route(path, || end::EndKey(p(), ending));
    Router::new()
        .push(form::route("new-key", || new::NewKey(p())))
        .push(
            Router::with_path("keys/{key}")
                .get(ShowKey(p()))
                .push(Router::with_path("change").post(ChangeKey(p())))
                .push(Router::with_path("rotate").post(RotateKey(p())))
                .push(Router::with_path("take-secret").post(own_secret::TakeSecret(p())))
                .push(end_key("revoke", Ending::Revoke))
                .push(end_key("delete", Ending::Delete)),
        )
}

/// `GET /connectors/{name}/keys/{key}`
struct ShowKey(Operator);

#[handler]
impl ShowKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let key = find_key(&self.0, req)?;
        Ok(show(&self.0, depot, &key, Typed::new(depot, "", &[])))
    }
}

/// The page of the key; a rejected form keeps its values.
fn show(operator: &Operator, depot: &Depot, key: &IngestKey, typed: Typed) -> FormAnswer {
    let settings = serde_json::to_value(key.own_settings()).unwrap_or_default();
    let mut values = Typed::initial(::settings::Key::FIELDS, &settings);
    values.push(("grace", "24".to_owned()));
    values.push(("grace_unit", "hours".to_owned()));
    let typed = typed.with_defaults(Typed::new(depot, "", &values));
    typed.show(page(operator, key, &typed))
}

/// `POST /connectors/{name}/keys/{key}/change`
struct ChangeKey(Operator);

#[handler]
impl ChangeKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let key = find_key(&self.0, req)?;
        let mut typed = Typed::sent(depot).unwrap_or_default();
        let patch = typed.changed_record(::settings::Key::FIELDS);
        let (id, name) = (Arc::clone(&key.connector), key.name.clone());
        let changed = typed.submit(&self.0, req, &[], move |catalog, by| {
            catalog.change_key(&id, &name, &patch, by)
        });
        if changed.await?.is_none() {
            return Ok(show(&self.0, depot, &key, typed));
        }
        let flash = format!("The key {} is changed.", key.name);
        Ok(FormAnswer::Done(paths::connector(&key.connector), flash))
    }
}

/// `POST /connectors/{name}/keys/{key}/rotate`
struct RotateKey(Operator);

#[handler]
impl RotateKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let key = find_key(&self.0, req)?;
        let mut typed = Typed::sent(depot).unwrap_or_default();
        let rotation = read_rotation(&mut typed, &key);
        let (id, name) = (Arc::clone(&key.connector), key.name.clone());
        let fields = [
            ("grace_seconds", "grace"),
            ("expires_at", "new_end"),
            ("scheme", "secret"),
        ];
        let rotated = typed.submit(&self.0, req, &fields, move |catalog, by| {
            catalog.rotate_key(&id, &name, rotation, by)
        });
        let Some((secret, new, old)) = rotated.await? else {
            return Ok(show(&self.0, depot, &key, typed));
        };
        let ends_at = old.revoked_at.or(old.expires_at).unwrap_or_default();
        let path = paths::connector(&key.connector);
        let mut made = FormAnswer::made(path, &new.name, secret);
        match &mut made {
            FormAnswer::Issued(issued) => issued.previous = Some((old.name.to_string(), ends_at)),
            FormAnswer::Done(_, flash) => {
                *flash = format!(
                    "The key {} verifies with the new secret. The old key is called {} now, and expires {}.",
                    new.name,
                    old.name,
                    clock::rfc3339(ends_at)
                );
            }
            FormAnswer::Form(..) => {}
        }
        Ok(made)
    }
}

/// Reads the form of a rotation.
fn read_rotation(typed: &mut Typed, key: &IngestKey) -> Rotation {
    let unit = typed.choice("grace_unit", &UNITS).unwrap_or(1);
    let grace = typed.text("grace").parse::<u64>().ok();
    let grace = grace.and_then(|grace| grace.checked_mul(unit));
    let grace = grace.filter(|seconds| *seconds <= GRACE_SECONDS_MAX);
    if grace.is_none() {
        let days = GRACE_SECONDS_MAX / 86_400;
        let message = format!(
            "Enter a whole number. 0 ends the grace period immediately; the maximum is {days} days."
        );
        typed.reject("grace", message);
    }
    let new_end = typed.time("new_end");
    Rotation {
        grace_seconds: grace.unwrap_or_default(),
        expires_at: match new_end {
            None if typed.is_ticked("new_never_ends") => Some(None),
            None => None,
            ends => Some(ends),
        },
        secret: (key.signing.is_some()).then(|| verification::read_secret(typed)),
    }
}

fn page(operator: &Operator, key: &IngestKey, typed: &Typed) -> FormPage {
    let path = paths::ingest_key(key);
    let is_revoked = key.state() == KeyState::Revoked;
    FormPage {
        title: format!("Key {} of {}", key.name, key.connector),
        place: Place::Connectors,
        content: html! {
            (typed.problems())
            div.panel { (facts(key)) }
            @if !is_revoked {
                h2 { "Rotate" }
                (typed.form(&format!("{path}/rotate"), &html! { (rotate_fields(typed, key)) p.row { button { "Rotate the key" } } }))
                h2 { "Change" }
                (typed.form(&format!("{path}/change"), &html! { (typed.record(rows(key.signing.is_some()), false, &operator.catalog)) p.row { button.plain { "Save" } } }))
            }
            p.row {
                @if !is_revoked { a.button.danger href={ (path) "/revoke" } { "Revoke…" } }
                a.button.danger href={ (path) "/delete" } { "Delete…" }
                a.button.plain href=(paths::connector(&key.connector)) { "Back to the connector" }
            }
        },
    }
}

fn facts(key: &IngestKey) -> Markup {
    html! { dl {
        (description::fact(key.description.as_deref()))
        dt { @if key.signing.is_some() { "Kind" } @else { "Begins with" } } dd { (form_of(key)) }
        dt { "Stream" } dd { a href=(paths::stream(&key.stream)) { (text(&key.stream)) } }
        dt { "State" } dd { (state(key)) }
        (key::networks_fact(&key.networks))
        dt { "Last used" } dd { (last_used(key)) }
        @if let Some(at) = key.refused_at() { dt { "Last rejected" } dd { (time(&clock::rfc3339(at))) ", because it had expired or was revoked" } }
        @if let Some(created_at) = key.created_at { dt { "Made" } dd { (time(&clock::rfc3339(created_at))) } }
    } }
}

/// The prefix of the key, or the signatures that it verifies; and whether it is allowed in URLs.
pub(super) fn form_of(key: &IngestKey) -> Markup {
    let prefix = key.prefix();
    html! { span {
        @match key.verify() {
            Some(verify) if verify.awaits_secret() => { "will verify " (tool::scheme(&verify.options.scheme)) br; span.badge.warn { "no secret yet" } },
            Some(verify) => { "verifies " (tool::scheme(&verify.options.scheme)) br; span.mono.quiet { (text(&verify.shown())) "…" } },
            None if prefix.is_empty() => span.quiet { "known after its first request" },
            None => span.mono { (text(&prefix)) "…" },
        }
        @if key.allow_in_url { br; span.badge { "allowed in URLs" } }
    } }
}

/// The fields of its forms. A key that verifies signatures has no text that could be in a URL.
fn rows(signs: bool) -> impl Iterator<Item = &'static ::settings::Field> {
    let rows = ::settings::Key::FIELDS.iter();
    rows.filter(move |row| !signs || row.name != "allow_in_url")
}

/// The state of the key, and its expiry.
pub(super) fn state(of: &IngestKey) -> Markup {
    html! {
        (key::state(of.state(), of.expires_at, of.is_replaced()))
        @if of.is_test() { " " span.badge { "test" } }
    }
}

/// When the key was last used.
pub(super) fn last_used(key: &IngestKey) -> Markup {
    html! {
        @match key.used_at() {
            Some(used_at) => { (time(&clock::rfc3339(used_at))) },
            None => span.quiet { "no use recorded" },
        }
    }
}

fn rotate_fields(typed: &Typed, key: &IngestKey) -> Markup {
    let grace = Field {
        name: "grace",
        label: "Grace period",
        hint: "",
    };
    let unit = Field {
        name: "grace_unit",
        label: "Unit",
        hint: "",
    };
    let new_end = Field {
        name: "new_end",
        label: "Expires (UTC, optional)",
        hint: "Default: when the old key would have expired.",
    };
    let never = Field {
        name: "new_never_ends",
        label: "Never expires",
        hint: "",
    };
    html! {
        @match &key.signing {
            Some(signing) => {
                @let word = signing.verifier.preset().published().unwrap_or("secret");
                @if key.awaits_secret() { p { "The key has no secret yet. Accept the secret that the tool sends on the page of the connector, or enter a known secret here." } }
                @else { p { "The key with the new " (word) " has the same name. Requests signed with the old " (word) " are accepted until the end of the grace period." } }
                (verification::secret(typed, signing.verifier.preset(), "new "))
            },
            None => p { "The new key has the same name. Senders can use the old key until the end of the grace period." },
        }
        div.fields {
            (typed.number_input(grace, "24"))
            (typed.select(unit, &UNITS.map(|(unit, _)| (unit, unit))))
        }
        (typed.time_input(new_end))
        (typed.tick(never))
    }
}

/// The key in the path, if it was created at run time.
fn find_key(operator: &Operator, req: &Request) -> Result<Arc<IngestKey>, NoPage> {
    let connector = find_connector(operator, req)?;
    let key = connector.key(&paths::param(req, "key"));
    let key = key.cloned().ok_or(NoPage::NotFound(
        "The connector has no such key. Its page lists its keys.",
    ))?;
    NoPage::if_declared(key.created_at, ResourceKind::Key)?;
    Ok(key)
}
