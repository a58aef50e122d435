//! `/sources/{name}/change` and `/sources/{name}/delete`: what can be done to a connector.
//!
//! **Invariant**: a connector that is declared has neither page.

use std::sync::Arc;

use maud::html;
use salvo_core::{Depot, Request, handler};

use super::new::{KINDS, kind, may_delete, rate, settings};
use crate::catalog::{Connector, ConnectorChange, Kind};
use crate::http::web::form::{self, Typed};
use crate::http::web::frame::{FormPage, NoPage, Place, Sent, token};
use crate::http::web::text::{count, segment, text};
use crate::operate::Operator;

pub(super) const NO_CONNECTOR: NoPage =
    NoPage::NotFound("There is no connector of this name. The page Data sources lists them.");

/// `GET /sources/{name}/change`
pub(super) struct ShowChange(pub(super) Operator);

#[handler]
impl ShowChange {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormPage, NoPage> {
        let connector = own(&self.0, req)?;
        let number = |number: Option<u32>| number.map(|n| n.to_string()).unwrap_or_default();
        let may = connector
            .may_delete
            .map(|may| if may { "yes" } else { "no" });
        let item_key = connector.item_key.as_deref().unwrap_or_default();
        let values = [
            ("kind", connector.kind.as_str().to_owned()),
            ("item_key", item_key.to_owned()),
            ("may_delete", may.unwrap_or_default().to_owned()),
            ("requests_per_second", number(connector.requests_per_second)),
            ("burst", number(connector.burst)),
        ];
        let typed = Typed::new("kind", &values);
        Ok(change_page(&self.0, depot, &connector, &typed))
    }
}

/// `POST /sources/{name}/change`
pub(super) struct Change(pub(super) Operator);

#[handler]
impl Change {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let connector = own(&self.0, req)?;
        let mut typed = Typed::sent(depot);
        let wanted = ConnectorChange {
            kind: typed.choice("kind", &KINDS),
            item_key: Some(typed.optional("item_key")),
            may_delete: Some(may_delete(&typed)),
            requests_per_second: Some(rate(&mut typed, "requests_per_second")),
            burst: Some(rate(&mut typed, "burst")),
        };
        let id = Arc::clone(&connector.name);
        let changed = typed.submit(&self.0, req, &[], move |catalog, by| {
            catalog.change_connector(&id, wanted, by)
        });
        Ok(match changed.await? {
            Some(changed) => {
                let said = format!("The connector {} is changed.", changed.name);
                Sent::Done(path(&changed.name), said)
            }
            None => typed.again(change_page(&self.0, depot, &connector, &typed)),
        })
    }
}

fn change_page(
    operator: &Operator,
    depot: &Depot,
    connector: &Connector,
    typed: &Typed,
) -> FormPage {
    FormPage {
        title: format!("Change {}", connector.name),
        place: Place::Connectors,
        content: html! {
            (typed.problems())
            form.panel method="post" {
                (token(depot))
                p.quiet { "Its name stays, because its log is kept under it. The stream is its keys': make a key for another one." }
                (kind(typed))
                (settings(typed, &operator.catalog))
                (form::buttons("Save", &path(&connector.name)))
            }
        },
    }
}

/// `GET /sources/{name}/delete`
pub(super) struct ShowDelete(pub(super) Operator);

#[handler]
impl ShowDelete {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormPage, NoPage> {
        let connector = own(&self.0, req)?;
        Ok(delete_page(depot, &connector, &Typed::default()))
    }
}

/// `POST /sources/{name}/delete`
pub(super) struct Delete(pub(super) Operator);

#[handler]
impl Delete {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let connector = own(&self.0, req)?;
        let mut typed = Typed::sent(depot);
        let id = Arc::clone(&connector.name);
        let deleted = typed.submit(&self.0, req, &[], move |catalog, by| {
            catalog.delete_connector(&id, by)
        });
        Ok(match deleted.await? {
            Some(gone) => {
                let said = format!("The connector {} and its keys are deleted.", gone.name);
                Sent::Done("/sources".to_owned(), said)
            }
            None => typed.again(delete_page(depot, &connector, &typed)),
        })
    }
}

fn delete_page(depot: &Depot, connector: &Connector, typed: &Typed) -> FormPage {
    let keys = count(connector.keys.len() as u64, "key");
    let what = html! {
        p { "The connector " strong { (text(&connector.name)) } " and its " (keys) " are deleted for good: what they send is refused from then on. What was accepted is delivered, and its requests stay in the log." }
    };
    let back = path(&connector.name);
    FormPage {
        title: format!("Delete {}?", connector.name),
        place: Place::Connectors,
        content: form::question(typed, &token(depot), &what, "Delete the connector", &back),
    }
}

/// The page of a connector.
pub(super) fn path(name: &str) -> String {
    format!("/sources/{}", segment(name))
}

/// The connector that the path names, if it was made at run time.
fn own(operator: &Operator, req: &Request) -> Result<Arc<Connector>, NoPage> {
    let name = req.param::<String>("name").unwrap_or_default();
    let connector = operator.catalog.connector(&name).ok_or(NO_CONNECTOR)?;
    match connector.created_ms {
        Some(_) => Ok(connector),
        None => Err(NoPage::declared(Kind::Connector)),
    }
}
