//! What it costs that many programs poll a feed of a stream that changes all the time.
//!
//! Called by the bench's main file.
//!
//! **Invariant:** one daemon gets the same requests in every round, without and with pollers in turn. Open loop: a poll
//! is due whether or not the one before it was answered in time.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::Options;
use super::daemon::{self, Durability, READ_KEYS};
use super::intake::{KEYS, PER_SECOND, SENDERS, WARM_UP};
use super::item::{STREAM, Versions};
use super::sender::{self, Failures};
use super::server::Server;
use super::usage::Meter;
use crate::http::Client;
use crate::times::Times;
use crate::{Result, step};

/// Polls a second.
pub(crate) const POLLS_PER_SECOND: u32 = 500;

/// Rows of the feed.
pub(crate) const ROWS: usize = 100;

/// Connections that poll.
const POLLERS: u32 = 10;

/// The same requests without and with pollers.
#[derive(Debug, Serialize)]
pub(crate) struct Polls {
    /// Rounds without them.
    pub(crate) without: Vec<PollRound>,
    /// Rounds with them, each after the one without.
    pub(crate) with: Vec<PollRound>,
}

/// What one round showed.
#[derive(Debug, Serialize)]
pub(crate) struct PollRound {
    /// Request to 202.
    pub(crate) accepted_ms: Times,
    /// Poll to the whole feed.
    pub(crate) polled_ms: Times,
    /// Polls that were not answered with a feed.
    pub(crate) polls_failed: u64,
    /// CPU time of the server in a second, as a share of one core.
    pub(crate) server_core: f64,
    /// Share of all cores that other programs took.
    pub(crate) others: f64,
    /// Requests that were not accepted.
    pub(crate) failures: Failures,
}

/// Rounds without and with, in turn.
pub(crate) fn measure(options: &Options, folder: &Path) -> Result<Polls> {
    let server = daemon::start(folder, "polls", Durability::Fsync)?;
    let time = options.rounds.window.time;
    // All items are there before anything counts.
    round(
        &server,
        Duration::from_secs_f64(KEYS as f64 / PER_SECOND),
        false,
    )?;
    let mut polls = Polls {
        without: Vec::new(),
        with: Vec::new(),
    };
    for number in 1..=options.rounds.count {
        step(&format!(
            "polls: round {number} of {}",
            options.rounds.count
        ));
        polls.without.push(round(&server, time, false)?);
        polls.with.push(round(&server, time, true)?);
    }
    Ok(polls)
}

fn round(server: &Server, duration: Duration, polled: bool) -> Result<PollRound> {
    let requests = WARM_UP + (PER_SECOND * duration.as_secs_f64()).ceil() as usize;
    let versions = Versions::new(requests, KEYS, WARM_UP);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pollers: Vec<_> = (0..if polled { POLLERS } else { 0 })
            .map(|place| {
                scope.spawn({
                    let ended = &ended;
                    move || poll(server, place, ended)
                })
            })
            .collect();
        let (meter, begun) = (Meter::start(server)?, Instant::now());
        let answers = sender::send(server, &versions, PER_SECOND, SENDERS);
        let (used, seconds) = (meter.read()?, begun.elapsed().as_secs_f64());
        ended.store(true, Ordering::Relaxed);
        let answers = answers.map_err(|error| server.explain(error))?;
        let (mut micros, mut polls_failed) = (Vec::new(), 0);
        for poller in pollers {
            let (times, failed) = poller.join().map_err(|_| "a poller panicked")??;
            micros.extend(times);
            polls_failed += failed;
        }
        Ok(PollRound {
            accepted_ms: Times::from_micros(answers.micros),
            polled_ms: Times::from_micros(micros),
            polls_failed,
            server_core: used.cpu_micros / 1e6 / seconds,
            others: used.others,
            failures: answers.failures,
        })
    })
}

/// One poller: times of its polls in µs, and how many brought nothing.
fn poll(server: &Server, place: u32, ended: &AtomicBool) -> Result<(Vec<f64>, u64)> {
    let request = format!(
        "GET /feed/{STREAM}.json?limit={ROWS} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\n\r\n",
        READ_KEYS[0]
    );
    let interval = Duration::from_secs(1) / POLLS_PER_SECOND;
    let mut client = Client::connect(server.address)?;
    let (mut micros, mut failed) = (Vec::new(), 0);
    let mut due = Instant::now() + interval * place;
    while !ended.load(Ordering::Relaxed) {
        sleep(due.saturating_duration_since(Instant::now()));
        match client.exchange(request.as_bytes())? {
            (200, body) if body.starts_with(b"[{") => {
                micros.push(due.elapsed().as_secs_f64() * 1e6);
            }
            _ => failed += 1,
        }
        due += interval * POLLERS;
    }
    Ok((micros, failed))
}
