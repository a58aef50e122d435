//! Unit tests of `routing_gaps.rs`.

use super::*;

fn sink(plugin: &str, streams: &[&str], except: &[&str]) -> Sink {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Sink {
        plugin: plugin.to_owned(),
        streams: owned(streams),
        except: owned(except),
        ..Sink::default()
    }
}

fn check(streams: &[&str], sinks: &[Sink], expected: &[&str]) {
    let inflows: Vec<Inflow> = streams
        .iter()
        .map(|stream| Inflow {
            stream: (*stream).to_owned(),
            connectors: match *stream {
                "orders" => vec!["shop".to_owned()],
                _ => Vec::new(),
            },
        })
        .collect();
    let sinks = sinks.iter().map(|sink| (sink, writes_pool(sink)));
    assert_eq!(gaps(&inflows, sinks), expected);
}

#[test]
fn streams_without_a_sink_or_a_pool_are_named() {
    let pool = || sink("pool", &["*"], &[]);
    let away = || sink("webhook", &["*"], &[]);
    check(&[], &[], &[]);
    check(&["orders", "b"], &[pool()], &[]);
    check(&["orders"], &[away(), pool()], &[]);
    check(
        &["orders"],
        &[away()],
        &[
            "no sink writes the stream orders to the data pool, so screens do not show it (the connector shop sends there)",
        ],
    );
    check(
        &["orders"],
        &[],
        &[
            "the stream orders reaches no sink: requests are accepted, but not delivered, not even to the data pool (the connector shop sends there); add it to `streams` of a sink",
        ],
    );
    check(
        &["a", "b c", "orders"],
        &[
            sink("pool", &["orders"], &[]),
            sink("postgres", &["a"], &[]),
        ],
        &[
            "the stream \"b c\" reaches no sink: requests are accepted, but not delivered, not even to the data pool; add it to `streams` of a sink",
            "no sink writes the stream a to the data pool, so screens do not show it",
        ],
    );
}

#[test]
fn who_may_write_the_pool_counts_as_who_does() {
    check(&["orders"], &[sink("filter-map", &["*"], &[])], &[]);
    let mine = writing(sink("mine.wasm", &["*"], &[]), &["elsewhere"]);
    check(&["orders"], std::slice::from_ref(&mine), &[]);
    let inflow = Inflow {
        stream: "a".to_owned(),
        ..Inflow::default()
    };
    assert_eq!(gaps(&[inflow], [(&mine, Some(false))]).len(), 1);
}

fn writing(sink: Sink, writes: &[&str]) -> Sink {
    let writes = writes.iter().map(|name| (*name).to_owned()).collect();
    Sink {
        writes: Some(writes),
        ..sink
    }
}

#[test]
fn who_may_not_write_a_stream_does_not() {
    let unseen = &["no sink writes the stream b to the data pool, so screens do not show it"];
    let pool = || sink("pool", &["*"], &[]);
    check(&["orders", "b"], &[writing(pool(), &["ord*"])], unseen);
    check(&["b"], &[writing(pool(), &[])], unseen);
    check(&["b"], &[writing(pool(), &["b"])], &[]);
    let filter = writing(sink("filter-map", &["*"], &[]), &["elsewhere"]);
    check(&["b"], &[filter], &[]);
    check(&["b"], &[sink("mine.wasm", &["*"], &[])], unseen);
    check(
        &["b"],
        &[writing(sink("mine.wasm", &["*"], &[]), &[])],
        unseen,
    );
}

#[test]
fn exceptions_count() {
    let sinks = [
        sink("pool", &["*"], &["ord*"]),
        sink("filter-map", &["orders"], &[]),
    ];
    check(&["orders", "b"], &sinks, &[]);
    check(
        &["ordinal"],
        &sinks,
        &[
            "the stream ordinal reaches no sink: requests are accepted, but not delivered, not even to the data pool; add it to `streams` of a sink",
        ],
    );
}

#[test]
fn many_streams_are_one_sentence() {
    let names: Vec<String> = (0..5_000).map(|number| format!("s{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    check(
        &names,
        &[sink("influx", &["*"], &[])],
        &[
            "no sink writes the streams s0, s1, s2, s3, s4 and 4995 more to the data pool, so screens do not show them",
        ],
    );
}
