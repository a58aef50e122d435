//! Callers inside the bench: each hands a request to a journal when it has the receipt of the one before.
//!
//! Called by the benches of the journal alone.
//!
//! **Invariant:** every request has an id of its own, and its idempotency key, if it has one, was never used before.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::clock::Lived;
use base::clock::Unix;
use base::order::Seq;
use item::ItemsWriter;
use journal::log::{Client, Endpoint};
use journal::{Claim, Durability, Journal, LogEntry, Options, Outcome, Submission};
use observe::metrics::Metrics;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::Result;

/// Opens a journal whose log may have so many bytes.
pub(crate) async fn open(path: &Path, log_bytes_max: u64) -> Result<Arc<Journal>> {
    let options = Options {
        durability: Durability::Fsync,
        pending_bytes_max: 64 << 20,
        seq_floor: Seq::MIN,
        log_retention: Duration::MAX,
        log_retention_bytes: log_bytes_max,
    };
    Ok(Journal::open(path, options, Arc::new(Metrics::new()), &Default::default()).await?)
}

/// Callers at work.
pub(crate) struct Callers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Result<Vec<f64>>>>,
}

impl Callers {
    /// Starts so many; `keyed` ones send an idempotency key each time.
    pub(crate) fn start(journal: &Arc<Journal>, count: usize, keyed: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..count)
            .map(|_| tokio::spawn(call(Arc::clone(journal), keyed, Arc::clone(&stop))))
            .collect();
        Self { stop, tasks }
    }

    /// Ends them; microseconds of each request.
    pub(crate) async fn stop(self) -> Result<Vec<f64>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut micros = Vec::new();
        for task in self.tasks {
            micros.extend(task.await??);
        }
        Ok(micros)
    }
}

async fn call(journal: Arc<Journal>, keyed: bool, stop: Arc<AtomicBool>) -> Result<Vec<f64>> {
    let mut micros = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let submission = submission(keyed)?;
        let begun = Instant::now();
        let receipt = journal.submit(submission).await?;
        micros.push(begun.elapsed().as_secs_f64() * 1e6);
        if receipt.replayed {
            return Err("a new key is taken for a repeat".into());
        }
    }
    Ok(micros)
}

/// A request of one item of 188 bytes.
pub(crate) fn submission(keyed: bool) -> Result<Submission> {
    let mut items = ItemsWriter::new(1 << 20, 0);
    items.push("7", &format!("{{\"text\":\"{}\"}}", "x".repeat(150)))?;
    let claim = keyed.then(|| Claim {
        scope: scope(Uuid::now_v7().as_u128()),
        payload: [0; 8],
    });
    Ok(Submission {
        log: LogEntry {
            request_id: Uuid::now_v7(),
            received_at: Unix::now(),
            connector: "big".into(),
            stream: "orders".into(),
            outcome: Outcome::Accepted,
            endpoint: Endpoint::Ingest,
            http_status: 202,
            items: 1,
            bytes: 188,
            key: "ik_live_a1b2c3d4".into(),
            client: Client::Unix,
            item_key: None,
            idempotency_key: keyed.then(|| "order-0123456789abcdef".into()),
            error: None,
            headers: None,
            sent_again_from: None,
            sender: None,
        },
        arrived: Lived::now(),
        items: items.into_items(),
        claim,
        second: None,
        recheck: None,
    })
}

/// As even as a digest, and cheap: SplitMix64 of each half.
pub(crate) fn scope(number: u128) -> [u8; 16] {
    let mix = |half: u64| {
        let mut mixed = half.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let first = mix((number >> 64) as u64 ^ mix(number as u64));
    let second = mix(first ^ number as u64);
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}
