//! Unit tests of `chart.rs`.

use super::*;

const fn minute(requests: u64, errors: u64) -> Minute {
    Minute {
        requests,
        errors,
        unavailable: 0,
        items: 0,
        timed: 0,
        took: std::time::Duration::ZERO,
        took_max: std::time::Duration::ZERO,
    }
}

#[test]
fn the_highest_bar_fills_the_chart_and_nothing_has_none() {
    let hour = [minute(0, 0), minute(5, 0), minute(10_000, 0)];
    let drawn = sparkline("three minutes", &hour).into_string();
    assert_eq!(drawn.matches("<rect x").count(), 2, "{drawn}");
    assert!(drawn.contains(r#"y="96" width="8" height="4""#), "{drawn}");
    assert!(drawn.contains(r#"y="0" width="8" height="100""#), "{drawn}");
    assert!(drawn.contains(r#"aria-label="three minutes""#), "{drawn}");
    let most = [minute(u64::MAX, 0); 2];
    let drawn = sparkline("", &most).into_string();
    assert!(drawn.contains("height=\"100\""));
}

#[test]
fn a_scale_ends_with_a_round_number_and_each_minute_says_its_values() {
    let drawn = requests_of_hour(&[minute(0, 0), minute(41, 3)], 61).into_string();
    for part in [
        "<span>40</span><span>20</span><span>0</span><span>4</span>",
        "01:00 UTC: 0 accepted, 0 rejected",
        "01:01 UTC: 38 accepted, 3 rejected",
        "38 accepted, 3 rejected, at most 38 accepted in a minute",
    ] {
        assert!(drawn.contains(part), "{part}: {drawn}");
    }
    assert_eq!(drawn.matches("class=\"bar").count(), 2, "{drawn}");
    let ends = [0, 2, 3, 10, 11, 41, u64::MAX].map(round_up);
    assert_eq!(ends, [2, 2, 4, 10, 20, 100, u64::MAX]);
}
