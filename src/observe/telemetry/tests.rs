//! Unit tests of `telemetry.rs`.

use super::*;
use settings::Otlp;

fn tracer() -> (Tracer, Exporter) {
    let settings = Otlp {
        endpoint: Some("http://127.0.0.1:4318".to_owned()),
        ..Otlp::default()
    };
    let metrics = Arc::new(Metrics::new());
    let (tracer, exporter) = Tracer::new(&settings, &metrics);
    (tracer, exporter.expect("a collector is named"))
}

fn nothing(_: &'static str) -> std::iter::Empty<&'static [u8]> {
    std::iter::empty()
}

#[test]
fn without_a_collector_there_is_no_trace() {
    let (tracer, exporter) = Tracer::new(&Otlp::default(), &Arc::new(Metrics::new()));
    assert!(exporter.is_none() && !tracer.is_on());
    assert!(tracer.begin(nothing).is_none());
    assert!(tracer.kept([Uuid::nil()].into_iter(), 1).is_empty());
}

#[test]
fn so_many_traces_are_kept_and_the_oldest_go_first() {
    let (tracer, _exporter) = tracer();
    let trace = tracer.begin(nothing).expect("all are followed");
    let id = |number: usize| Uuid::from_u128(number as u128);
    for number in 0..KEPT_MAX + 3 {
        tracer.keep(id(number), &trace);
    }
    tracer.forget(id(5));
    let found = tracer.kept((0..8).map(id), 10);
    let found: Vec<Uuid> = found.into_iter().map(|(found, _)| found).collect();
    assert_eq!(found, [id(3), id(4), id(6), id(7)]);
    assert_eq!(tracer.kept((0..8).map(id), 2).len(), 2);
}

#[test]
fn spans_beyond_the_room_are_counted_and_gone() {
    let (tracer, exporter) = tracer();
    let trace = tracer.begin(nothing).expect("all are followed");
    for _ in 0..SPANS_MAX + 7 {
        tracer.end(trace.open("x", SpanKind::Internal));
    }
    let inner = tracer.0.as_ref().expect("on");
    assert_eq!(inner.metrics.spans_dropped.get(), 7);
    drop(exporter);
    tracer.end(trace.open("x", SpanKind::Internal));
    assert_eq!(inner.metrics.spans_dropped.get(), 8);
}
