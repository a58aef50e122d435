//! Unit tests of `bench/nodes/report.rs`.

use std::collections::BTreeMap;

use super::super::takeover::Takeover;
use super::*;
use crate::bench::push::Push;
use crate::bench::times::Times;

fn measured(nodes: usize, rate: f64) -> MeasuredNodes {
    let times = Times {
        count: 9,
        p50_ms: 1.0,
        p99_ms: 2.0,
        ..Times::default()
    };
    MeasuredNodes {
        nodes,
        requests_per_second: rate,
        items_per_second: rate * 10.0,
        accepted: times,
        refused: BTreeMap::from([(503, 2)]),
        broken: 1,
        cpu_micros_per_request: None,
        settled_items_per_second: rate,
        alone: Push {
            accepted: times,
            after_202: times,
            after_request: times,
            missing: nodes - 1,
        },
        takeover: (nodes > 1).then_some(Takeover {
            sinks_ms: 1_500.0,
            renderer_ms: 1_700.0,
        }),
    }
}

async fn report() -> NodesReport {
    let load = BenchLoad {
        connections: 64,
        item_bytes: 200,
        items: 10,
        time: Duration::from_secs(10),
    };
    let folder = tempfile::tempdir().expect("a folder");
    NodesReport::begin(load, folder.path(), Some(("local", "it can be lost"))).await
}

#[tokio::test]
async fn both_columns_and_their_ratio_are_shown() {
    let mut report = report().await;
    report.embedded = Some(measured(1, 4_000.0));
    report.cluster = Some(measured(2, 3_000.0));
    report.conclude();
    let text = report.to_string();
    let line = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let cells = line.unwrap_or_else(|| panic!("{name}: {text}"));
        cells.split_ascii_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(line("requests/s"), ["4000", "3000", "0.75"]);
    assert_eq!(line("items/s "), ["40000", "30000", "0.75"]);
    assert_eq!(line("answers other than 202"), ["3", "3", "1.00"]);
    assert_eq!(line("node lost: sinks run again after, ms"), ["1500"]);
    assert!(!text.contains("CPU of all nodes"), "{text}");
    for note in ["it can be lost", "was lost once", "within 10 s: 1"] {
        assert!(text.contains(note), "{note}: {text}");
    }
    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!(json["durability"], "local");
    assert_eq!(json["cluster"]["takeover"]["renderer_ms"], 1_700.0);
}

#[tokio::test]
async fn one_daemon_has_one_column() {
    let mut report = report().await;
    report.embedded = Some(measured(1, 4_000.0));
    report.conclude();
    let text = report.to_string();
    assert!(!text.contains("NODES") && !text.contains("RATIO"), "{text}");
    assert!(!text.contains("node lost"), "{text}");
}
