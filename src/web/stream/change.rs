//! `/streams/{name}/change` and `/streams/{name}/delete`: changing and deleting a stream.
//!
//! **Invariant**: a stream that is defined in the configuration can be neither changed nor deleted here.

use std::sync::Arc;

use maud::html;
use salvo_core::{Depot, Request, handler};

use super::find_stream;
use crate::form::{self, Field, Typed};
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::paths;
use crate::text::{plain, text};
use catalog::{Catalog, ResourceKind, Stream};
use operate::Operator;

/// `/streams/{name}/change`
pub(super) struct ChangeStream(pub(super) Operator);

#[handler]
impl ChangeStream {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let stream = find_changeable(&self.0, req)?;
        let Some(mut typed) = Typed::sent(depot) else {
            let typed = initial(depot, &stream);
            return Ok(typed.show(change_page(&self.0.catalog, &stream, &typed)));
        };
        let patch = typed.changed_record(settings::Stream::FIELDS);
        let name = Arc::clone(&stream.name);
        let changed = typed.submit(&self.0, req, &[], move |catalog, by| {
            catalog.change_stream(&name, &patch, by)
        });
        let Some(changed) = changed.await? else {
            return Ok(typed.show(change_page(&self.0.catalog, &stream, &typed)));
        };
        let flash = format!("The stream {} is changed.", plain(&changed.name));
        Ok(FormAnswer::Done(paths::stream(&changed.name), flash))
    }
}

/// The form with the current settings of the stream.
fn initial(depot: &Depot, stream: &Stream) -> Typed {
    let settings = serde_json::to_value(&stream.settings).unwrap_or_default();
    let values = Typed::initial(settings::Stream::FIELDS, &settings);
    Typed::new(depot, "on_update", &values)
}

fn change_page(catalog: &Catalog, stream: &Stream, typed: &Typed) -> FormPage {
    let fields = html! {
        (typed.record(settings::Stream::FIELDS, false, catalog))
        (form::buttons("Save", &paths::stream(&stream.name)))
    };
    FormPage {
        title: format!("Change {}", plain(&stream.name)),
        place: Place::Streams,
        content: typed.panel(None, &fields),
    }
}

/// `/streams/{name}/delete`
pub(super) struct DeleteStream(pub(super) Operator);

#[handler]
impl DeleteStream {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let stream = find_changeable(&self.0, req)?;
        let Some(mut typed) = Typed::sent(depot) else {
            let typed = Typed::new(depot, "", &[]);
            return Ok(typed.show(delete_page(&stream, &typed)));
        };
        let (name, force) = (Arc::clone(&stream.name), typed.is_ticked("force"));
        let deleted = typed.submit(&self.0, req, &[], move |catalog, by| {
            catalog.delete_stream(&name, force, by)
        });
        let Some(deleted) = deleted.await? else {
            return Ok(typed.show(delete_page(&stream, &typed)));
        };
        self.0.forget_acts_of_deleted().await;
        let flash = format!("The stream {} is deleted.", plain(&deleted.name));
        Ok(FormAnswer::Done("/streams".to_owned(), flash))
    }
}

fn delete_page(stream: &Stream, typed: &Typed) -> FormPage {
    let force = Field {
        name: "force",
        label: "Delete despite keys",
        hint: "The keys stay, and their requests get 404.",
    };
    let what = html! {
        p { "The stream " strong { (text(&stream.name)) } " will be deleted. Its items stay in the data pool, and accepted requests are still delivered." }
        @if typed.is_wrong() { (typed.tick(force)) }
    };
    FormPage {
        title: format!("Delete {}?", plain(&stream.name)),
        place: Place::Streams,
        content: typed.question(&what, "Delete the stream", &paths::stream(&stream.name)),
    }
}

/// The stream in the path, if it was created at run time.
fn find_changeable(operator: &Operator, req: &Request) -> Result<Arc<Stream>, NoPage> {
    let stream = find_stream(operator, req)?;
    NoPage::if_declared(stream.created_at, ResourceKind::Stream)?;
    Ok(stream)
}
