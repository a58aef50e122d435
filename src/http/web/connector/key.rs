//! `/sources/{name}/new-key` and `/sources/{name}/keys/{key}`: the ingest keys of a connector.
//!
//! **Invariant**: a key's text leaves this file only towards the page that shows it once. A key that is declared has
//! none of these pages.

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};

use super::change::{NO_CONNECTOR, path};
use crate::catalog::{Connector, GRACE_SECONDS_MAX, IngestKey, KeyState, KeyWish, Kind, Rotation};
use crate::clock;
use crate::http::web::form::{self, Ending, Field, NAME, Typed, form_time};
use crate::http::web::frame::{FormPage, NoPage, Place, Sent, token};
use crate::http::web::sessions::Made;
use crate::http::web::text::{segment, text, time};
use crate::operate::Operator;

const NO_KEY: NoPage =
    NoPage::NotFound("The connector has no key of this name. Its page lists its keys.");
/// Words of the field `grace_unit`, in seconds.
const UNITS: [(&str, u64); 4] = [
    ("seconds", 1),
    ("minutes", 60),
    ("hours", 3_600),
    ("days", 86_400),
];

/// `GET /sources/{name}/new-key`
pub(super) struct ShowNewKey(pub(super) Operator);

#[handler]
impl ShowNewKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormPage, NoPage> {
        let connector = connector(&self.0, req)?;
        let stream = connector.keys.first().map(|key| key.stream.to_string());
        let values = [
            ("stream", stream.unwrap_or_default()),
            ("mode", "live".to_owned()),
        ];
        let typed = Typed::new("name", &values);
        Ok(new_page(&self.0, depot, &connector, &typed))
    }
}

/// `POST /sources/{name}/new-key`
pub(super) struct NewKey(pub(super) Operator);

#[handler]
impl NewKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let connector = connector(&self.0, req)?;
        let mut typed = Typed::sent(depot);
        let stream = typed.raw("stream").to_owned();
        let wish = KeyWish {
            connector: connector.name.to_string(),
            name: typed.name(),
            test: typed.choice("mode", &[("live", false), ("test", true)]) == Some(true),
            expires_ms: typed.time("expires_at"),
            stream,
        };
        if wish.stream.is_empty() {
            typed.wrong("stream", "Choose a stream.");
        }
        let made = typed.submit(&self.0, req, &[], |catalog, by| {
            catalog.create_key(wish, by)
        });
        Ok(match made.await? {
            Some((secret, key)) => Sent::Made(Made {
                path: path(&connector.name),
                key: key.name.to_string(),
                secret,
                previous: None,
            }),
            None => typed.again(new_page(&self.0, depot, &connector, &typed)),
        })
    }
}

fn new_page(operator: &Operator, depot: &Depot, connector: &Connector, typed: &Typed) -> FormPage {
    let stream = Field {
        name: "stream",
        label: "Stream",
        hint: "The one that it may send to.",
    };
    let mode = Field {
        name: "mode",
        label: "Live or test",
        hint: "What a test key sends is checked and logged, and nothing is stored.",
    };
    FormPage {
        title: format!("New key of {}", connector.name),
        place: Place::Connectors,
        content: html! {
            (typed.problems())
            form.panel method="post" {
                (token(depot))
                (typed.input(NAME, 64, true))
                (typed.stream_select(stream, &operator.catalog, None))
                (typed.select(mode, &[("live", "live"), ("test", "test")]))
                (typed.time_input(ENDS))
                (form::buttons("Create key", &path(&connector.name)))
            }
        },
    }
}

const ENDS: Field<'_> = Field {
    name: "expires_at",
    label: "Ends (UTC, optional)",
    hint: "Without a time it never ends.",
};

/// `GET /sources/{name}/keys/{key}`
pub(super) struct ShowKey(pub(super) Operator);

#[handler]
impl ShowKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormPage, NoPage> {
        let key = own(&self.0, req)?;
        Ok(key_page(depot, &key, &begun(&key)))
    }
}

/// What stands in the forms of a key at first.
fn begun(key: &IngestKey) -> Typed {
    let values = [
        ("expires_at", form_time(key.expires_ms)),
        ("grace", "24".to_owned()),
        ("grace_unit", "hours".to_owned()),
    ];
    Typed::new("", &values)
}

/// `POST /sources/{name}/keys/{key}/change`
pub(super) struct ChangeKey(pub(super) Operator);

#[handler]
impl ChangeKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let key = own(&self.0, req)?;
        let mut typed = Typed::sent(depot);
        let expires_ms = typed.time("expires_at");
        let (id, name) = (Arc::clone(&key.connector), key.name.clone());
        let changed = typed.submit(&self.0, req, &[], move |catalog, by| {
            catalog.change_key(&id, &name, Some(expires_ms), by)
        });
        Ok(match changed.await? {
            Some(_) => {
                let said = format!("The key {} is changed.", key.name);
                Sent::Done(path(&key.connector), said)
            }
            None => again(depot, &key, typed),
        })
    }
}

/// The page of the key, with the form that was sent as it was sent.
fn again(depot: &Depot, key: &IngestKey, typed: Typed) -> Sent {
    let typed = typed.or(begun(key));
    typed.again(key_page(depot, key, &typed))
}

/// `POST /sources/{name}/keys/{key}/rotate`
pub(super) struct RotateKey(pub(super) Operator);

#[handler]
impl RotateKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let key = own(&self.0, req)?;
        let mut typed = Typed::sent(depot);
        let rotation = rotation(&mut typed);
        let (id, name) = (Arc::clone(&key.connector), key.name.clone());
        let fields = [("grace_seconds", "grace"), ("expires_at", "new_end")];
        let rotated = typed.submit(&self.0, req, &fields, move |catalog, by| {
            catalog.rotate_key(&id, &name, rotation, by)
        });
        Ok(match rotated.await? {
            Some((secret, new, old)) => Sent::Made(Made {
                path: path(&key.connector),
                key: new.name.to_string(),
                secret,
                previous: Some((
                    old.name.to_string(),
                    old.revoked_ms.or(old.expires_ms).unwrap_or_default(),
                )),
            }),
            None => again(depot, &key, typed),
        })
    }
}

/// How the form says that the key is to be rotated.
fn rotation(typed: &mut Typed) -> Rotation {
    let unit = typed.choice("grace_unit", &UNITS).unwrap_or(1);
    let grace = typed.text("grace").parse::<u64>().ok();
    let grace = grace.and_then(|grace| grace.checked_mul(unit));
    let grace = grace.filter(|seconds| *seconds <= GRACE_SECONDS_MAX);
    if grace.is_none() {
        let days = GRACE_SECONDS_MAX / 86_400;
        let message =
            format!("Give a whole number; 0 ends the old key at once, {days} days are the most.");
        typed.wrong("grace", message);
    }
    let new_end = typed.time("new_end");
    Rotation {
        grace_seconds: grace.unwrap_or_default(),
        expires_ms: match new_end {
            None if typed.is_ticked("new_never_ends") => Some(None),
            None => None,
            ends => Some(ends),
        },
    }
}

fn key_page(depot: &Depot, key: &IngestKey, typed: &Typed) -> FormPage {
    let path = key_path(key);
    FormPage {
        title: format!("Key {} of {}", key.name, key.connector),
        place: Place::Connectors,
        content: html! {
            (typed.problems())
            div.panel { (facts(key)) }
            @if key.state() != KeyState::Revoked {
                h2 { "Rotate" }
                form.panel method="post" action={ (path) "/rotate" } { (token(depot)) (rotate_fields(typed)) p.row { button { "Rotate the key" } } }
                h2 { "Change when it ends" }
                form.panel method="post" action={ (path) "/change" } { (token(depot)) (typed.time_input(ENDS)) p.row { button.plain { "Save" } } }
            }
            p.row {
                @if key.state() != KeyState::Revoked { a.button.danger href={ (path) "/revoke" } { "Revoke…" } }
                a.button.danger href={ (path) "/delete" } { "Delete…" }
                a.button.plain href=(super::change::path(&key.connector)) { "Back to the connector" }
            }
        },
    }
}

fn facts(key: &IngestKey) -> Markup {
    html! { dl {
        dt { "Begins with" } dd.mono { (text(&key.prefix())) "…" }
        dt { "Stream" } dd { a href={ "/streams/" (segment(&key.stream)) } { (text(&key.stream)) } }
        dt { "State" } dd { (state(key)) }
        dt { "Last used" } dd { (last_used(key)) }
        @if let Some(created_ms) = key.created_ms { dt { "Made" } dd { (time(&clock::rfc3339(created_ms))) } }
    } }
}

/// Whether it can be used, and how long.
pub(super) fn state(key: &IngestKey) -> Markup {
    html! {
        (form::key_state(key.state(), key.expires_ms, key.is_replaced()))
        @if key.is_test() { " " span.badge { "test" } }
    }
}

/// When somebody came with it.
pub(super) fn last_used(key: &IngestKey) -> Markup {
    html! { @match key.used_ms() {
        Some(used_ms) => { (time(&clock::rfc3339(used_ms))) },
        None => span.quiet { "not yet, as far as is known" },
    } }
}

fn rotate_fields(typed: &Typed) -> Markup {
    let grace = Field {
        name: "grace",
        label: "The old key works for another",
        hint: "",
    };
    let unit = Field {
        name: "grace_unit",
        label: "Unit",
        hint: "",
    };
    let new_end = Field {
        name: "new_end",
        label: "The new key ends (UTC, optional)",
        hint: "Without a time: when the old one would have.",
    };
    let never = Field {
        name: "new_never_ends",
        label: "The new key never ends",
        hint: "",
    };
    html! {
        p { "A new key takes the name. Whoever sends with the old one has until the end of the grace to change." }
        div.fields {
            (typed.number_input(grace, "24"))
            (typed.select(unit, &UNITS.map(|(unit, _)| (unit, unit))))
        }
        (typed.time_input(new_end))
        (typed.tick(never))
    }
}

/// `GET /sources/{name}/keys/{key}/revoke`, or `delete`
pub(super) struct ShowEndKey(pub(super) Operator, pub(super) Ending);

#[handler]
impl ShowEndKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormPage, NoPage> {
        let key = own(&self.0, req)?;
        Ok(end_page(depot, &key, self.1, &Typed::default()))
    }
}

/// `POST /sources/{name}/keys/{key}/revoke`, or `delete`
pub(super) struct EndKey(pub(super) Operator, pub(super) Ending);

#[handler]
impl EndKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let key = own(&self.0, req)?;
        let mut typed = Typed::sent(depot);
        let (id, name) = (Arc::clone(&key.connector), key.name.clone());
        let ending = self.1;
        let ended = typed.submit(&self.0, req, &[], move |catalog, by| match ending {
            Ending::Revoke => catalog.revoke_key(&id, &name, by),
            Ending::Delete => catalog.delete_key(&id, &name, by),
        });
        if ended.await?.is_none() {
            return Ok(typed.again(end_page(depot, &key, ending, &typed)));
        }
        let said = match ending {
            Ending::Revoke => {
                let left = still_working(&self.0, &key);
                format!("The key {} is revoked.{left}", key.name)
            }
            Ending::Delete => format!("The key {} is deleted.", key.name),
        };
        Ok(Sent::Done(path(&key.connector), said))
    }
}

/// Which older keys of a name still work after the newest was revoked.
fn still_working(operator: &Operator, key: &IngestKey) -> String {
    let connector = operator.catalog.connector(&key.connector);
    let older = connector.as_ref().map(|one| one.older_keys(&key.name));
    let older = older.unwrap_or_default();
    let names: Vec<&str> = older.iter().map(|key| &*key.name).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!(" An older key of it still works: {one}."),
        many => format!(
            " {} older keys of it still work: {}.",
            many.len(),
            many.join(", ")
        ),
    }
}

fn end_page(depot: &Depot, key: &IngestKey, ending: Ending, typed: &Typed) -> FormPage {
    let name =
        html! { strong { (text(&key.name)) } " (" span.mono { (text(&key.prefix())) "…" } ")" };
    let (title, does, what) = match ending {
        Ending::Revoke => (
            format!("Revoke {}?", key.name),
            "Revoke the key",
            html! { p { "What is sent with the key " (name) " is refused from then on, also what is still arriving. It stays in the list, and cannot be made valid again." } },
        ),
        Ending::Delete => (
            format!("Delete {}?", key.name),
            "Delete the key",
            html! { p { "What is sent with the key " (name) " is refused from then on, and it is no longer listed." } },
        ),
    };
    FormPage {
        title,
        place: Place::Connectors,
        content: form::question(typed, &token(depot), &what, does, &key_path(key)),
    }
}

/// The page of a key.
pub(super) fn key_path(key: &IngestKey) -> String {
    format!("{}/keys/{}", path(&key.connector), segment(&key.name))
}

fn connector(operator: &Operator, req: &Request) -> Result<Arc<Connector>, NoPage> {
    let name = req.param::<String>("name").unwrap_or_default();
    operator.catalog.connector(&name).ok_or(NO_CONNECTOR)
}

/// The key that the path names, if it was made at run time.
fn own(operator: &Operator, req: &Request) -> Result<Arc<IngestKey>, NoPage> {
    let name = req.param::<String>("key").unwrap_or_default();
    let connector = connector(operator, req)?;
    let key = connector.key(&name).cloned().ok_or(NO_KEY)?;
    match key.created_ms {
        Some(_) => Ok(key),
        None => Err(NoPage::declared(Kind::Key)),
    }
}
