//! Unit tests of `settings/writes.rs`.

use serde_json::json;

use super::*;

fn sink(plugin: &str, writes: Option<&[&str]>) -> Sink {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Sink {
        plugin: plugin.to_owned(),
        streams: vec!["orders".to_owned()],
        writes: writes.map(owned),
        ..Sink::default()
    }
}

#[test]
fn what_is_not_said_is_what_a_plugin_is_made_for() {
    let writes = sink("pool", None).writes();
    assert!(writes.given() && writes.lists("orders") == Listed::No);
    assert_eq!(writes.to_string(), "the streams that it takes");
    let filter = Sink {
        config: json!({"rules": [{"stream": "a"}, {"drop": true}, {"stream": "b*"}]}),
        ..sink("filter-map", None)
    };
    let writes = filter.writes();
    assert!(writes.given());
    assert_eq!(writes.lists("a"), Listed::ByName);
    for stream in ["orders", "b1"] {
        assert_eq!(writes.lists(stream), Listed::No);
    }
    assert_eq!(writes.to_string(), "the streams that it takes, a, b*");
    for plugin in ["http-forward", "postgres", "mine.wasm"] {
        let writes = sink(plugin, None).writes();
        assert!(writes.is_empty() && !writes.given(), "{plugin}");
        assert_eq!(writes.to_string(), "nothing");
    }
    assert!(sink("mine.wasm", None).writes().is_unsaid());
    assert!(!sink("mine.wasm", Some(&[])).writes().is_unsaid());
    assert!(!sink("pool", None).writes().is_unsaid());
}

#[test]
fn what_a_sink_makes_is_its_own() {
    let named = |name: &str, makes: &[&str], sink: Sink| Sink {
        name: name.to_owned(),
        makes: makes.iter().map(|made| (*made).to_owned()).collect(),
        ..sink
    };
    let maker = named("maker", &["totals"], sink("mine.wasm", Some(&[])));
    let filter = Sink {
        config: json!({"rules": [{"stream": "totals"}]}),
        ..sink("filter-map", None)
    };
    for (other, of_maker, of_other) in [
        (
            named("b", &["totals"], sink("mine.wasm", None)),
            Some(("makes", "\"b\" writes")),
            Some(("makes", "\"maker\" writes")),
        ),
        (
            named("b", &[], sink("pool", Some(&["totals"]))),
            Some(("makes", "\"b\" writes")),
            Some(("writes", "\"maker\" makes")),
        ),
        (
            named("b", &[], filter),
            Some(("makes", "\"b\" writes")),
            Some(("config", "\"maker\" makes")),
        ),
        // A pattern allows streams that nobody has thought of.
        (named("b", &[], sink("pool", Some(&["*"]))), None, None),
        (named("b", &["sums"], sink("mine.wasm", None)), None, None),
        // It is the sink itself, as it was before a change.
        (named("maker", &["totals"], sink("pool", None)), None, None),
    ] {
        let expected = |of: Option<(&'static str, &str)>| {
            let (setting, does) = of?;
            let message = format!(
                "names the stream \"totals\", which the sink {does}, and what a sink makes is its own; name another stream"
            );
            Some((setting, message))
        };
        assert_eq!(
            maker.conflict_with([&other]),
            expected(of_maker),
            "{other:?}"
        );
        assert_eq!(
            other.conflict_with([&maker]),
            expected(of_other),
            "{other:?}"
        );
    }
}

#[test]
fn what_is_said_is_all_that_counts() {
    let writes = sink("pool", Some(&["orders", "v-*"])).writes();
    assert!(!writes.given() && !writes.is_empty());
    assert_eq!(writes.to_string(), "orders, v-*");
    assert_eq!(writes.lists("orders"), Listed::ByName);
    for stream in ["v-", "v-1"] {
        assert_eq!(writes.lists(stream), Listed::ByPattern);
    }
    for stream in ["orders2", "v", "w-1", ""] {
        assert_eq!(writes.lists(stream), Listed::No);
    }
    assert_eq!(
        sink("pool", Some(&["*"])).writes().lists("x"),
        Listed::ByPattern
    );
    assert!(sink("pool", Some(&[])).writes().is_empty());
}
