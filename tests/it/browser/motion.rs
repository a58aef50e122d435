//! Hours of changes in fast motion: a screen that has shown more is no larger than one that has shown less.
//!
//! `HEADGATE_SCREEN_CHANGES=216000` sends as many as an hour of 60 a second has; `--nocapture` shows the figures.

use std::time::Instant;

use serde_json::{Value, json};

use super::daemon::{Daemon, READ_KEY};
use super::driver::Window;
use super::on_air::TEMPLATES;
use crate::faults::number;

/// Changes of a round: one of each item, so that none is joined to a newer one on its way.
const ITEMS: usize = 180;
/// Requests that they come in. The last has what every template shows.
const REQUESTS: usize = 3;
const CHANGES: usize = 1_800;
/// How often pages are measured. The first time they have built what they will need.
const SAMPLES: usize = 10;
/// A number with so many digits is in no other text.
const FIRST: usize = 1_000_000;
/// What came and went is the collector's, but not to the byte; and every script that the test runs in a page leaves some
/// 70 bytes there.
const SLACK_BYTES: f64 = 1e6;
const SLACK_NODES: f64 = 150.0;

/// Waits in the page until a text is in it.
const WAIT: &str = "const wanted = arguments[0]; \
     return new Promise((resolve) => { \
       const look = () => document.body.textContent.includes(wanted) ? resolve(true) : requestAnimationFrame(look); \
       look(); \
     })";

/// Bytes of the heap and nodes, of what is left after a collection.
fn size(window: &Window) -> [f64; 2] {
    // What one collection finishes the next one frees.
    for _ in 0..2 {
        window.devtools("HeapProfiler.collectGarbage", &json!({}));
    }
    let metrics = window.devtools("Performance.getMetrics", &json!({}));
    let metrics = metrics["metrics"].as_array().expect("a list").clone();
    ["JSHeapUsedSize", "Nodes"].map(|name| {
        let found = metrics.iter().find(|metric| metric["name"] == name);
        found
            .and_then(|metric| metric["value"].as_f64())
            .expect(name)
    })
}

/// Sends one change of each item; every number of round `round` is in it.
fn send(daemon: &Daemon, round: usize) {
    let number = FIRST + round;
    let items: Vec<Value> = (0..ITEMS)
        .map(|item| {
            json!({
                "id": format!("m{item:02}"),
                "home": {"name": format!("Reds {item}"), "score": number},
                "away": {"name": "Blues", "score": round % 7},
                "status": if round.is_multiple_of(2) { "1st half" } else { "2nd half" },
            })
        })
        .collect();
    for part in items.rchunks(ITEMS / REQUESTS) {
        daemon.post("orders", &json!(part).to_string());
    }
}

#[test]
fn a_screen_does_not_grow_with_what_it_has_shown() {
    let Some(first) = Window::open("a_screen_does_not_grow_with_what_it_has_shown") else {
        return;
    };
    let changes = number("HEADGATE_SCREEN_CHANGES")
        .map_or(CHANGES, |changes| usize::try_from(changes).expect("small"));
    let rounds = changes.div_ceil(ITEMS).max(SAMPLES);
    let daemon = Daemon::start(&["orders"]);
    let others: Vec<Window> = (1..TEMPLATES.len()).map(|_| first.another()).collect();
    let windows: Vec<(&str, &Window)> = TEMPLATES
        .into_iter()
        .zip(std::iter::once(&first).chain(&others))
        .collect();
    for (template, window) in &windows {
        window.devtools("Performance.enable", &json!({}));
        // Small pictures are painted sooner.
        window.resize(640, 360);
        let origin = daemon.origin();
        window.go(&format!(
            "{origin}/render/orders?template={template}#{READ_KEY}"
        ));
    }
    let begun = Instant::now();
    let mut sizes: Vec<Vec<[f64; 2]>> = vec![Vec::new(); windows.len()];
    for round in 1..=rounds {
        send(&daemon, round);
        for (_, window) in &windows {
            window.run(WAIT, &json!([(FIRST + round).to_string()]));
        }
        if round % (rounds / SAMPLES) == 0 {
            for ((_, window), sizes) in windows.iter().zip(&mut sizes) {
                sizes.push(size(window));
            }
        }
    }
    let seconds = begun.elapsed().as_secs();
    println!("{} changes in {seconds} s", rounds * ITEMS);
    for ((template, _), sizes) in windows.iter().zip(&sizes) {
        let of = |at: usize| -> Vec<f64> { sizes.iter().map(|size| size[at]).collect() };
        let [bytes, nodes] = [of(0), of(1)];
        let megabytes: Vec<String> = bytes
            .iter()
            .map(|bytes| format!("{:.2}", bytes / 1e6))
            .collect();
        println!(
            "{template}: heap {} MB, nodes {nodes:?}",
            megabytes.join(" ")
        );
        let grown = |sizes: &[f64]| sizes[sizes.len() - 1] - sizes[0];
        assert!(grown(&bytes) < SLACK_BYTES, "{template}: {bytes:?}");
        assert!(grown(&nodes) < SLACK_NODES, "{template}: {nodes:?}");
    }
}
