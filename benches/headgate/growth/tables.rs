//! The configurations of the points, and the keys that they have.
//!
//! Called by the curves whose points are made of requests.
//!
//! **Invariant:** key number n sends to stream number n where there are as many streams, else to the only one.

use std::fmt::Write as _;

/// The stream of points with one stream.
const STREAM: &str = "growth";

/// The secret of a key.
pub(super) fn secret(number: u64) -> String {
    format!("ik_bench_growth_{number:08}_0123456789")
}

/// One stream, one connector, so many keys.
pub(super) fn keys(count: u64) -> String {
    stream(STREAM)
        + &connector(
            "bench",
            (0..count).map(|number| (number, STREAM.to_owned())),
        )
}

/// So many streams, each with a key of one connector.
pub(super) fn streams(count: u64) -> String {
    let name = |number| format!("{STREAM}-{number}");
    let streams: String = (0..count).map(|number| stream(&name(number))).collect();
    streams + &connector("bench", (0..count).map(|number| (number, name(number))))
}

/// One stream, and so many connectors, each with a key.
pub(super) fn connectors(count: u64) -> String {
    let connectors: String = (0..count)
        .map(|number| {
            let key = (number, STREAM.to_owned());
            connector(&format!("bench-{number}"), [key])
        })
        .collect();
    stream(STREAM) + &connectors
}

/// One key, and so many sinks: the default one, and others that each write the items into a stream of their own.
pub(super) fn sinks(count: u64) -> String {
    let mut tables = keys(1);
    tables.push_str("[[sinks]]\nname = \"pool\"\nplugin = \"pool\"\nstreams = [\"*\"]\n");
    for number in 1..count {
        let _ = write!(
            tables,
            "[[sinks]]\nname = \"copy-{number}\"\nplugin = \"filter-map\"\nstreams = [\"{STREAM}\"]\n\
             config = {{ rules = [{{ stream = \"copy-{number}\" }}] }}\n"
        );
    }
    tables
}

fn stream(name: &str) -> String {
    format!("[[streams]]\nname = \"{name}\"\n")
}

fn connector(name: &str, keys: impl IntoIterator<Item = (u64, String)>) -> String {
    let keys: Vec<String> = keys
        .into_iter()
        .map(|(number, stream)| {
            format!(
                "{{ name = \"key-{number}\", stream = \"{stream}\", secret = \"{}\" }}",
                secret(number)
            )
        })
        .collect();
    format!(
        "[[connectors]]\nname = \"{name}\"\nkind = \"ingest\"\nkeys = [{}]\n",
        keys.join(",\n")
    )
}
