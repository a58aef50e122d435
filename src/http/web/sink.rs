//! `/sinks/{name}`: a sink, what it gave up, and what to do about it.
//!
//! **Invariant**: what a button does is what the call of the admin API does, and the next page says how much it did.

mod list;

use maud::{Markup, html};
use salvo_core::http::StatusCode;
use salvo_core::{Depot, Request, Router, handler};

use super::badge;
use super::frame::{NoPage, Page, Place, Sent, token};
use super::guard::{Form, by};
use super::sink_table::{known, problems};
use super::text::{as_sentence, count, grouped, segment, text, text_of, time};
use crate::clock;
use crate::delivery::Waiting;
use crate::operate::condition::SinkCondition;
use crate::operate::{OperateError, Operator};
use crate::pool::{DeadLetter, Selection};

/// Dead letters, and waiting retries, on a page.
const LETTERS: u32 = 50;
const RETRIES: u32 = 50;
/// Characters of a reason, and of an item.
const REASON_CHARS_MAX: usize = 600;
const ITEM_CHARS_MAX: usize = 4_000;

/// Sinks, and what can be done to them.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::new()
        .push(Router::with_path("sinks").get(list::Sinks(p())))
        .push(
            Router::with_path("sinks/{name}")
                .get(Sink(p()))
                .push(Router::with_path("retry").post(Retry(p())))
                .push(Router::with_path("again").post(SendAgain(p())))
                .push(Router::with_path("discard").post(Discard(p())))
                .push(Router::with_path("give-up").post(GiveUp(p())))
                .push(Router::with_path("forget").post(Forget(p()))),
        )
}

/// `GET /sinks/{name}`
struct Sink(Operator);

#[handler]
impl Sink {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Page, NoPage> {
        page(&self.0, req, &token(depot)).await
    }
}

async fn page(operator: &Operator, req: &mut Request, token: &Markup) -> Result<Page, NoPage> {
    let name = req.param::<String>("name").unwrap_or_default();
    let condition = operator.condition().await;
    let sink = condition.sinks.iter().find(|sink| *sink.name == *name);
    let sink = sink.ok_or(NoPage::NotFound(
        "There is no sink of this name. The page Sinks lists them.",
    ))?;
    let before = req.query::<i64>("before");
    let letters = operator.pool.dead_letters(&name, before, LETTERS).await?;
    let retries = operator.delivery.waiting(&name, 0, RETRIES).await?;
    let path = format!("/sinks/{}", segment(&name));
    let configured = sink.lane.is_some();
    let waiting_batches = sink.retries().unwrap_or(0);
    let given_up = sink.dead_letters().unwrap_or(0);
    Ok(Page {
        title: name,
        place: Place::Sinks,
        still: html! {},
        live: html! {
            (problems(sink))
            (facts(sink))
            div.row {
                @if configured {
                    form method="post" action={ (path) "/retry" } { (token) button.plain { "Try waiting retries now" } }
                } @else {
                    form method="post" action={ (path) "/forget" } data-confirm={ "Forget the sink, with what was accepted since, " (count(waiting_batches, "waiting batch")) " and " (count(given_up, "dead letter")) ", for good?" } {
                        (token) button.danger { "Forget this sink" }
                    }
                }
                @if waiting_batches > 0 {
                    form method="post" action={ (path) "/give-up" } data-confirm={ "Give up all waiting retries (" (grouped(waiting_batches)) ")? Their items become dead letters." } {
                        (token) input type="hidden" name="all" value="yes"; button.danger { "Give up all retries" }
                    }
                }
                @if given_up > 0 && configured {
                    form method="post" action={ (path) "/again" } { (token) input type="hidden" name="all" value="yes"; button { "Send all dead letters again" } }
                    form method="post" action={ (path) "/discard" } data-confirm={ "Discard all " (grouped(given_up)) " dead letters of this sink for good?" } {
                        (token) input type="hidden" name="all" value="yes"; button.danger { "Discard all" }
                    }
                }
            }
            @if !retries.is_empty() {
                h2 { "Waiting retries" }
                (waiting(&retries, &path, token))
                @if waiting_batches > u64::from(RETRIES) { p.quiet { "The first " (RETRIES) " of " (grouped(waiting_batches)) "." } }
            }
            h2 { "Dead letters" }
            (table(&letters, &path, token, configured))
            p.row {
                @if before.is_some() { a.button.plain href=(path) { "Newest" } }
                @if let Some(last) = letters.last().filter(|_| letters.len() >= LETTERS as usize) {
                    a.button.plain href={ (path) "?before=" (last.id) } { "Older" }
                }
            }
        },
        old: before.is_some(),
    })
}

fn facts(sink: &SinkCondition) -> Markup {
    let last_error = sink.lane.as_ref().and_then(|lane| lane.last_error());
    html! {
        div.panel { dl {
            dt { "State" } dd { (badge::sink(sink.state())) }
            dt { "Plugin" } dd { (text(&sink.plugin())) }
            dt { "Streams" } dd { (text(&sink.streams_in_words())) }
            dt { "Waiting" } dd { (count(sink.lag, "request")) " at most, it has everything up to number " (sink.cursor) }
            dt { "Retries" } dd { (known(sink.retries())) }
            dt { "Dead letters" } dd { (known(sink.dead_letters())) }
            dt { "Last failure" } dd { @match last_error {
                Some((at_ms, reason)) => { (time(&clock::rfc3339(at_ms))) ": " (text_of(&reason, REASON_CHARS_MAX)) },
                None => { "none since the start" },
            } }
        } }
    }
}

fn waiting(retries: &[Waiting], path: &str, token: &Markup) -> Markup {
    html! {
        div.table { table {
            thead { tr { th { "Due" } th { "First request" } th.number { "Items" } th.number { "Attempts" } th { "Last failure" } th { "" } } }
            tbody { @for retry in retries { tr {
                td.tight data-label="Due" { (time(&clock::rfc3339(retry.due_unix_ms))) }
                td.mono data-label="First request" { @match &retry.first {
                    Some((id, _)) => a href={ "/requests/" (segment(id)) } { (id) },
                    None => "not in the log any more",
                } }
                td.number data-label="Items" { @match retry.items { Some(items) => (grouped(items)), None => "?" } }
                td.number data-label="Attempts" { (retry.retry.attempts) }
                td data-label="Last failure" { span { (text_of(&retry.retry.reason, REASON_CHARS_MAX)) } }
                td.tight data-label="" {
                    form method="post" action={ (path) "/give-up" } data-confirm="Give up this batch? Its items become dead letters." {
                        (token) input type="hidden" name="id" value=(retry.retry.id); button.danger { "Give up" }
                    }
                }
            } } }
        } }
    }
}

fn table(letters: &[DeadLetter], path: &str, token: &Markup, configured: bool) -> Markup {
    html! {
        @if letters.is_empty() {
            p.panel { "None: the sink gave up nothing." }
        } @else {
            div.table { table {
                thead { tr { th { "Given up" } th { "Item" } th { "Reason" } th.number { "Attempts" } th { "Request" } th { "" } } }
                tbody { @for letter in letters { tr {
                    td.tight data-label="Given up" { (time(&clock::rfc3339(letter.at_ms))) }
                    td data-label="Item" { span {
                        (text(&letter.stream)) " · " (text(&letter.key))
                        details { summary { "Fields" } pre { code { (text_of(&letter.fields, ITEM_CHARS_MAX)) } } }
                    } }
                    td data-label="Reason" { span { (text_of(&letter.reason, REASON_CHARS_MAX)) } }
                    td.number data-label="Attempts" { (letter.attempts) }
                    td.mono data-label="Request" { a href={ "/requests/" (segment(&letter.request_id)) } { (letter.request_id) } }
                    td.tight data-label="" { @if configured { span {
                        form method="post" action={ (path) "/again" } { (token) input type="hidden" name="id" value=(letter.id); button.plain { "Send again" } }
                        " "
                        form method="post" action={ (path) "/discard" } data-confirm="Discard this dead letter for good?" {
                            (token) input type="hidden" name="id" value=(letter.id); button.danger { "Discard" }
                        }
                    } } }
                } } }
            } }
        }
    }
}

/// `POST /sinks/{name}/retry`
struct Retry(Operator);

#[handler]
impl Retry {
    async fn handle(&self, req: &mut Request) -> Result<Sent, NoPage> {
        let retries = self.0.retry(&name(req), by(req)).await.map_err(refused)?;
        let said = match retries {
            0 => "Nothing waits for a retry.".to_owned(),
            retries => format!("{} tried again now.", are(retries, "batch")),
        };
        Ok(done(req, said))
    }
}

/// `POST /sinks/{name}/again`
struct SendAgain(Operator);

#[handler]
impl SendAgain {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let sink = name(req);
        let sent = self.0.send_letters_again(&sink, selected(depot)?, by(req));
        let (sent, skipped) = sent.await.map_err(refused)?;
        let mut said = format!("{} sent again.", are(sent, "item"));
        if skipped > 0 {
            said.push_str(&format!(
                " {} still dead letters: there is nothing to send.",
                are(skipped, "item")
            ));
        }
        Ok(done(req, said))
    }
}

/// `POST /sinks/{name}/discard`
struct Discard(Operator);

#[handler]
impl Discard {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let sink = name(req);
        let discarded = self.0.discard_letters(&sink, selected(depot)?, by(req));
        let discarded = discarded.await.map_err(refused)?;
        Ok(done(
            req,
            format!("{} discarded.", are(discarded, "dead letter")),
        ))
    }
}

/// `POST /sinks/{name}/give-up`
struct GiveUp(Operator);

#[handler]
impl GiveUp {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Sent, NoPage> {
        let field = |name: &str| Form::of(depot).and_then(|form| form.get(name));
        let id = match (field("id"), field("all")) {
            (Some(id), None) => id.parse().ok().map(Some),
            (None, Some("yes")) => Some(None),
            _ => None,
        };
        let id = id.ok_or_else(|| {
            let why = "The form names no waiting retry. Load the page again and repeat.";
            NoPage::Refused(StatusCode::BAD_REQUEST, why.to_owned())
        })?;
        let given_up = self.0.give_up(&name(req), id, by(req)).await;
        let given_up = given_up.map_err(refused)?;
        let said = format!(
            "{} given up, with {}.",
            are(given_up.retries, "batch"),
            count(given_up.items, "dead letter")
        );
        Ok(done(req, said))
    }
}

/// `POST /sinks/{name}/forget`
struct Forget(Operator);

#[handler]
impl Forget {
    async fn handle(&self, req: &mut Request) -> Result<Sent, NoPage> {
        let name = name(req);
        let forgotten = self.0.forget_sink(&name, by(req)).await;
        forgotten.map_err(refused)?;
        let said = format!("The sink {name} is forgotten.");
        Ok(Sent::Done("/sinks".to_owned(), said))
    }
}

fn name(req: &Request) -> String {
    req.param::<String>("name").unwrap_or_default()
}

/// What the form names: one dead letter, those of a request, or all.
fn selected(depot: &Depot) -> Result<Selection, NoPage> {
    let field = |name: &str| Form::of(depot).and_then(|form| form.get(name));
    let selected = match (field("id"), field("request"), field("all")) {
        (Some(id), None, None) => id.parse().ok().map(|id| Selection::Ids(vec![id])),
        (None, Some(request), None) => Some(Selection::Request(request.to_owned())),
        (None, None, Some("yes")) => Some(Selection::All),
        _ => None,
    };
    selected.ok_or_else(|| {
        let why = "The form names no dead letter. Load the page again and repeat.";
        NoPage::Refused(StatusCode::BAD_REQUEST, why.to_owned())
    })
}

fn are(number: u64, thing: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", count(number, thing))
}

/// Why nothing was done. What there is instead stands on this page.
fn refused(error: OperateError) -> NoPage {
    let why = as_sentence(&error.to_string());
    match NoPage::from(error) {
        NoPage::Refused(status, _) => NoPage::Refused(status, why),
        no_page => no_page,
    }
}

/// The page of the sink, which says what was done.
fn done(req: &Request, said: String) -> Sent {
    Sent::Done(format!("/sinks/{}", segment(&name(req))), said)
}
