//! `/new/stream`, `/streams/{name}/change` and `/streams/{name}/delete`: what can be done to a stream.
//!
//! **Invariant**: a stream that is declared can be neither changed nor deleted here.

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::http::StatusCode;
use salvo_core::{Depot, Request, Response, handler};

use super::form::{self, Field, Typed};
use super::frame::{self, FormPage, NoPage, Place, form_token};
use super::guard::visitor;
use super::stream::NO_STREAM;
use super::text::{plain, segment, text};
use crate::catalog::{Kind, Stream, StreamChange, StreamWish};
use crate::config::{OnUpdate, STALE_SECONDS_MAX};
use crate::operate::Operator;

/// Words of the field `on_update`.
const ON_UPDATE: [(&str, OnUpdate); 2] =
    [("replace", OnUpdate::Replace), ("merge", OnUpdate::Merge)];

/// `GET /new/stream`
pub(super) struct ShowNewStream;

#[handler]
impl ShowNewStream {
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let values = [("on_update", OnUpdate::default().as_str().to_owned())];
        answer_new(req, depot, res, &Typed::new("name", &values));
    }
}

/// `POST /new/stream`
pub(super) struct NewStream(pub(super) Operator);

#[handler]
impl NewStream {
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let mut typed = Typed::sent(depot);
        match self.create(req, &mut typed).await {
            Ok(Some(stream)) => {
                let said = format!("The stream {} is made.", plain(&stream.name));
                let path = path(&stream.name);
                frame::done(req, depot, res, &path, Ok(said));
            }
            Ok(None) => answer_new(req, depot, res, &typed),
            Err(no_page) => frame::refuse(req, res, no_page),
        }
    }
}

impl NewStream {
    async fn create(
        &self,
        req: &Request,
        typed: &mut Typed,
    ) -> Result<Option<Arc<Stream>>, NoPage> {
        let name = typed.text("name");
        if name.is_empty() {
            typed.wrong("name", "Give it a name.");
        }
        let on_update = typed.choice("on_update", &ON_UPDATE);
        let stale_after_seconds = typed.number("stale_after_seconds", STALE_SECONDS_MAX);
        let Some(on_update) = on_update.filter(|_| !typed.is_wrong()) else {
            return Ok(None);
        };
        let wish = StreamWish {
            name,
            on_update,
            stale_after_seconds,
        };
        let made = form::change(&self.0, req, |catalog, by| catalog.create_stream(wish, by));
        match made.await {
            Ok(stream) => Ok(Some(stream)),
            Err(error) => {
                let fields = [("new_stream", "name")];
                typed.refuse(error, &fields).map(|()| None)
            }
        }
    }
}

fn answer_new(req: &Request, depot: &Depot, res: &mut Response, typed: &Typed) {
    let token = visitor(depot).map(form_token).unwrap_or_default();
    let name = Field {
        name: "name",
        label: "Name",
        hint: "1 to 128 characters. It stands in the webhook's URL.",
    };
    let page = FormPage {
        title: "New stream".to_owned(),
        place: Place::Streams,
        content: html! {
            (typed.problems())
            form.panel method="post" action="/new/stream" {
                (token)
                (typed.input(name, 256, true))
                (settings(typed))
                (form::buttons("Create stream", "/streams"))
            }
        },
    };
    frame::answer_form(req, depot, res, typed.status(), Ok(page));
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
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let page = own(&self.0, req).map(|stream| {
            let stale = stream
                .stale_after_seconds
                .map(|seconds| seconds.to_string());
            let values = [
                ("on_update", stream.on_update.as_str().to_owned()),
                ("stale_after_seconds", stale.unwrap_or_default()),
            ];
            change_page(depot, &stream, &Typed::new("on_update", &values))
        });
        frame::answer_form(req, depot, res, StatusCode::OK, page);
    }
}

/// `POST /streams/{name}/change`
pub(super) struct Change(pub(super) Operator);

#[handler]
impl Change {
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let mut typed = Typed::sent(depot);
        match self.change(req, &mut typed).await {
            Ok((stream, true)) => {
                let said = format!("The stream {} is changed.", plain(&stream.name));
                let path = path(&stream.name);
                frame::done(req, depot, res, &path, Ok(said));
            }
            Ok((stream, false)) => {
                let page = change_page(depot, &stream, &typed);
                frame::answer_form(req, depot, res, typed.status(), Ok(page));
            }
            Err(no_page) => frame::refuse(req, res, no_page),
        }
    }
}

impl Change {
    /// The stream, and whether it was changed.
    async fn change(
        &self,
        req: &Request,
        typed: &mut Typed,
    ) -> Result<(Arc<Stream>, bool), NoPage> {
        let stream = own(&self.0, req)?;
        let wanted = StreamChange {
            on_update: typed.choice("on_update", &ON_UPDATE),
            stale_after_seconds: Some(typed.number("stale_after_seconds", STALE_SECONDS_MAX)),
        };
        if typed.is_wrong() {
            return Ok((stream, false));
        }
        let name = Arc::clone(&stream.name);
        let changed = form::change(&self.0, req, move |catalog, by| {
            catalog.change_stream(&name, wanted, by)
        });
        match changed.await {
            Ok(changed) => Ok((changed, true)),
            Err(error) => typed.refuse(error, &[]).map(|()| (stream, false)),
        }
    }
}

fn change_page(depot: &Depot, stream: &Stream, typed: &Typed) -> FormPage {
    let token = visitor(depot).map(form_token).unwrap_or_default();
    FormPage {
        title: format!("Change {}", plain(&stream.name)),
        place: Place::Streams,
        content: html! {
            (typed.problems())
            form.panel method="post" {
                (token)
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
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let page = own(&self.0, req).map(|one| delete_page(depot, &one, &Typed::default()));
        frame::answer_form(req, depot, res, StatusCode::OK, page);
    }
}

/// `POST /streams/{name}/delete`
pub(super) struct Delete(pub(super) Operator);

#[handler]
impl Delete {
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let stream = match own(&self.0, req) {
            Ok(stream) => stream,
            Err(no_page) => return frame::refuse(req, res, no_page),
        };
        let mut typed = Typed::sent(depot);
        let (name, force) = (Arc::clone(&stream.name), typed.is_ticked("force"));
        let deleted = form::change(&self.0, req, move |catalog, by| {
            catalog.delete_stream(&name, force, by)
        });
        match deleted.await {
            Ok(gone) => {
                let said = format!("The stream {} is deleted.", plain(&gone.name));
                frame::done(req, depot, res, "/streams", Ok(said));
            }
            Err(error) => {
                let page = typed.refuse(error, &[]);
                let page = page.map(|()| delete_page(depot, &stream, &typed));
                frame::answer_form(req, depot, res, typed.status(), page);
            }
        }
    }
}

fn delete_page(depot: &Depot, stream: &Stream, typed: &Typed) -> FormPage {
    let token = visitor(depot).map(form_token).unwrap_or_default();
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
        content: form::question(typed, &token, &what, "Delete the stream", &back),
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
