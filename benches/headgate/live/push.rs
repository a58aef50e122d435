//! From a request to the screen: the time to the 202, the time to each renderer, and what a delivery costs.
//!
//! Called by the bench's main file with all servers running; those that are not measured do nothing. `growth` asks for
//! single rounds.
//!
//! **Invariant:** in each round every case runs once on every server, in turn, and the CPU time of a delivery is
//! what a round with renderers took more than the round without, on the same server and with the same requests.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;

use super::item::{STREAM, Versions};
use super::renderers::{Deliveries, Renderers, Wanted};
use super::sender::{self, Answers, Failures};
use super::server::{Server, Transport};
use super::usage::{Meter, Used};
use super::{Options, Program};
use crate::Result;
use crate::step;
use crate::times::Times;

/// Requests a second: below the default `max_rate` of 60, so that each is a message of its own.
pub(crate) const PER_SECOND: f64 = 50.0;

/// Connections that send them.
const SENDERS: usize = 4;

/// Keys that they name in turn: not many, as each renderer is first sent all of them.
const KEYS: u64 = 100;

/// Requests at the beginning of a round that do not count.
const WARM_UP: usize = 10;

/// Rest between the last snapshot and the first request.
const REST: Duration = Duration::from_millis(100);

/// No delivery for this long: what is still missing was left out.
const QUIET: Duration = Duration::from_millis(500);

/// Renderers of the largest case.
pub(crate) const RENDERERS_MAX: usize = 1_000;

/// Renderers of the cases; the first has none and is what the CPU time of the others is compared with.
const CASES: [(Transport, usize); 5] = [
    (Transport::Sse, 0),
    (Transport::Sse, 1),
    (Transport::Sse, 100),
    (Transport::Sse, RENDERERS_MAX),
    (Transport::WebSocket, 100),
];

/// One case on one server.
#[derive(Debug, Serialize)]
pub(crate) struct PushCase {
    /// The server's title.
    pub(crate) server: &'static str,
    #[serde(skip)]
    pub(crate) program: Program,
    /// How the renderers are connected.
    pub(crate) transport: Transport,
    /// How many there are.
    pub(crate) renderers: usize,
    /// Its rounds.
    pub(crate) rounds: Vec<PushRound>,
}

/// What one round showed.
#[derive(Debug, Serialize)]
pub(crate) struct PushRound {
    /// Request to 202.
    pub(crate) accepted_ms: Times,
    /// Request to each renderer.
    pub(crate) pushed_ms: Times,
    /// Request to the last renderer.
    pub(crate) last_at: Times,
    /// Values that the renderers should have been sent.
    pub(crate) expected: u64,
    /// Values that they were sent.
    pub(crate) delivered: u64,
    /// Messages that these came in.
    pub(crate) messages: u64,
    /// Server CPU time of the whole round, µs.
    pub(crate) cpu_micros: f64,
    /// Of each delivery, µs; without renderers of each request.
    pub(crate) cpu_micros_each: f64,
    /// CPU time of senders and renderers in it, µs.
    pub(crate) own_cpu_micros: f64,
    /// Share of all cores that server, senders and renderers took.
    pub(crate) busy: f64,
    /// Share of all cores that everything else took.
    pub(crate) others: f64,
    /// Requests that were not accepted.
    pub(crate) failures: Failures,
    /// Requests that waited for the answer before theirs.
    pub(crate) late: u64,
}

/// All cases on all servers.
pub(crate) fn measure(options: &Options, servers: &[Server]) -> Result<Vec<PushCase>> {
    let mut cases: Vec<PushCase> = servers
        .iter()
        .flat_map(|server| {
            CASES.map(|(transport, renderers)| PushCase {
                server: server.title,
                program: server.program,
                transport,
                renderers,
                rounds: Vec::new(),
            })
        })
        .collect();
    for number in 1..=options.rounds.count {
        step(&format!("push: round {number} of {}", options.rounds.count));
        for case in 0..CASES.len() {
            for (place, server) in servers.iter().enumerate() {
                let first = place * CASES.len();
                // The case without renderers comes first, so its round of this number is there.
                let alone = (case > 0).then(|| cases[first].rounds[number - 1].cpu_micros);
                let time = options.rounds.window.time;
                let round = round(server, CASES[case], PER_SECOND, time, alone)
                    .map_err(|error| server.explain(error))?;
                cases[first + case].rounds.push(round);
            }
        }
    }
    Ok(cases)
}

/// One case at one rate; `alone_micros` is the server's CPU time for the same requests without renderers.
pub(crate) fn round(
    server: &Server,
    (transport, count): (Transport, usize),
    per_second: f64,
    duration: Duration,
    alone_micros: Option<f64>,
) -> Result<PushRound> {
    let requests = WARM_UP + (per_second * duration.as_secs_f64()).ceil() as usize;
    let versions = Arc::new(Versions::new(requests, KEYS, WARM_UP));
    let wanted = Wanted {
        transport,
        count,
        asks: |_| STREAM.to_owned(),
    };
    let renderers = Renderers::connect(server, &wanted, Some(Arc::clone(&versions)))?;
    sleep(REST);
    let meter = Meter::start(server)?;
    let answers = sender::send(server, &versions, per_second, SENDERS)?;
    renderers.settle(answers.accepted * count as u64, QUIET);
    let used = meter.read()?;
    let deliveries = renderers.finish()?;
    Ok(put_together(answers, deliveries, used, count, alone_micros))
}

fn put_together(
    answers: Answers,
    deliveries: Deliveries,
    used: Used,
    renderers: usize,
    alone_micros: Option<f64>,
) -> PushRound {
    let each = match alone_micros {
        Some(alone) => (used.cpu_micros - alone) / deliveries.versions as f64,
        None => used.cpu_micros / answers.accepted as f64,
    };
    let last = deliveries.last_micros.iter().copied();
    PushRound {
        accepted_ms: Times::from_micros(answers.micros),
        pushed_ms: Times::from_micros(deliveries.micros),
        last_at: Times::from_micros(last.filter(|&micros| micros > 0.0)),
        expected: answers.accepted * renderers as u64,
        delivered: deliveries.versions,
        messages: deliveries.messages,
        cpu_micros: used.cpu_micros,
        cpu_micros_each: each,
        own_cpu_micros: used.own_cpu_micros,
        busy: used.busy,
        others: used.others,
        failures: answers.failures,
        late: answers.late,
    }
}
