//! `/`: problems first, then the flow of data.
//!
//! **Invariant**: the page reports that all is well exactly if the status in the API has no problem.

use std::time::Duration;

use maud::{Markup, html};
use salvo_core::{Request, handler};

use super::frame::{Head, NoPage, Page, Place};
use super::grid::Sorting;
use super::held::in_short;
use super::node::on_node;
use super::text::{bytes, count, grouped, text, text_of, time};
use super::{chart, paths};
use base::clock::{self, Unix};
use observe::metrics::Minute;
use operate::Operator;
use operate::condition::Condition;
use operate::limits::LimitUse;
use operate::problem::Problem;

/// A limit is unfolded when this share of it is used.
const NEAR_PERCENT: u128 = 50;
/// The limit of the disk space is named after the setting for free space.
const DISK: &str = "storage.min_free_bytes";
/// Maximum operate keys that are named.
const KEYS_MAX: usize = 50;
/// Maximum characters of a problem.
const PROBLEM_CHARS_MAX: usize = 600;

/// `GET /`
pub(super) struct Overview(pub(super) Operator);

#[handler]
impl Overview {
    async fn handle(&self, req: &mut Request) -> Result<Page, NoPage> {
        page(&self.0, &Sorting::of(req)).await
    }
}

async fn page(operator: &Operator, sorting: &Sorting) -> Result<Page, NoPage> {
    let condition = operator.condition().await;
    let amounts = operator.amounts(&condition).await;
    let problems = operator.problems(&condition);
    Ok(Page {
        title: "Overview".to_owned(),
        place: Place::Overview,
        head: Head {
            state: html! {
                @match problems.len() {
                    0 => span.badge.good { "All well" },
                    problems => span.badge.bad { (count(problems as u64, "problem")) },
                }
            },
            actions: html! { a.button.main href="/new/tool" { "Add connector" } },
            ..Head::default()
        },
        still: html! {},
        live: html! {
            (problem_list(operator, &condition, &problems))
            (acts(operator, &condition))
            (last_hour(operator))
            (sinks(operator, &condition, sorting))
            (about(operator))
            (limits(operator, &operator.limits(&amounts)))
        },
        old: false,
    })
}

fn problem_list(operator: &Operator, condition: &Condition, problems: &[Problem]) -> Markup {
    html! {
        @if problems.is_empty() {
            p.said.well { (all_is_well(operator, condition)) }
        } @else {
            div role="alert" { ul.problems {
                @for problem in problems {
                    li {
                        @let (class, word) = match problem.kind.severity() { "error" => ("bad", "Broken"), _ => ("warn", "Check") };
                        span class={ "badge " (class) } { (word) }
                        a href=(problem.page()) { (text_of(&problem.sentence, PROBLEM_CHARS_MAX)) }
                    }
                }
            } }
        }
    }
}

/// One sentence with the figures that an operator would look for next.
fn all_is_well(operator: &Operator, condition: &Condition) -> String {
    let hour = operator.metrics.recent.hour(None, Unix::now());
    let sum: Minute = hour.into_iter().sum();
    let screens = operator.renderers().len() as u64 + operator.renderers_elsewhere();
    let lag: u64 = condition.sinks.iter().map(|sink| sink.lag).sum();
    let sinks = match (condition.sinks.len(), lag) {
        (0, _) => "no sinks".to_owned(),
        (1, 0) => "the sink is up to date".to_owned(),
        (sinks, 0) => format!("all {sinks} sinks are up to date"),
        (_, lag) => format!("the sinks are {} behind", count(lag, "request")),
    };
    format!(
        "Everything works: {} in the last hour{}, {sinks}, {} connected.",
        count(sum.requests, "request"),
        on_node(operator),
        count(screens, "screen")
    )
}

/// Holds and overrides, and the connected operate keys; empty if there are none.
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
    let now = Unix::now();
    let hour = operator.metrics.recent.hour(None, now);
    let sum: Minute = hour.iter().copied().sum();
    let took = operator.metrics.recent.percentiles(now, [50, 99]);
    // Percentiles are upper ends of histogram classes; the maximum is exact.
    let took = took.map(|took| took.map(|took| took.min(sum.took_max)));
    html! {
        h2 { "Last hour" (on_node(operator)) }
        div.panel { (chart::requests_of_hour(&hour, now.seconds() / 60)) }
        div.tiles {
            section.tile { p.number { (grouped(sum.accepted())) } h3 { "requests accepted" } }
            section.tile { p.number { (grouped(sum.items)) } h3 { "items accepted" } }
            section.tile { p.number { (grouped(sum.errors)) } h3 { "requests rejected" } }
            section.tile {
                @match took {
                    Some([half, most]) => {
                        p.number { (milliseconds(half)) span.quiet { " p50" } }
                        h3 { "answer, p99 " (milliseconds(most)) ", max " (milliseconds(sum.took_max)) }
                    }
                    None => { p.number { "–" } h3 { "answer" } },
                }
            }
        }
    }
}

fn milliseconds(duration: Duration) -> String {
    let tenths = duration.as_micros() / 100;
    format!("{}.{} ms", tenths / 10, tenths % 10)
}

fn sinks(operator: &Operator, condition: &Condition, sorting: &Sorting) -> Markup {
    let renderers = operator.renderers();
    let behind = renderers.iter().filter(|one| one.lag > 0).count() as u64;
    let elsewhere = operator.renderers_elsewhere();
    html! {
        h2 { "Sinks" }
        (super::sink_table::table(&condition.sinks, sorting))
        h2 { "Screens" }
        p.panel {
            @if renderers.is_empty() {
                "No connected screens. "
                @if operator.catalog.read_keys().is_empty() { a href="/new/read-key" { "Create a read key" } " to show a stream on a screen." }
                @else { a href="/docs/show" { "Open a stream on a screen" } " with one of the " a href="/renderers" { "read keys" } "." }
            } @else {
                (count(renderers.len() as u64, "screen")) " connected" (on_node(operator)) ", "
                @if behind == 0 { "all up to date." } @else { (grouped(behind)) " behind." }
            }
            @if elsewhere > 0 { " Other " a href="/settings" { "nodes" } " have " (count(elsewhere, "screen")) "." }
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
        h2 { "Since the start" (on_node(operator)) }
        div.panel { dl {
            // Counters at zero are hidden.
            @for (name, count) in counts.into_iter().filter(|(name, count)| *count > 0 || *name == "Accepted") {
                dt { (name) } dd { (grouped(count)) }
            }
            dt { "Running since" } dd { (time(&clock::rfc3339(operator.about.started_at))) }
            dt { "Profile" } dd { (text(&operator.about.profile)) }
            dt { "Data directory" } dd { (text(&operator.about.data_dir)) }
            dt { "Free on its disk" } dd { (bytes(free / FREE_STEP * FREE_STEP)) }
            dt { "Durability" } dd { @match operator.about.durability {
                "fsync" => "flushed to disk before the 202",
                "standby" => "on a standby of the database before the 202",
                "local" => "on the primary of the database before the 202: a failover can lose acknowledged requests",
                _ => "handed to the operating system before the 202",
            } }
        } }
    }
}

fn limits(operator: &Operator, limits: &[LimitUse]) -> Markup {
    let (near, far): (Vec<&LimitUse>, Vec<&LimitUse>) = limits.iter().partition(|limit| {
        limit
            .max
            .is_some_and(|max| percent(limit.used, max) >= NEAR_PERCENT)
    });
    html! {
        h2 #limits { "Limits" (on_node(operator)) }
        @if !near.is_empty() { (limit_table(&near)) }
        details.panel {
            summary {
                @if near.is_empty() { "All limits are below 50%" } @else { "All others" }
                " (" (count(far.len() as u64, "limit")) ")"
            }
            (limit_table(&far))
        }
    }
}

fn limit_table(limits: &[&LimitUse]) -> Markup {
    html! {
        div.table { table {
            thead { tr { th { "Limit" } th.number { "Used" } th.number { "Of" } td {} th { "Largest user" } } }
            tbody { @for limit in limits { tr {
                td.mono data-label="Limit" { @if limit.name == DISK { "disk" } @else { (limit.name) } }
                td.number data-label="Used" { (amount(limit, limit.used)) }
                td.number data-label="Of" { @match limit.max { Some(max) => (amount(limit, max)), None => "any" } }
                td data-label="Share" { @if let Some(max) = limit.max { (share(limit.used, max)) } }
                td data-label="Largest user" { @if let Some(holder) = &limit.holder { (text(holder)) } }
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

/// The used share of a limit, as a bar.
fn share(used: u64, max: u64) -> Markup {
    let percent = percent(used, max);
    let words = format!("{percent} %");
    html! {
        meter min="0" max="100" high="90" optimum="0" value=(percent.min(100)) title=(words) aria-label=(words) { (words) }
    }
}

/// The step of the displayed free space. It changes all the time, and the page would be sent again each time.
const FREE_STEP: u64 = 100 << 20;
