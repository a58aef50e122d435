//! `/new/read-key`: the form that creates a read key.
//!
//! **Invariant**: the text of a key is passed only to the page that shows it once.

use maud::html;
use salvo_core::{Depot, Request, handler};
use serde_json::Map;

use crate::form::{self, NAME, Typed};
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::paths;
use http::sessions::IssuedKey;
use operate::Operator;

/// `/new/read-key`
pub(super) struct NewReadKey(pub(super) Operator);

#[handler]
impl NewReadKey {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let Some(mut typed) = Typed::sent(depot) else {
            let typed = Typed::new(depot, "name", &[]);
            return Ok(typed.show(page(&self.0, &typed)));
        };
        let key = typed.settings(settings::ReadKey::FIELDS, Map::new());
        let created = typed.submit(&self.0, req, &[], |catalog, by| {
            catalog.create_read_key(key, by)
        });
        let Some((secret, key)) = created.await? else {
            return Ok(typed.show(page(&self.0, &typed)));
        };
        let path = paths::read_key(&key.name);
        Ok(FormAnswer::Issued(IssuedKey::new(path, &key.name, secret)))
    }
}

fn page(operator: &Operator, typed: &Typed) -> FormPage {
    let fields = html! {
        (typed.input(NAME, 64, true))
        (typed.record(settings::ReadKey::FIELDS, true, &operator.catalog))
        (form::buttons("Create read key", "/renderers"))
    };
    FormPage {
        title: "New read key".to_owned(),
        place: Place::Renderers,
        content: typed.panel(Some("/new/read-key"), &fields),
    }
}
