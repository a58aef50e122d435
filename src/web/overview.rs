//! `/`: what is wrong, first; then whether data flows.
//!
//! **Invariant**: it says that all is well exactly when the status page of the API names no problem.

use std::time::Duration;

use maud::{Markup, html};
use salvo_core::handler;

use super::frame::{NoPage, Page, Place};
use super::held::in_short;
use super::text::{bytes, count, grouped, text, text_of, time};
use super::{chart, paths};
use base::clock::{self, Unix};
use observe::metrics::Minute;
use operate::Operator;
use operate::condition::Condition;
use operate::limits::LimitUse;

/// A limit is shown at once when so much of it is used.
const NEAR_PERCENT: u128 = 50;
/// The limit of the disk is named after the room that stays free.
const DISK: &str = "storage.min_free_bytes";
/// Operate keys that are named.
const KEYS_MAX: usize = 50;
/// Characters of a problem.
const PROBLEM_CHARS_MAX: usize = 600;

/// `GET /`
pub(super) struct Overview(pub(super) Operator);

#[handler]
impl Overview {
    async fn handle(&self) -> Result<Page, NoPage> {
        page(&self.0).await
    }
}

async fn page(operator: &Operator) -> Result<Page, NoPage> {
    let condition = operator.condition().await;
    let amounts = operator.amounts(&condition).await;
    Ok(Page {
        title: "Overview".to_owned(),
        place: Place::Overview,
        still: html! {},
        live: html! {
            (problems(operator, &condition))
            (acts(operator, &condition))
            (last_hour(operator))
            (sinks(operator, &condition))
            (about(operator))
            (limits(&operator.limits(&amounts)))
        },
        old: false,
    })
}

fn problems(operator: &Operator, condition: &Condition) -> Markup {
    let problems = operator.problems(condition);
    html! {
        @for problem in &problems {
            p.problem role="alert" { a href=(problem.page()) { (text_of(&problem.sentence, PROBLEM_CHARS_MAX)) } }
        }
        @if problems.is_empty() {
            p.said.well { (all_is_well(operator, condition)) }
        }
    }
}

/// One sentence, with what would be looked for next.
fn all_is_well(operator: &Operator, condition: &Condition) -> String {
    let hour = operator.metrics.recent.hour(None, Unix::now());
    let sum = hour.iter().copied().fold(Minute::default(), Minute::and);
    let screens = operator.renderers().len() as u64;
    let lag: u64 = condition.sinks.iter().map(|sink| sink.lag).sum();
    let sinks = match (condition.sinks.len(), lag) {
        (0, _) => "there is no sink".to_owned(),
        (1, 0) => "the sink is up to date".to_owned(),
        (sinks, 0) => format!("all {sinks} sinks are up to date"),
        (_, lag) => format!("the sinks are {} behind", count(lag, "request")),
    };
    format!(
        "Everything works: {} in the last hour, {sinks}, {} connected.",
        count(sum.requests, "request"),
        count(screens, "screen")
    )
}

/// What operators hold and override, and who is there to do so; nothing if there is nothing.
fn acts(operator: &Operator, condition: &Condition) -> Markup {
    let renderers = operator.renderers();
    let mut keys: Vec<&str> = renderers
        .iter()
        .filter(|one| one.renderer.operates())
        .map(|one| &*one.renderer.key)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    html! {
        @if !condition.acts.is_empty() || !keys.is_empty() {
            h2 #acts { "Held and overridden" }
            div.panel {
                @for acts in &condition.acts {
                    p { a href=(paths::stream(&acts.stream)) { (text(&acts.stream)) } ": " (in_short(acts)) }
                }
                @if condition.acts.is_empty() { p { "Nothing is held or overridden." } }
                @if !keys.is_empty() {
                    p { "Operate keys that are connected: "
                        @for (place, key) in keys.iter().take(KEYS_MAX).enumerate() {
                            @if place > 0 { ", " }
                            a href=(paths::read_key(key)) { (text(key)) }
                        }
                        @if keys.len() > KEYS_MAX { " …" }
                    }
                }
            }
        }
    }
}

fn last_hour(operator: &Operator) -> Markup {
    let hour = operator.metrics.recent.hour(None, Unix::now());
    let sum = hour.iter().copied().fold(Minute::default(), Minute::and);
    let items: Vec<u64> = hour.iter().map(|minute| minute.items).collect();
    let errors: Vec<u64> = hour.iter().map(|minute| minute.errors).collect();
    let took: Vec<u64> = hour
        .iter()
        .map(|minute| u64::try_from(mean(*minute).as_micros()).unwrap_or(u64::MAX))
        .collect();
    let words = |what: &str| format!("{what} of each minute of the last hour");
    html! {
        div.tiles {
            section.tile {
                h2 { "Requests in the last hour" }
                p.number { (grouped(sum.requests)) }
                (chart::request_bars(&words("requests"), &hour))
            }
            section.tile {
                h2 { "Items accepted" }
                p.number { (grouped(sum.items)) }
                (chart::bars(&words("items"), &items))
            }
            section.tile {
                h2 { "Requests rejected" }
                p.number { (grouped(sum.errors)) }
                (chart::bars(&words("rejected requests"), &errors))
            }
            section.tile {
                h2 { "Time to answer, mean" }
                p.number { (milliseconds(mean(sum))) span.quiet { " max " (milliseconds(sum.took_max)) } }
                (chart::bars(&words("mean time to answer"), &took))
            }
        }
    }
}

fn mean(minute: Minute) -> Duration {
    let requests = u32::try_from(minute.timed).unwrap_or(u32::MAX).max(1);
    minute.took / requests
}

fn milliseconds(duration: Duration) -> String {
    let tenths = duration.as_micros() / 100;
    format!("{}.{} ms", tenths / 10, tenths % 10)
}

fn sinks(operator: &Operator, condition: &Condition) -> Markup {
    let renderers = operator.renderers();
    let behind = renderers.iter().filter(|one| one.lag > 0).count() as u64;
    html! {
        h2 { "Sinks" }
        (super::sink_table::table(&condition.sinks))
        h2 { "Screens" }
        p.panel {
            @if renderers.is_empty() {
                "No screen is connected. "
                @if operator.catalog.read_keys().is_empty() { a href="/new/read-key" { "Create a read key" } " to show a stream on a screen." }
                @else { a href="/docs/show" { "Open a stream on a screen" } " with one of the " a href="/renderers" { "read keys" } "." }
            } @else {
                (count(renderers.len() as u64, "screen")) " connected, "
                @if behind == 0 { "all up to date." } @else { (grouped(behind)) " behind." }
            }
        }
    }
}

fn about(operator: &Operator) -> Markup {
    let metrics = &operator.metrics;
    let refused = metrics.invalid.get()
        + metrics.stream_not_found.get()
        + metrics.too_large.get()
        + metrics.rate_limited.get()
        + metrics.stream_full.get();
    let free = u64::try_from(metrics.disk_free_bytes.get()).unwrap_or(0);
    let counts = [
        ("Accepted", metrics.accepted.get()),
        ("Repeats", metrics.duplicates.get()),
        ("With test keys", metrics.tests.get()),
        ("Rejected", refused),
        ("Without a valid key", metrics.unauthorized.get()),
        ("Rejected: storage unavailable", metrics.unavailable.get()),
    ];
    html! {
        h2 { "Since the start" }
        div.tiles.small {
            // A zero is no news.
            @for (name, count) in counts.into_iter().filter(|(name, count)| *count > 0 || *name == "Accepted") {
                section.tile { h2 { (name) } p.number { (grouped(count)) } }
            }
        }
        div.panel { dl {
            dt { "Running since" } dd { (time(&clock::rfc3339(operator.about.started_at))) }
            dt { "Profile" } dd { (text(&operator.about.profile)) }
            dt { "Data folder" } dd { (text(&operator.about.data_dir)) }
            dt { "Free on its disk" } dd { (bytes(free / FREE_STEP * FREE_STEP)) }
            dt { "Durability" } dd { @if operator.about.durability == "fsync" { "flushed to disk before the 202" } @else { "handed to the operating system before the 202" } }
        } }
    }
}

fn limits(limits: &[LimitUse]) -> Markup {
    let (near, far): (Vec<&LimitUse>, Vec<&LimitUse>) = limits.iter().partition(|limit| {
        limit
            .max
            .is_some_and(|max| percent(limit.used, max) >= NEAR_PERCENT)
    });
    html! {
        h2 #limits { "Limits" }
        @if !near.is_empty() { (limit_table(&near)) }
        details.panel {
            summary {
                @if near.is_empty() { "No limit is half used" } @else { "All others" }
                " (" (count(far.len() as u64, "limit")) ")"
            }
            (limit_table(&far))
        }
    }
}

fn limit_table(limits: &[&LimitUse]) -> Markup {
    html! {
        div.table { table {
            thead { tr { th { "Limit" } th.number { "Used" } th.number { "Of" } td {} th { "Most by" } } }
            tbody { @for limit in limits { tr {
                td.mono data-label="Limit" { @if limit.name == DISK { "disk" } @else { (limit.name) } }
                td.number data-label="Used" { (amount(limit, limit.used)) }
                td.number data-label="Of" { @match limit.max { Some(max) => (amount(limit, max)), None => "any" } }
                td data-label="Share" { @if let Some(max) = limit.max { (share(limit.used, max)) } }
                td data-label="Most by" { @if let Some(holder) = &limit.holder { (text(holder)) } }
            } } }
        } }
    }
}

fn amount(limit: &LimitUse, amount: u64) -> String {
    match limit.unit {
        "bytes" => bytes(amount),
        _ => grouped(amount),
    }
}

fn percent(used: u64, max: u64) -> u128 {
    u128::from(used) * 100 / u128::from(max.max(1))
}

/// How much of it is used, as a bar.
fn share(used: u64, max: u64) -> Markup {
    let percent = percent(used, max);
    let words = format!("{percent} %");
    html! {
        meter min="0" max="100" high="90" optimum="0" value=(percent.min(100)) title=(words) aria-label=(words) { (words) }
    }
}

/// The free room changes all the time; the page need not.
const FREE_STEP: u64 = 100 << 20;
