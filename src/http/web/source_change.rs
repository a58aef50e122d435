//! `/sources/{name}/change` and `/sources/{name}/delete`: what can be done to a connector.
//!
//! **Invariant**: a connector that is declared has neither page.

use std::sync::Arc;

use maud::html;
use salvo_core::http::StatusCode;
use salvo_core::{Depot, Request, Response, handler};

use super::form::{self, Typed};
use super::frame::{self, FormPage, NoPage, Place, form_token};
use super::guard::visitor;
use super::new_source::{KINDS, kind, may_delete, rate, settings};
use super::text::{count, segment, text};
use crate::catalog::{CatalogError, Connector, ConnectorChange, Kind};
use crate::operate::Operator;

pub(super) const NO_CONNECTOR: NoPage =
    NoPage::NotFound("There is no connector of this name. The page Data sources lists them.");

/// `GET /sources/{name}/change`
pub(super) struct ShowChange(pub(super) Operator);

#[handler]
impl ShowChange {
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let page = own(&self.0, req).map(|connector| {
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
            change_page(&self.0, depot, &connector, &Typed::new("kind", &values))
        });
        frame::answer_form(req, depot, res, StatusCode::OK, page);
    }
}

/// `POST /sources/{name}/change`
pub(super) struct Change(pub(super) Operator);

#[handler]
impl Change {
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let mut typed = Typed::sent(depot);
        match self.change(req, &mut typed).await {
            Ok((connector, true)) => {
                let path = path(&connector.name);
                let said = format!("The connector {} is changed.", connector.name);
                frame::done(req, depot, res, &path, Ok(said));
            }
            Ok((connector, false)) => {
                let page = change_page(&self.0, depot, &connector, &typed);
                frame::answer_form(req, depot, res, typed.status(), Ok(page));
            }
            Err(no_page) => frame::refuse(req, res, no_page),
        }
    }
}

impl Change {
    /// The connector, and whether it was changed.
    async fn change(
        &self,
        req: &Request,
        typed: &mut Typed,
    ) -> Result<(Arc<Connector>, bool), NoPage> {
        let connector = own(&self.0, req)?;
        let wanted = ConnectorChange {
            kind: typed.choice("kind", &KINDS),
            item_key: Some(typed.optional("item_key")),
            may_delete: Some(may_delete(typed)),
            requests_per_second: Some(rate(typed, "requests_per_second")),
            burst: Some(rate(typed, "burst")),
        };
        if typed.is_wrong() {
            return Ok((connector, false));
        }
        let id = Arc::clone(&connector.name);
        let changed = form::change(&self.0, req, move |catalog, by| {
            catalog.change_connector(&id, wanted, by)
        });
        match changed.await {
            Ok(changed) => Ok((changed, true)),
            Err(error) => typed.refuse(error, &[]).map(|()| (connector, false)),
        }
    }
}

fn change_page(
    operator: &Operator,
    depot: &Depot,
    connector: &Connector,
    typed: &Typed,
) -> FormPage {
    let token = visitor(depot).map(form_token).unwrap_or_default();
    FormPage {
        title: format!("Change {}", connector.name),
        place: Place::Sources,
        content: html! {
            (typed.problems())
            form.panel method="post" {
                (token)
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
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let page = own(&self.0, req).map(|one| delete_page(depot, &one, &Typed::default()));
        frame::answer_form(req, depot, res, StatusCode::OK, page);
    }
}

/// `POST /sources/{name}/delete`
pub(super) struct Delete(pub(super) Operator);

#[handler]
impl Delete {
    async fn handle(&self, req: &mut Request, depot: &mut Depot, res: &mut Response) {
        let connector = match own(&self.0, req) {
            Ok(connector) => connector,
            Err(no_page) => return frame::refuse(req, res, no_page),
        };
        let id = Arc::clone(&connector.name);
        let deleted = form::change(&self.0, req, move |catalog, by| {
            catalog.delete_connector(&id, by)
        });
        match deleted.await {
            Ok(gone) => {
                let said = format!("The connector {} and its keys are deleted.", gone.name);
                frame::done(req, depot, res, "/sources", Ok(said));
            }
            Err(error) => {
                let mut typed = Typed::sent(depot);
                let page = typed.refuse(error, &[]);
                let page = page.map(|()| delete_page(depot, &connector, &typed));
                frame::answer_form(req, depot, res, typed.status(), page);
            }
        }
    }
}

fn delete_page(depot: &Depot, connector: &Connector, typed: &Typed) -> FormPage {
    let token = visitor(depot).map(form_token).unwrap_or_default();
    let keys = count(connector.keys.len() as u64, "key");
    let what = html! {
        p { "The connector " strong { (text(&connector.name)) } " and its " (keys) " are deleted for good: what they send is refused from then on. What was accepted is delivered, and its requests stay in the log." }
    };
    let back = path(&connector.name);
    FormPage {
        title: format!("Delete {}?", connector.name),
        place: Place::Sources,
        content: form::question(typed, &token, &what, "Delete the connector", &back),
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

impl NoPage {
    /// It stands in the configuration.
    pub(super) fn declared(kind: Kind) -> Self {
        let why = CatalogError::Declared(kind).to_string();
        Self::Refused(StatusCode::CONFLICT, why)
    }
}
