//! `/new/stream`: the form that creates a stream.
//!
//! **Invariant**: a rejected form creates no stream, and is shown again.

use maud::html;
use salvo_core::{Depot, Request, handler};
use serde_json::{Map, Value};

use crate::form::{self, Field, Typed};
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::paths;
use crate::text::plain;
use catalog::Catalog;
use operate::Operator;
use settings::OnUpdate;

/// `/new/stream`
pub(super) struct NewStream(pub(super) Operator);

#[handler]
impl NewStream {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let Some(mut typed) = Typed::sent(depot) else {
            let values = [("on_update", OnUpdate::default().as_str().to_owned())];
            let typed = Typed::new(depot, "name", &values);
            return Ok(typed.show(page(&typed, &self.0.catalog)));
        };
        let stream = typed.new_record(settings::Stream::FIELDS, Map::new());
        let name = stream.get("name").and_then(Value::as_str);
        let created = typed.submit_with(
            name.map(str::to_owned),
            &self.0,
            req,
            &[("new_stream", "name")],
            move |catalog, by| catalog.create_stream(&stream, by),
        );
        let Some(stream) = created.await? else {
            return Ok(typed.show(page(&typed, &self.0.catalog)));
        };
        let flash = format!("Stream {} created.", plain(&stream.name));
        Ok(FormAnswer::Done(paths::stream(&stream.name), flash))
    }
}

fn page(typed: &Typed, catalog: &Catalog) -> FormPage {
    let name = Field {
        name: "name",
        label: "Name",
        hint: "1 to 128 characters. It is part of the webhook's URL.",
    };
    let fields = html! {
        (typed.input(name, 256, true))
        (typed.record(settings::Stream::FIELDS, true, catalog))
        (form::buttons("Create stream", "/streams"))
    };
    FormPage {
        title: "New stream".to_owned(),
        place: Place::Streams,
        content: typed.panel(Some("/new/stream"), &fields),
    }
}
