//! `/connectors/{name}/change` and `/connectors/{name}/delete`: changing and deleting a connector.
//!
//! **Invariant**: neither page exists for a connector that is defined in the configuration.

use std::sync::Arc;

use maud::html;
use salvo_core::{Depot, Request, handler};

use super::{find_connector, settings};
use crate::form::{self, Typed};
use crate::frame::{FormAnswer, FormPage, NoPage, Place};
use crate::paths;
use crate::text::{count, text};
use catalog::{Connector, ResourceKind};
use operate::Operator;

/// Maximum characters of an item key.
const ITEM_KEY_CHARS_MAX: usize = 255;

/// `/connectors/{name}/change`; `?item_key=FIELD` fills in an item key
pub(super) struct ChangeConnector(pub(super) Operator);

#[handler]
impl ChangeConnector {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let connector = find_changeable(&self.0, req)?;
        let Some(mut typed) = Typed::sent(depot) else {
            let chosen = req.query::<String>("item_key");
            let typed = settings::initial(depot, &connector, chosen.map(beginning));
            return Ok(typed.show(change_page(&self.0, &connector, &typed)));
        };
        let patch = typed.changed_record(::settings::Connector::FIELDS);
        let id = Arc::clone(&connector.name);
        let changed = typed.submit(&self.0, req, &[], move |catalog, by| {
            catalog.change_connector(&id, &patch, by)
        });
        let Some(changed) = changed.await? else {
            return Ok(typed.show(change_page(&self.0, &connector, &typed)));
        };
        let flash = format!("The connector {} is changed.", changed.name);
        Ok(FormAnswer::Done(paths::connector(&changed.name), flash))
    }
}

/// Shortens an item key to the maximum length.
fn beginning(item_key: String) -> String {
    item_key.chars().take(ITEM_KEY_CHARS_MAX).collect()
}

fn change_page(operator: &Operator, connector: &Connector, typed: &Typed) -> FormPage {
    let fields = html! {
        p.quiet { "Its name stays, because its log is kept under it. Each key has a stream: create a key for another stream." }
        (typed.record(::settings::Connector::FIELDS, false, &operator.catalog))
        (form::buttons("Save", &paths::connector(&connector.name)))
    };
    FormPage {
        title: format!("Change {}", connector.name),
        place: Place::Connectors,
        content: typed.panel(None, &fields),
    }
}

/// `/connectors/{name}/delete`
pub(super) struct DeleteConnector(pub(super) Operator);

#[handler]
impl DeleteConnector {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let connector = find_changeable(&self.0, req)?;
        let Some(mut typed) = Typed::sent(depot) else {
            let typed = Typed::new(depot, "", &[]);
            return Ok(typed.show(delete_page(&connector, &typed)));
        };
        let id = Arc::clone(&connector.name);
        let deleted = typed.submit(&self.0, req, &[], move |catalog, by| {
            catalog.delete_connector(&id, by)
        });
        let Some(deleted) = deleted.await? else {
            return Ok(typed.show(delete_page(&connector, &typed)));
        };
        let flash = format!("The connector {} and its keys are deleted.", deleted.name);
        Ok(FormAnswer::Done("/connectors".to_owned(), flash))
    }
}

fn delete_page(connector: &Connector, typed: &Typed) -> FormPage {
    let keys = count(connector.keys.len() as u64, "key");
    let what = html! {
        p { "The connector " strong { (text(&connector.name)) } " and its " (keys) " are deleted, which cannot be undone: their requests are rejected from then on. Accepted requests are delivered and stay in the log." }
    };
    let back = paths::connector(&connector.name);
    FormPage {
        title: format!("Delete {}?", connector.name),
        place: Place::Connectors,
        content: typed.question(&what, "Delete the connector", &back),
    }
}

/// The connector in the path, if it was created at run time.
fn find_changeable(operator: &Operator, req: &Request) -> Result<Arc<Connector>, NoPage> {
    let connector = find_connector(operator, req)?;
    NoPage::if_declared(connector.created_at, ResourceKind::Connector)?;
    Ok(connector)
}
