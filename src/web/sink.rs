//! `/sinks/{name}`: a sink, its retries and dead letters, and the buttons for them.
//!
//! **Invariant**: a button is shown only if its act is possible.

mod actions;
mod change;
mod controls;
mod delete;
mod letters;
mod list;
mod new;
mod rows;
mod schema_form;
mod section;
mod tried;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};

use super::frame::{Head, NoPage, Page, Place, more, token};
use super::node::{no_log, of_sink, unless_away};
use super::sink_table::{known, problems};
use super::text::{as_sentence, count, grouped, text, text_of, time};
use super::{badge, form, paths};
use base::clock;
use delivery::Waiting;
use operate::Operator;
use operate::condition::SinkCondition;
use settings::Leaves;

/// Maximum waiting retries on a page.
const RETRIES: u32 = 50;
/// Maximum characters of a reason.
const REASON_CHARS_MAX: usize = 600;

/// Routes of the sinks.
pub(super) fn routes(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::new()
        .push(Router::with_path("sinks").get(list::Sinks(p())))
        .push(
            Router::with_path("sinks/{name}")
                .get(ShowSink(p()))
                .push(Router::with_path("dead-letters/{id}").get(letters::ShowLetter(p())))
                .push(Router::with_path("retry").post(actions::Retry(p())))
                .push(Router::with_path("again").post(actions::SendAgain(p())))
                .push(Router::with_path("discard").post(actions::Discard(p())))
                .push(Router::with_path("end-retries").post(actions::EndRetries(p())))
                // The path of pages of version 0.1.
                .push(Router::with_path("give-up").post(actions::EndRetries(p())))
                .push(Router::with_path("refill").post(actions::Refill(p())))
                .push(Router::with_path("pause").post(actions::Pause(p(), true)))
                .push(Router::with_path("resume").post(actions::Pause(p(), false)))
                .push(Router::with_path("forget").post(actions::Forget(p()))),
        )
}

/// Routes that create, change and delete sinks. They decide which data leaves the machine.
pub(super) fn made(operator: &Operator) -> Router {
    let p = || operator.clone();
    Router::new()
        .push(form::route("new/sink", || new::NewSink(p())))
        .push(
            Router::with_path("sinks/{name}")
                .push(form::route("change", || change::ChangeSink(p())))
                .push(form::route("delete", || delete::DeleteSink(p()))),
        )
}

/// `GET /sinks/{name}`
struct ShowSink(Operator);

#[handler]
impl ShowSink {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Page, NoPage> {
        page(&self.0, req, depot).await
    }
}

async fn page(operator: &Operator, req: &mut Request, depot: &Depot) -> Result<Page, NoPage> {
    let token = &token(depot);
    let name = paths::param(req, "name");
    let condition = operator.condition().await;
    let sink = condition.sinks.iter().find(|sink| *sink.name == *name);
    let sink = sink.ok_or(NoPage::NotFound(
        "There is no such sink. The page Sinks lists the sinks.",
    ))?;
    let before = req.query::<i64>("before");
    let letters = operator
        .pool
        .dead_letters(&name, before, letters::LETTERS)
        .await?;
    let retries = unless_away(operator.delivery.waiting(&name, 0, RETRIES).await)?;
    let path = paths::sink(&name);
    let configured = sink.lane.is_some();
    Ok(Page {
        title: name,
        place: Place::Sinks,
        head: Head {
            above: vec![("/sinks".to_owned(), "Sinks".to_owned())],
            state: state(sink),
            actions: buttons(operator, sink, token),
        },
        still: html! {},
        live: html! {
            (problems(sink))
            (retries_of(sink, retries.as_deref(), &path, token))
            h2 #dead-letters { "Dead letters" }
            (letters::grid(&letters, &path, depot, (configured, before.is_some())))
            h2 { "Set up" }
            (facts(operator, sink))
        },
        old: before.is_some(),
    })
}

/// The state of the sink, and its lag.
fn state(sink: &SinkCondition) -> Markup {
    let given_up = sink.dead_letters().unwrap_or(0);
    html! {
        (badge::sink(sink.state()))
        (of_sink(sink))
        span.quiet {
            (text(&sink.plugin())) ", "
            @if sink.lag == 0 { "up to date" } @else { (count(sink.lag, "request")) " behind" }
            @if given_up > 0 { ", " (count(given_up, "dead letter")) }
        }
    }
}

/// The buttons for the whole sink.
fn buttons(operator: &Operator, sink: &SinkCondition, token: &Markup) -> Markup {
    let (name, configured) = (&*sink.name, sink.lane.is_some());
    let path = paths::sink(name);
    let wanted = operator.catalog.sink(name);
    let is_paused = wanted.as_ref().is_some_and(|wanted| wanted.pause.is_some());
    let is_made = (wanted.as_ref()).is_some_and(|wanted| !wanted.is_declared() || wanted.shadows);
    let waiting_batches = sink.retries().unwrap_or(0);
    let given_up = sink.dead_letters().unwrap_or(0);
    let rarely = html! {
        @if configured {
            form method="post" action={ (path) "/retry" } { (token) button.plain { "Run retries now" } }
            @if can_be_filled(sink) {
                form method="post" action={ (path) "/refill" } data-confirm="Send the sink all items of the data pool again?" { (token) button.plain { "Fill again" } }
            }
        }
        @if waiting_batches > 0 {
            form method="post" action={ (path) "/end-retries" } data-confirm={ "Move all waiting batches to the dead letters (" (grouped(waiting_batches)) ")?" } {
                (token) input type="hidden" name="all" value="yes"; button.danger { "End all retries" }
            }
        }
        @if given_up > 0 && configured {
            form method="post" action={ (path) "/discard" } data-confirm={ "Discard all " (grouped(given_up)) " dead letters of this sink? This cannot be undone." } {
                (token) input type="hidden" name="all" value="yes"; button.danger { "Discard all" }
            }
        }
        @if configured {
            @if is_made && !wanted.as_ref().is_some_and(|wanted| wanted.shadows) { a href={ (path) "/change" } { "Change…" } }
            @if is_made { a.bad href={ (path) "/delete" } { "Delete…" } }
        } @else {
            form method="post" action={ (path) "/forget" } data-confirm={ "Delete all data of the sink: its backlog, " (count(waiting_batches, "waiting batch")) " and " (count(given_up, "dead letter")) "? This cannot be undone." } {
                (token) button.danger { "Delete sink data" }
            }
        }
    };
    html! {
        (more(&rarely))
        @if configured && !is_paused {
            form method="post" action={ (path) "/pause" } { (token) button.plain { "Pause" } }
        }
        @if given_up > 0 && configured {
            form method="post" action={ (path) "/again" } { (token) input type="hidden" name="all" value="yes"; button { "Retry all dead letters" } }
        }
        @if configured && is_paused {
            form method="post" action={ (path) "/resume" } { (token) button { "Resume" } }
        }
    }
}

/// Whether a fill of the sink can begin now. How far a fill is that runs on another node is in the data pool.
fn can_be_filled(sink: &SinkCondition) -> bool {
    let is_filling = sink.filling.as_ref().is_some_and(|(one, _)| !one.is_over);
    let lane = sink.lane.as_ref();
    lane.is_some_and(|lane| {
        lane.reach().1 == Some(false) && !lane.is_filling() && !(lane.is_stand_in() && is_filling)
    })
}

fn facts(operator: &Operator, sink: &SinkCondition) -> Markup {
    let notes = sink
        .lane
        .as_ref()
        .map(|lane| operator.sink_notes(&lane.reach().0));
    let last_error = sink.lane.as_ref().and_then(|lane| lane.last_error());
    html! {
        div.panel { dl {
            dt { "State" } dd { (badge::sink(sink.state())) (of_sink(sink)) }
            dt { "Plugin" } dd { (text(&sink.plugin())) }
            dt { "Streams" } dd { (text(&sink.streams_in_words())) }
            @if let Some(conditions) = sink.conditions() { dt { "Where" } dd { code { (text(&conditions)) } } }
            @if sink.lane.as_ref().is_some_and(|lane| lane.sink().leaves == Leaves::Remove) { dt { "Ceases to match" } dd { "it receives a removal of the item" } }
            @if let Some(fields) = sink.fields() { dt { "Fields" } dd { code { (text(&fields)) } } }
            dt { "Writes streams" } dd { (text(&sink.writes_in_words())) }
            dt { "Permissions" } dd { @match sink.lane.as_ref().map(|lane| lane.reach().0.grants()) {
                Some(grants) if !grants.is_empty() => { (text(&grants.join("; "))) },
                _ => "only receive its items",
            } }
            @match sink.lane.as_ref().filter(|lane| lane.sink().is_latest()) {
                Some(lane) => {
                    dt { "Follows" } dd { "the newest state, " @if lane.sink().shown { "as it is shown, " } "at most " (count(lane.sink().max_rate.into(), "call")) " per second" }
                    dt { "Waiting" } dd { (count(sink.lag, "changed item")) }
                    dt { "Refused" } dd { @match lane.rejected() {
                        _ if sink.elsewhere().is_some() => { (known_there(sink)) },
                        (items, Some(reason)) => { (count(items, "item")) " since the start, the last: " (text_of(&reason, REASON_CHARS_MAX)) },
                        (_, None) => { "none since the start" },
                    } }
                    @if let Some((at, why)) = lane.refilled() { dt { "Refilled" } dd { (time(&clock::rfc3339(at))) ": " (text(&why)) } }
                },
                None => { dt { "Waiting" } dd { (grouped(sink.lag)) " at most; it has everything up to number " (sink.cursor) } },
            }
            @if let Some((filling, left)) = sink.filling.as_ref().filter(|(filling, _)| !filling.is_over) {
                dt { "Filling" } dd { (count(filling.read.saturating_sub(left.waiting), "item")) " of the data pool done, " (grouped(left.rows + left.waiting)) " left, since " (time(&clock::rfc3339(filling.began_at))) }
            }
            @for note in notes.iter().flatten() { dt { "Note" } dd { (text(&as_sentence(note))) } }
            dt { "Retries" } dd { (known(sink.retries())) }
            dt { "Dead letters" } dd { (known(sink.dead_letters())) }
            dt { "Last failure" } dd { @match last_error {
                Some((at, reason)) => { (time(&clock::rfc3339(at))) ": " (text_of(&reason, REASON_CHARS_MAX)) },
                None if sink.elsewhere().is_some() => { (known_there(sink)) },
                None => { "none since the start" },
            } }
        } }
    }
}

/// In place of what only the node knows that runs the sink.
fn known_there(sink: &SinkCondition) -> Markup {
    html! { @if let Some(node) = sink.elsewhere() { "only node " (text(node)) " knows" } }
}

/// The retries that wait; without them: the requests that they name cannot be read now.
fn retries_of(
    sink: &SinkCondition,
    retries: Option<&[Waiting]>,
    path: &str,
    token: &Markup,
) -> Markup {
    let waiting_batches = sink.retries().unwrap_or(0);
    html! {
        @match retries {
            None if waiting_batches == 0 => {},
            Some([]) => {},
            _ => h2 #retries { "Waiting retries" },
        }
        @match retries {
            None if waiting_batches > 0 => (no_log("The requests of the waiting retries")),
            Some(retries) if !retries.is_empty() => {
                (retries_table(retries, path, token))
                @if waiting_batches > u64::from(RETRIES) { p.quiet { "The first " (RETRIES) " of " (grouped(waiting_batches)) "." } }
            },
            _ => {},
        }
    }
}

fn retries_table(retries: &[Waiting], path: &str, token: &Markup) -> Markup {
    html! {
        div.table { table {
            thead { tr { th { "Due" } th { "First request" } th.number { "Items" } th.number { "Attempts" } th { "Last failure" } td {} } }
            tbody { @for retry in retries { tr {
                td.tight data-label="Due" { (time(&clock::rfc3339(retry.due_at))) }
                td.mono data-label="First request" { @match &retry.first {
                    Some((id, _)) => a href=(paths::request(id)) { (id) },
                    None => "no longer in the log",
                } }
                td.number data-label="Items" { @match retry.items { Some(items) => (grouped(items)), None => "?" } }
                td.number data-label="Attempts" { (retry.retry.attempts) }
                td data-label="Last failure" { span { (text_of(&retry.retry.reason, REASON_CHARS_MAX)) } }
                td.tight data-label="" {
                    form method="post" action={ (path) "/end-retries" } data-confirm="Move this batch to the dead letters?" {
                        (token) input type="hidden" name="id" value=(retry.retry.id); button.danger { "End retries" }
                    }
                }
            } } }
        } }
    }
}
