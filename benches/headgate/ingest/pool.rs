//! Looks into `pool.db` from outside while the daemon runs, and the probe that times one request's way into it.
//!
//! Called by the rounds and by the checks between them.
//!
//! **Invariant:** the file is opened read-only and every look is a transaction of its own, so the daemon's
//! checkpoints never wait for the bench longer than one look-up.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::payload::request_head;
use crate::Result;
use crate::http::Client;

/// The stream that probes and end marks go to.
pub(crate) const PROBE_STREAM: &str = "probe";

/// The ingest key of [`PROBE_STREAM`].
pub(crate) const PROBE_KEY: &str = "ik_bench_probe_0123456789abcdef";

/// Pause between two looks; what is seen is late by this and one wake-up at most.
const LOOK_PAUSE: Duration = Duration::from_micros(250);

/// Pause between two probes.
const PROBE_PAUSE: Duration = Duration::from_millis(15);

/// Longest wait for an item that was accepted.
const ITEM_WAIT: Duration = Duration::from_secs(120);

/// A read-only connection to the pool.
pub(crate) struct PoolReader(Connection);

impl PoolReader {
    /// Opens `pool.db` in `data_dir`.
    pub(crate) fn open(data_dir: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(data_dir.join("pool.db"), flags)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        Ok(Self(connection))
    }

    /// The fields of one item.
    pub(crate) fn fields(&self, stream: &str, key: &str) -> Result<Option<String>> {
        let mut statement = self
            .0
            .prepare_cached("SELECT fields FROM items WHERE stream = ?1 AND key = ?2")?;
        Ok(statement
            .query_row((stream, key), |row| row.get(0))
            .optional()?)
    }

    /// Items of one stream.
    pub(crate) fn count(&self, stream: &str) -> Result<u64> {
        let count: i64 = self.0.query_row(
            "SELECT count(*) FROM items WHERE stream = ?1",
            [stream],
            |row| row.get(0),
        )?;
        Ok(u64::try_from(count)?)
    }

    /// Waits until a probe's item is there; returns when it was seen.
    pub(crate) fn wait_for_probe(&self, key: &str) -> Result<Instant> {
        let begun = Instant::now();
        while self.fields(PROBE_STREAM, key)?.is_none() {
            if begun.elapsed() > ITEM_WAIT {
                return Err(format!(
                    "failed to find accepted item {key} in the pool within {ITEM_WAIT:?}"
                )
                .into());
            }
            sleep(LOOK_PAUSE);
        }
        Ok(Instant::now())
    }
}

/// Sends an item with a key of its own; tries again while the daemon answers 503.
pub(crate) fn send_mark(address: SocketAddr, key: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let mut client = Client::connect(address)?;
        match client.exchange(&probe_request(key))? {
            (202, _) => return Ok(()),
            (503, _) if begun.elapsed() < ITEM_WAIT => sleep(Duration::from_millis(10)),
            (status, body) => {
                let body = String::from_utf8_lossy(body);
                return Err(format!("the probe was answered {status}: {body}").into());
            }
        }
    }
}

/// Times of single requests, in µs.
#[derive(Debug, Default)]
pub(crate) struct ProbeTimes {
    /// From sending to the 202.
    pub(crate) accepted: Vec<f64>,
    /// From sending to the item in the pool.
    pub(crate) pooled: Vec<f64>,
    /// From one look to the next: the resolution of `pooled`.
    pub(crate) look_gaps: Vec<f64>,
}

/// Sends one item after the other and watches the pool for it, until `stop`.
pub(crate) fn probe(
    address: SocketAddr,
    data_dir: &Path,
    name: &str,
    stop: &AtomicBool,
) -> Result<ProbeTimes> {
    let reader = PoolReader::open(data_dir)?;
    let mut client = Client::connect(address)?;
    let mut times = ProbeTimes::default();
    let micros = |from: Instant| from.elapsed().as_secs_f64() * 1e6;
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{name}-{number}");
        let request = probe_request(&key);
        let sent = Instant::now();
        match client.exchange(&request)?.0 {
            202 => {}
            429 | 503 => {
                sleep(PROBE_PAUSE);
                continue;
            }
            status => return Err(format!("a probe was answered {status}").into()),
        }
        times.accepted.push(micros(sent));
        let mut looked = Instant::now();
        while reader.fields(PROBE_STREAM, &key)?.is_none() {
            if sent.elapsed() > ITEM_WAIT {
                return Err(format!("failed to find probe {key} in the pool").into());
            }
            sleep(LOOK_PAUSE);
            times.look_gaps.push(micros(looked));
            looked = Instant::now();
        }
        times.pooled.push(micros(sent));
        sleep(PROBE_PAUSE);
    }
    Ok(times)
}

/// The request for one probe item.
pub(crate) fn probe_request(key: &str) -> Vec<u8> {
    let body = format!(r#"{{"id":"{key}","note":"probe"}}"#);
    let head = request_head(PROBE_KEY, "id", body.len());
    [head, body].concat().into_bytes()
}
