//! `/new/read-key`: making a read key.
//!
//! **Invariant**: a key's text goes from here only to the page that shows it once.

use maud::html;
use salvo_core::{Depot, Request, handler};

use super::settings;
use crate::description;
use crate::form::{self, NAME, Typed};
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::key::{ENDS, read_networks};
use crate::paths;
use base::clock;
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
        let key = ::settings::ReadKey {
            name: typed.name(),
            description: description::read(&typed),
            streams: settings::streams(&mut typed),
            expires_at: typed.time(ENDS.name).map(clock::rfc3339),
            networks: read_networks(&mut typed),
            allow_in_url: typed.is_ticked("allow_in_url"),
            requests_per_second: settings::rate(&mut typed),
            origins: settings::origins(&mut typed),
            ..::settings::ReadKey::default()
        };
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
        (settings::fields(typed, &operator.catalog))
        (form::buttons("Create read key", "/renderers"))
    };
    FormPage {
        title: "New read key".to_owned(),
        place: Place::Renderers,
        content: typed.panel(Some("/new/read-key"), &fields),
    }
}
