//! Unit tests of `beginning.rs`.

use super::*;

fn sink(name: &str, plugin: &str, streams: &[&str]) -> Sink {
    Sink {
        name: name.to_owned(),
        plugin: plugin.to_owned(),
        streams: streams.iter().map(|one| (*one).to_owned()).collect(),
        ..Sink::default()
    }
}

#[test]
fn only_what_the_pool_writes_fills_a_sink() {
    let mut pool = sink("pool", "pool", &["orders", "sensor-*"]);
    pool.except = vec!["sensor-x".to_owned()];
    let mut mine = sink("mine", "mine.wasm", &["other"]);
    mine.writes = Some(vec!["moved".to_owned()]);
    let all = [
        pool,
        mine,
        sink("filter", "filter-map", &["raw"]),
        sink("team", "http-forward", &["*"]),
    ];
    let check = |plugin: &str, streams: &[&str], expected: Option<&str>| {
        let found = no_state(&sink("new", plugin, streams), &all);
        match (found, expected) {
            (None, None) => {}
            (Some(found), Some(part)) if found.contains(part) => {}
            (found, _) => panic!("{plugin} {streams:?}: {found:?}"),
        }
    };
    check("http-forward", &["orders"], None);
    check("http-forward", &["sens*", "orders"], None);
    check("webhook", &["sensor-1"], None);
    check("webhook", &["sensor-x"], Some("no sink writes"));
    check("http-forward", &["elsewhere"], Some("no sink writes"));
    check("http-forward", &["raw"], Some("\"filter\""));
    check("http-forward", &["orders", "moved"], Some("\"mine\""));
    check("http-forward", &["*"], Some("\"mine\""));
    check("pool", &["orders"], Some("writes to the data pool itself"));
    check(
        "filter-map",
        &["orders"],
        Some("writes to the data pool itself"),
    );
}

#[test]
fn a_sink_has_what_matches_both_patterns() {
    for (one, other, expected) in [
        ("a*", "ab*", true),
        ("ab*", "a*", true),
        ("*", "x", true),
        ("a", "a", true),
        ("a", "b", false),
        ("a*", "b*", false),
        ("ab*", "a", false),
        ("*", "_x", false),
        ("*", "_x*", false),
        ("_x*", "_xy", true),
    ] {
        assert_eq!(
            (meet(one, other), meet(other, one)),
            (expected, expected),
            "{one} {other}"
        );
    }
}
