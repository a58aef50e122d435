//! Bar charts of the last hour, drawn on the server.
//!
//! **Invariant**: a chart has a text alternative.

use maud::{Markup, html};

use super::text::grouped;
use observe::metrics::Minute;

const HEIGHT: u64 = 100;
/// Height for rejected requests, below zero.
const DOWN: u64 = 30;

/// A small chart of the requests per minute, with the rejected ones.
pub(super) fn sparkline(words: &str, hour: &[Minute]) -> Markup {
    drawn("spark", words, &requests(hour))
}

/// A large chart of the requests per minute with a scale: accepted requests upwards, rejected ones downwards. `last` is
/// the newest minute, in minutes since 1970.
pub(super) fn requests_of_hour(hour: &[Minute], last: u64) -> Markup {
    let most = hour.iter().map(|minute| minute.accepted()).max();
    let top = round_up(most.unwrap_or(0));
    let bottom = round_up(hour.iter().map(|minute| minute.errors).max().unwrap_or(0));
    let has_errors = hour.iter().any(|minute| minute.errors > 0);
    let down = if has_errors { DOWN } else { 0 };
    let sum: Minute = hour.iter().copied().sum();
    let words = format!(
        "Requests per minute of the last hour: {} accepted, {} rejected, at most {} accepted in a minute",
        grouped(sum.accepted()),
        grouped(sum.errors),
        grouped(most.unwrap_or(0)),
    );
    let first = (last + 1).saturating_sub(hour.len() as u64);
    html! {
        figure.plot {
            figcaption { strong { "Requests per minute" } span.key { span.accepted { "accepted" } span.rejected { "rejected" } } }
            div.scale.down[has_errors] aria-hidden="true" { span { (grouped(top)) } span { (grouped(top / 2)) } span { "0" } @if has_errors { span { (grouped(bottom)) } } }
            svg.chart role="img" aria-label=(words) viewBox={ "0 0 " (hour.len() * 10) " " (HEIGHT + down) } preserveAspectRatio="none" {
                rect.floor x="0" y="0" width=(hour.len() * 10) height="0.5" {}
                rect.floor x="0" y=(HEIGHT / 2) width=(hour.len() * 10) height="0.5" {}
                rect.floor x="0" y=(HEIGHT) width=(hour.len() * 10) height="1" {}
                @for (place, minute) in hour.iter().enumerate() {
                    @let (up, errors) = (height(minute.accepted(), top, HEIGHT), height(minute.errors, bottom, DOWN));
                    g {
                        title { (clock_of(first + place as u64)) " UTC: " (grouped(minute.accepted())) " accepted, " (grouped(minute.errors)) " rejected" }
                        rect.back x=(place * 10) y="0" width="10" height=(HEIGHT + down) {}
                        @if up > 0 { rect.bar x=(place * 10 + 1) y=(HEIGHT - up) width="8" height=(up) {} }
                        @if errors > 0 { rect.bar.bad x=(place * 10 + 1) y=(HEIGHT) width="8" height=(errors) {} }
                    }
                }
            }
            div.times aria-hidden="true" { span { "60 min ago" } span { "45" } span { "30" } span { "15" } span { "now" } }
        }
    }
}

/// The height of a bar; a value above zero is always visible.
fn height(value: u64, most: u64, full: u64) -> u64 {
    match value {
        0 => 0,
        value => {
            let height = u128::from(value) * u128::from(full) / u128::from(most.max(1));
            u64::try_from(height).unwrap_or(full).clamp(2, full)
        }
    }
}

/// The next end of a scale: 2, 4, 10, 20, 40, 100 and so on.
fn round_up(most: u64) -> u64 {
    let mut step = 1_u64;
    loop {
        for part in [2, 4, 10] {
            let end = step.saturating_mul(part);
            if end >= most {
                return end;
            }
        }
        step = step.saturating_mul(10);
    }
}

/// The time of day of a minute since 1970.
fn clock_of(minute: u64) -> String {
    format!("{:02}:{:02}", minute / 60 % 24, minute % 60)
}

fn requests(hour: &[Minute]) -> Vec<(u64, u64)> {
    hour.iter()
        .map(|minute| (minute.requests, minute.errors))
        .collect()
}

/// Draws bars of `(whole, bad part)`.
fn drawn(class: &str, words: &str, values: &[(u64, u64)]) -> Markup {
    let highest = values.iter().map(|(whole, _)| *whole).max().unwrap_or(0);
    let highest = highest.max(1);
    // A value above zero is always visible.
    let height = |value: u64| match value {
        0 => 0,
        value => (u128::from(value) * u128::from(HEIGHT) / u128::from(highest)).max(4),
    };
    let floor = u128::from(HEIGHT);
    html! {
        svg class=(class) role="img" aria-label=(words) viewBox={ "0 0 " (values.len() * 10) " " (HEIGHT + 3) } preserveAspectRatio="none" {
            title { (words) }
            rect.floor x="0" y=(HEIGHT) width=(values.len() * 10) height="3" {}
            @for (place, (whole, bad)) in values.iter().enumerate() {
                @if *whole > 0 {
                    rect x=(place * 10 + 1) y=(floor - height(*whole)) width="8" height=(height(*whole)) {}
                }
                @if *bad > 0 {
                    rect.bad x=(place * 10 + 1) y=(floor - height(*bad)) width="8" height=(height(*bad)) {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
