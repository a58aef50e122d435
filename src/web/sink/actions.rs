//! Handlers of the buttons on the page of a sink.
//!
//! **Invariant**: a button does the same as its call of the admin API, and the next page states the result.

use salvo_core::http::StatusCode;
use salvo_core::{Depot, Request, handler};

use crate::form_data::FormData;
use crate::frame::{FormAnswer, NoPage};
use crate::guard::by;
use crate::paths::{self, param};
use crate::text::{as_sentence, count};
use operate::{LettersSent, OperateError, Operator};
use pool::Selection;

/// `POST /sinks/{name}/retry`
pub(super) struct Retry(pub(super) Operator);

#[handler]
impl Retry {
    async fn handle(&self, req: &mut Request) -> Result<FormAnswer, NoPage> {
        let retries = self
            .0
            .retry(&param(req, "name"), by(req))
            .await
            .map_err(refused)?;
        let flash = match retries {
            0 => "No waiting retries.".to_owned(),
            retries => format!("{} being retried.", are(retries, "batch")),
        };
        Ok(done(req, flash))
    }
}

/// `POST /sinks/{name}/again`
pub(super) struct SendAgain(pub(super) Operator);

#[handler]
impl SendAgain {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let sink = param(req, "name");
        let sent = (self.0).send_letters_again(&sink, selected(depot)?, false, by(req));
        let LettersSent {
            sent,
            skipped,
            left,
        } = sent.await.map_err(refused)?;
        let mut flash = format!("{} being retried.", are(sent, "item"));
        if skipped > 0 {
            flash.push_str(&format!(
                " {} still dead letters: their items are no longer stored.",
                are(skipped, "item")
            ));
        }
        if left > 0 {
            flash.push_str(&format!(
                " {} still dead letters: a later request changed or removed their items.",
                are(left, "item")
            ));
        }
        Ok(done(req, flash))
    }
}

/// `POST /sinks/{name}/discard`
pub(super) struct Discard(pub(super) Operator);

#[handler]
impl Discard {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let sink = param(req, "name");
        let discarded = self.0.discard_letters(&sink, selected(depot)?, by(req));
        let discarded = discarded.await.map_err(refused)?;
        Ok(done(
            req,
            format!("{} discarded.", are(discarded, "dead letter")),
        ))
    }
}

/// `POST /sinks/{name}/end-retries`
pub(super) struct EndRetries(pub(super) Operator);

#[handler]
impl EndRetries {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let id = match (field(depot, "id"), field(depot, "all")) {
            (Some(id), None) => id.parse().ok().map(Some),
            (None, Some("yes")) => Some(None),
            _ => None,
        };
        let id = id.ok_or_else(|| {
            let why = "No waiting retry is selected. Reload the page and repeat.";
            NoPage::Refused(StatusCode::BAD_REQUEST, why.to_owned())
        })?;
        let given_up = self.0.give_up(&param(req, "name"), id, by(req)).await;
        let given_up = given_up.map_err(refused)?;
        let flash = format!(
            "{} ended, with {}.",
            are(given_up.retries, "batch"),
            count(given_up.items, "dead letter")
        );
        Ok(done(req, flash))
    }
}

/// `POST /sinks/{name}/pause`, and with false `/resume`
pub(super) struct Pause(pub(super) Operator, pub(super) bool);

#[handler]
impl Pause {
    async fn handle(&self, req: &mut Request) -> Result<FormAnswer, NoPage> {
        let Self(operator, paused) = self;
        let name = param(req, "name");
        let changed = operator.pause_sink(&name, *paused, by(req)).await;
        changed.map_err(refused)?;
        let flash = match paused {
            true => "The sink is paused; accepted requests wait for it.",
            false => "The sink continues at its cursor.",
        };
        Ok(done(req, flash.to_owned()))
    }
}

/// `POST /sinks/{name}/refill`
pub(super) struct Refill(pub(super) Operator);

#[handler]
impl Refill {
    async fn handle(&self, req: &mut Request) -> Result<FormAnswer, NoPage> {
        let begun = self.0.refill_sink(&param(req, "name"), by(req)).await;
        let items = count(begun.map_err(refused)?.items, "item");
        let flash = format!("The sink is being refilled with {items} of the data pool.");
        Ok(done(req, flash))
    }
}

/// `POST /sinks/{name}/forget`
pub(super) struct Forget(pub(super) Operator);

#[handler]
impl Forget {
    async fn handle(&self, req: &mut Request) -> Result<FormAnswer, NoPage> {
        let name = param(req, "name");
        let forgotten = self.0.forget_sink(&name, by(req)).await;
        forgotten.map_err(refused)?;
        let flash = format!("All data of the sink {name} is deleted.");
        Ok(FormAnswer::Done("/sinks".to_owned(), flash))
    }
}

fn field<'a>(depot: &'a Depot, name: &str) -> Option<&'a str> {
    FormData::of(depot)?.get(name)
}

/// The selection in the form: single dead letters, those of a request, or all.
fn selected(depot: &Depot) -> Result<Selection, NoPage> {
    let field = |name: &str| field(depot, name);
    let selected = match (field("id"), field("request"), field("all")) {
        (Some(_), None, None) => ids(depot).map(Selection::Ids),
        (None, Some(request), None) => Some(Selection::Request(request.to_owned())),
        (None, None, Some("yes")) => Some(Selection::All),
        _ => None,
    };
    selected.ok_or_else(|| {
        let why = "No dead letter is selected. Reload the page and repeat.";
        NoPage::Refused(StatusCode::BAD_REQUEST, why.to_owned())
    })
}

/// The IDs of the selected dead letters; `None` if one is invalid.
fn ids(depot: &Depot) -> Option<Vec<i64>> {
    let form = FormData::of(depot)?;
    form.all("id").map(|id| id.parse().ok()).collect()
}

fn are(number: u64, thing: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", count(number, thing))
}

/// The error of an act. The API's hint about its lists is omitted, because this page shows them.
fn refused(error: OperateError) -> NoPage {
    let why = as_sentence(&error.to_string());
    match NoPage::from(error) {
        NoPage::Refused(status, _) => NoPage::Refused(status, why),
        no_page => no_page,
    }
}

/// The page of the sink, with a message about the result.
fn done(req: &Request, flash: String) -> FormAnswer {
    FormAnswer::Done(paths::sink(&param(req, "name")), flash)
}
