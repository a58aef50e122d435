//! The last hour as bars, drawn on the server.
//!
//! **Invariant**: a chart says in words what it shows.

use maud::{Markup, html};

use observe::metrics::Minute;

const HEIGHT: u64 = 100;

/// A number of each minute, as bars over the width of its place.
pub(super) fn bars(words: &str, values: &[u64]) -> Markup {
    let pairs: Vec<(u64, u64)> = values.iter().map(|value| (*value, 0)).collect();
    drawn("chart", words, &pairs)
}

/// Requests of each minute with the refused ones among them, small.
pub(super) fn sparkline(words: &str, hour: &[Minute]) -> Markup {
    drawn("spark", words, &requests(hour))
}

/// The same, large.
pub(super) fn request_bars(words: &str, hour: &[Minute]) -> Markup {
    drawn("chart", words, &requests(hour))
}

fn requests(hour: &[Minute]) -> Vec<(u64, u64)> {
    hour.iter()
        .map(|minute| (minute.requests, minute.errors))
        .collect()
}

/// Bars of `(whole, bad part)`.
fn drawn(class: &str, words: &str, values: &[(u64, u64)]) -> Markup {
    let highest = values.iter().map(|(whole, _)| *whole).max().unwrap_or(0);
    let highest = highest.max(1);
    // At least a trace of what is not zero.
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
mod tests {
    use super::*;

    #[test]
    fn the_highest_bar_fills_the_chart_and_nothing_has_none() {
        let drawn = bars("three minutes", &[0, 5, 10_000]).into_string();
        assert_eq!(drawn.matches("<rect x").count(), 2, "{drawn}");
        assert!(drawn.contains(r#"y="96" width="8" height="4""#), "{drawn}");
        assert!(drawn.contains(r#"y="0" width="8" height="100""#), "{drawn}");
        assert!(drawn.contains(r#"aria-label="three minutes""#), "{drawn}");
        assert!(
            bars("", &[u64::MAX, u64::MAX])
                .into_string()
                .contains("height=\"100\"")
        );
    }
}
