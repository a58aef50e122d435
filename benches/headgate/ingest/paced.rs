//! What each request writes to disk when they arrive one by one: 200 a second on one connection.
//!
//! Called by the bench's main file, before the rounds.
//!
//! **Invariant:** everything that these requests cause to be written is counted, as the daemon, which is one for them alone,
//! has ended: then it has copied its logs back into its files.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::payload::{Keys, Requests, Revisions, Shape};
use super::rounds::{self, Target};
use super::server::Home;
use crate::http::Client;
use crate::{Result, disk};

/// Requests in a second.
pub(crate) const PER_SECOND: u32 = 200;

/// Seconds of them that do not count.
const WARM_UP: Duration = Duration::from_secs(1);

/// What came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Paced {
    /// Requests that were counted; each was answered 202.
    pub(crate) accepted: u64,
    /// In a second, as many as there were.
    pub(crate) per_second: f64,
    /// Bytes that the daemon had written to disk for them, if that can be read.
    pub(crate) written_bytes: Option<u64>,
}

impl Paced {
    /// For each request.
    pub(crate) fn written_each(&self) -> Option<f64> {
        let written = self.written_bytes?;
        Some(written as f64 / self.accepted as f64)
    }
}

/// Sends to a daemon with its data in `folder` for `time`.
pub(crate) fn measure(folder: &Path, time: Duration, revisions: &Revisions) -> Result<Paced> {
    let home = Home::create(folder.join("paced"))?;
    send_and_stop(&home, time, revisions).map_err(|error| home.explain(error))
}

fn send_and_stop(home: &Home, time: Duration, revisions: &Revisions) -> Result<Paced> {
    let daemon = home.start()?;
    let data_dir = home.data_dir();
    let target = Target {
        daemon: &daemon,
        data_dir: &data_dir,
    };
    let mut client = Client::connect(daemon.server.service)?;
    let shape = Shape::Small;
    let mut requests = Requests::new(shape, Keys::of(shape, 0), revisions);
    send(&mut client, &mut requests, WARM_UP)?;
    rounds::settle(target, "paced-warm")?;
    disk::flush(&data_dir)?;
    let before = daemon.server.process.written_bytes().ok();
    let begun = Instant::now();
    let accepted = send(&mut client, &mut requests, time)?;
    let per_second = accepted as f64 / begun.elapsed().as_secs_f64();
    rounds::settle(target, "paced")?;
    let written = daemon.stop_written()?.zip(before);
    Ok(Paced {
        accepted,
        per_second,
        written_bytes: written.map(|(after, before)| after.saturating_sub(before)),
    })
}

/// Sends one after the other, each at its time or when the one before is answered; returns how many there were.
fn send(client: &mut Client, requests: &mut Requests, time: Duration) -> Result<u64> {
    let (begun, mut next, mut sent) = (Instant::now(), Instant::now(), 0);
    while begun.elapsed() < time {
        let (status, body) = client.exchange(requests.next())?;
        if status != 202 {
            let body = String::from_utf8_lossy(body);
            return Err(
                format!("a request of {PER_SECOND}/s was answered {status}: {body}").into(),
            );
        }
        sent += 1;
        // What is late stays late: none is sent sooner after another.
        next = Instant::now().max(next + Duration::from_secs(1) / PER_SECOND);
        sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(sent)
}
