//! `/new/stream`, `/streams/{name}/change` and `/streams/{name}/delete`: what can be done to a stream.
//!
//! **Invariant**: a stream that is declared can be neither changed nor deleted here.

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};

use super::NO_STREAM;
use crate::catalog::{Kind, Stream, StreamChange, StreamWish};
use crate::config::{OnUpdate, STALE_SECONDS_MAX};
use crate::http::web::form::{self, Field, Typed};
use crate::http::web::frame::{FormPage, NoPage, Place, Sent, token};
use crate::http::web::text::{plain, segment, text};
use crate::operate::Operator;

/// Words of the field `on_update`.
const ON_UPDATE: [(&str, OnUpdate); 2] =
    [("replace", OnUpdate::Replace), ("merge", OnUpdate::Merge)];

/// `GET /new/stream`
pub(super) struct ShowNewStream;

#[handler]
impl ShowNewStream {
    async fn handle(&self, depot: &mut Depot) -> FormPage {
        let values = [("on_update", OnUpdate::default().as_str().to_owned())];
        new_page(depot, &Typed::new("name", &values))
    }
}

/// `POST /new/stream`
pub(super) struct NewStream(pub(super) Operator);

#[handler]
impl NewStream {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let mut typed = Typed::sent(depot);
        let name = typed.text("name");
        if name.is_empty() {
            typed.wrong("name", "Give it a name.");
        }
        let wish = StreamWish {
            name,
            on_update: typed.choice("on_update", &ON_UPDATE).unwrap_or_default(),
            stale_after_seconds: typed.number("stale_after_seconds", STALE_SECONDS_MAX),
        };
        let fields = [("new_stream", "name")];
        let made = typed.submit(&self.0, req, &fields, |catalog, by| {
            catalog.create_stream(wish, by)
        });
        Ok(match made.await? {
            Some(stream) => {
                let said = format!("The stream {} is made.", plain(&stream.name));
                Sent::Done(path(&stream.name), said)
            }
            None => typed.again(new_page(depot, &typed)),
        })
    }
}

fn new_page(depot: &Depot, typed: &Typed) -> FormPage {
    let name = Field {
        name: "name",
        label: "Name",
        hint: "1 to 128 characters. It stands in the webhook's URL.",
    };
    FormPage {
        title: "New stream".to_owned(),
        place: Place::Streams,
        content: html! {
            (typed.problems())
            form.panel method="post" action="/new/stream" {
                (token(depot))
                (typed.input(name, 256, true))
                (settings(typed))
                (form::buttons("Create stream", "/streams"))
            }
        },
    }
}

fn settings(typed: &Typed) -> Markup {
    let on_update = Field {
        name: "on_update",
        label: "When an item comes again",
        hint: "",
    };
    let stale = Field {
        name: "stale_after_seconds",
        label: "Stale after so many seconds without data (optional)",
        hint: "Renderers are told then, and when data is back.",
    };
    html! {
        (typed.select(on_update, &[
            ("replace", "replace: it has only the new fields"),
            ("merge", "merge: it keeps fields that do not come again"),
        ]))
        (typed.number_input(stale, "never"))
    }
}

/// `GET /streams/{name}/change`
pub(super) struct ShowChange(pub(super) Operator);

#[handler]
impl ShowChange {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormPage, NoPage> {
        let stream = own(&self.0, req)?;
        let stale = stream
            .stale_after_seconds
            .map(|seconds| seconds.to_string());
        let values = [
            ("on_update", stream.on_update.as_str().to_owned()),
            ("stale_after_seconds", stale.unwrap_or_default()),
        ];
        let typed = Typed::new("on_update", &values);
        Ok(change_page(depot, &stream, &typed))
    }
}

/// `POST /streams/{name}/change`
pub(super) struct Change(pub(super) Operator);

#[handler]
impl Change {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let stream = own(&self.0, req)?;
        let mut typed = Typed::sent(depot);
        let wanted = StreamChange {
            on_update: typed.choice("on_update", &ON_UPDATE),
            stale_after_seconds: Some(typed.number("stale_after_seconds", STALE_SECONDS_MAX)),
        };
        let name = Arc::clone(&stream.name);
        let changed = typed.submit(&self.0, req, &[], move |catalog, by| {
            catalog.change_stream(&name, wanted, by)
        });
        Ok(match changed.await? {
            Some(changed) => {
                let said = format!("The stream {} is changed.", plain(&changed.name));
                Sent::Done(path(&changed.name), said)
            }
            None => typed.again(change_page(depot, &stream, &typed)),
        })
    }
}

fn change_page(depot: &Depot, stream: &Stream, typed: &Typed) -> FormPage {
    FormPage {
        title: format!("Change {}", plain(&stream.name)),
        place: Place::Streams,
        content: html! {
            (typed.problems())
            form.panel method="post" {
                (token(depot))
                (settings(typed))
                (form::buttons("Save", &path(&stream.name)))
            }
        },
    }
}

/// `GET /streams/{name}/delete`
pub(super) struct ShowDelete(pub(super) Operator);

#[handler]
impl ShowDelete {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormPage, NoPage> {
        let stream = own(&self.0, req)?;
        Ok(delete_page(depot, &stream, &Typed::default()))
    }
}

/// `POST /streams/{name}/delete`
pub(super) struct Delete(pub(super) Operator);

#[handler]
impl Delete {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let stream = own(&self.0, req)?;
        let mut typed = Typed::sent(depot);
        let (name, force) = (Arc::clone(&stream.name), typed.is_ticked("force"));
        let deleted = typed.submit(&self.0, req, &[], move |catalog, by| {
            catalog.delete_stream(&name, force, by)
        });
        Ok(match deleted.await? {
            Some(gone) => {
                let said = format!("The stream {} is deleted.", plain(&gone.name));
                Sent::Done("/streams".to_owned(), said)
            }
            None => typed.again(delete_page(depot, &stream, &typed)),
        })
    }
}

fn delete_page(depot: &Depot, stream: &Stream, typed: &Typed) -> FormPage {
    let force = Field {
        name: "force",
        label: "Delete it all the same",
        hint: "The keys stay, and what they send or ask for is answered 404.",
    };
    let what = html! {
        p { "The stream " strong { (text(&stream.name)) } " is deleted. Its items stay in the data pool's file, and what was accepted is delivered." }
        @if typed.is_wrong() { (typed.tick(force)) }
    };
    let back = path(&stream.name);
    FormPage {
        title: format!("Delete {}?", plain(&stream.name)),
        place: Place::Streams,
        content: form::question(typed, &token(depot), &what, "Delete the stream", &back),
    }
}

fn path(name: &str) -> String {
    format!("/streams/{}", segment(name))
}

/// The stream that the path names, if it was made at run time.
fn own(operator: &Operator, req: &Request) -> Result<Arc<Stream>, NoPage> {
    let name = req.param::<String>("name").unwrap_or_default();
    let stream = operator.catalog.stream(&name).ok_or(NO_STREAM)?;
    match stream.created_ms {
        Some(_) => Ok(stream),
        None => Err(NoPage::declared(Kind::Stream)),
    }
}
