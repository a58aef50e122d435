//! What it costs that each of many renderers wants an item of its own.
//!
//! Called by the bench's main file. A filter for a key should cost what a stream with that item alone would: the same
//! versions go to as many renderers, on the one side of streams with one item each, on the other of one stream that has
//! them all. A condition has to look at every change; here many renderers share a few conditions.
//!
//! **Invariant:** each case brings each version to exactly those renderers that want it, and the first two bring the same
//! versions to as many renderers, over streams whose names are of the same length.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;

use super::Options;
use super::daemon::{self, Durability, INGEST_KEY};
use super::intake::SENDERS;
use super::item::{STREAM, Versions};
use super::renderers::{Renderers, Wanted};
use super::sender::{self, Failures};
use super::server::{Server, Transport};
use super::usage::Meter;
use crate::aim::Aim;
use crate::table::Table;
use crate::times::{Times, median, median_of};
use crate::{Result, step};

/// Changes a second.
const PER_SECOND: f64 = 100.0;

/// Requests a second until every item is there.
const FILL_PER_SECOND: f64 = 2_000.0;

/// Requests at the beginning of a round that do not count for times.
const WARM_UP: usize = 20;

/// Rest between the last snapshot and the first request.
const REST: Duration = Duration::from_secs(1);

/// No delivery for this long: what is still missing was left out.
const QUIET: Duration = Duration::from_millis(500);

/// Renderers with conditions: each begins with a look at every item.
const WITH_CONDITIONS: usize = 1_000;

/// Conditions that they share, and the keys of which each lets one in five pass.
const CONDITIONS: usize = 200;
const KEYS_OF_CONDITION: usize = 50;

/// CPU time and bytes of filters for keys to those of streams with one item each.
const CPU_RATIO_MAX: f64 = 1.5;
const BYTES_RATIO_MAX: f64 = 1.1;

/// Heartbeats of so many renderers would be more than what is measured.
const LIVE: &str = "heartbeat_seconds = 300\n";

/// One way to want items.
#[derive(Debug, Serialize)]
pub(crate) struct FilteredCase {
    /// What the table calls it.
    pub(crate) title: &'static str,
    /// How many renderers there are.
    renderers: usize,
    #[serde(skip)]
    asks: fn(usize) -> String,
    /// How many renderers want the item of a key.
    #[serde(skip)]
    want: fn(u64, usize) -> usize,
    /// Its rounds.
    pub(crate) rounds: Vec<FilteredRound>,
}

/// What one round showed.
#[derive(Debug, Serialize)]
pub(crate) struct FilteredRound {
    /// Requests that were accepted.
    changes: u64,
    /// Request to each renderer.
    pushed_ms: Times,
    /// Values that the renderers should have been sent.
    pub(crate) expected: u64,
    /// Values that they were sent.
    pub(crate) delivered: u64,
    /// Bytes that all of them were sent, for each delivery.
    bytes_each: f64,
    /// Server CPU time for each change, µs, from its request to the renderers.
    cpu_micros_each: f64,
    /// Share of all cores that everything else took.
    pub(crate) others: f64,
    /// Requests that were not accepted.
    pub(crate) failures: Failures,
}

/// The stream with the item of this key alone.
fn own_stream(key: usize) -> String {
    format!("s{key:05}")
}

fn own_key(key: u64) -> String {
    format!("ik_live_bench_{key:08}_0123456789")
}

/// The condition of a renderer: keys that begin with five of their six digits.
fn condition(number: usize) -> String {
    let first = number % CONDITIONS * KEYS_OF_CONDITION / 10;
    format!("{STREAM}&where=order.id%5E{first:05}")
}

/// How many of so many renderers have the condition of a key.
fn of_condition(key: u64, renderers: usize) -> usize {
    let (condition, place) = (
        key as usize / KEYS_OF_CONDITION,
        key as usize % KEYS_OF_CONDITION,
    );
    if place >= 10 || condition >= CONDITIONS {
        return 0;
    }
    (condition..renderers).step_by(CONDITIONS).count()
}

/// All cases, in turn.
pub(crate) fn measure(options: &Options, folder: &Path) -> Result<Vec<FilteredCase>> {
    let renderers = options.connections;
    let items = renderers as u64;
    step(&format!("filtered: {renderers} items"));
    let start = |name, keys: &[(String, String)]| {
        daemon::start_with(folder, name, Durability::Fsync, LIVE, keys)
    };
    let streams = (0..renderers).map(|number| (own_stream(number), own_key(number as u64)));
    let mut own = start("filtered-own", &streams.collect::<Vec<_>>())?;
    own.ingest_key = own_key;
    let one = start(
        "filtered-one",
        &[(STREAM.to_owned(), INGEST_KEY.to_owned())],
    )?;
    for server in [&own, &one] {
        server.warm_up()?;
        let versions = Versions::new(renderers, items, 0);
        sender::send(server, &versions, FILL_PER_SECOND, SENDERS)?;
    }
    let case = |title, renderers, asks, want| FilteredCase {
        title,
        renderers,
        asks,
        want,
        rounds: Vec::new(),
    };
    let keyed = |number| format!("{STREAM}&key={number:06}");
    let with_conditions = renderers.min(WITH_CONDITIONS);
    let mut cases = vec![
        case("a stream each", renderers, own_stream, |_, _| 1),
        case("a key each", renderers, keyed, |_, _| 1),
        case("200 conditions", with_conditions, condition, of_condition),
    ];
    for number in 1..=options.rounds.count {
        step(&format!(
            "filtered: round {number} of {}",
            options.rounds.count
        ));
        for (case, server) in cases.iter_mut().zip([&own, &one, &one]) {
            let round = round(server, case, items, options.rounds.window.time);
            case.rounds
                .push(round.map_err(|error| server.explain(error))?);
        }
    }
    Ok(cases)
}

fn round(
    server: &Server,
    case: &FilteredCase,
    items: u64,
    duration: Duration,
) -> Result<FilteredRound> {
    let requests = WARM_UP + (PER_SECOND * duration.as_secs_f64()).ceil() as usize;
    let versions = Arc::new(Versions::new(requests, items, WARM_UP));
    let wanted = Wanted {
        transport: Transport::Sse,
        count: case.renderers,
        asks: case.asks,
    };
    let renderers = Renderers::connect(server, &wanted, Some(Arc::clone(&versions)))?;
    sleep(REST);
    let meter = Meter::start(server)?;
    let answers = sender::send(server, &versions, PER_SECOND, SENDERS)?;
    let want = |index| (case.want)(versions.key(index), case.renderers) as u64;
    let expected = (0..versions.count()).map(want).sum();
    renderers.settle(expected, QUIET);
    let used = meter.read()?;
    let deliveries = renderers.finish()?;
    Ok(FilteredRound {
        changes: answers.accepted,
        pushed_ms: Times::from_micros(deliveries.micros),
        expected,
        delivered: deliveries.versions,
        bytes_each: deliveries.bytes as f64 / deliveries.versions as f64,
        cpu_micros_each: used.cpu_micros / answers.accepted as f64,
        others: used.others,
        failures: answers.failures,
    })
}

/// Prints them, if there are any.
pub(crate) fn print(cases: &[FilteredCase]) {
    let Some(first) = cases.first() else { return };
    println!(
        "\n{} items, {PER_SECOND} requests/s change one each, times in ms; medians of {} rounds",
        first.renderers,
        first.rounds.len()
    );
    let mut table = Table::new(&[
        "each wants",
        "renderers",
        "renderer p50",
        "p99",
        "deliveries/change",
        "bytes/delivery",
        "CPU us/change",
    ]);
    for case in cases {
        let of = |value: fn(&FilteredRound) -> f64| median_of(&case.rounds, value);
        let changes = |round: &FilteredRound| round.delivered as f64 / round.changes as f64;
        table.row([
            case.title.to_owned(),
            case.renderers.to_string(),
            format!("{:.2}", of(|round| round.pushed_ms.p50)),
            format!("{:.2}", of(|round| round.pushed_ms.p99)),
            format!("{:.1}", of(changes)),
            format!("{:.0}", of(|round| round.bytes_each)),
            format!("{:.0}", of(|round| round.cpu_micros_each)),
        ]);
    }
    table.print();
}

/// A filter for a key beside a stream with that item alone.
pub(crate) fn aims(cases: &[FilteredCase]) -> Vec<Aim> {
    let [own, keyed, ..] = cases else {
        return Vec::new();
    };
    let ratio = |value: fn(&FilteredRound) -> f64| {
        let pairs = keyed.rounds.iter().zip(&own.rounds);
        let ratios: Vec<f64> = pairs
            .map(|(keyed, own)| value(keyed) / value(own))
            .collect();
        median(&ratios)
    };
    let count = own.renderers;
    let cpu = ratio(|round| round.cpu_micros_each);
    let bytes = ratio(|round| round.bytes_each);
    let rounds = || own.rounds.iter().chain(&keyed.rounds);
    [
        Aim::at_most(
            format!("CPU, {count} keys / streams"),
            cpu,
            CPU_RATIO_MAX,
            "",
        ),
        Aim::at_most(
            format!("bytes, {count} keys / streams"),
            bytes,
            BYTES_RATIO_MAX,
            "",
        ),
    ]
    .map(|aim| aim.unless(rounds().map(|round| &round.failures)))
    .into()
}
