//! What the journal in PostgreSQL takes: one node and twelve, and new idempotency keys when many others are live.
//!
//! Starts a PostgreSQL of its own, without a standby, whose commits wait for the disk of temporary files, and opens
//! journals in this process, as nodes do. Callers hand them requests of one item, each when it has the receipt of the one
//! before. First each journal has one caller, so that each request is a transaction: one journal and twelve in turn, on the
//! disk as it is, and with flushes that take 2 ms longer. Then one journal has 64 callers with new keys: in a schema
//! without claims and in one with as many as wanted, all in the generation that new ones go to.
//!
//! How to read it: callers, journals and the server share the cores; CPU is without the server. The aims are ratios of
//! neighbors. Twelve nodes are faster than one by what they wait for at the same time. On a disk that flushes within the
//! time that the cores need for a request, they wait for the cores; the aim is about disks that take longer.
//!
//! Called by the command line. Needs PostgreSQL's `initdb`, `postgres` and `psql`.
//!
//! **Invariant:** the journal makes its tables itself; only claims are filled in.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::{Journal, PostgresOptions};
use observe::metrics::Metrics;
use postgres_server::{Postgres, cluster_at};
use uuid::Uuid;

use crate::aim::{self, Aim};
use crate::callers::{Callers, submission};
use crate::claims::{Live, Round, Target, print, ratio};
use crate::process::Process;
use crate::times::Times;
use crate::{Result, step};
use base::order::Seq;

const NODES: usize = 12;
const ROUNDS: usize = 3;
/// About what the flush of a solid-state disk without a protected cache takes.
const SLOW_FLUSH: Duration = Duration::from_millis(2);
/// Twelve nodes beside one.
const NODES_RATIO_MIN: f64 = 5.0;
/// All keys live beside none.
const CLAIMS_RATIO_MIN: f64 = 0.8;

/// Runs the bench; false if an aim is missed.
pub(crate) async fn bench(live: &Live) -> Result<bool> {
    let window = live.window.time;
    let Some(server) = Postgres::start("the bench") else {
        return Err("install PostgreSQL: initdb, postgres and psql".into());
    };
    server.sync_to_disk();
    let url = server.url();
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(open(&url, "nodes").await?);
    }
    step("one caller for each node");
    let rounds = one_and_all(&nodes, window).await?;
    step("one caller for each node, slow flushes");
    server.delay_flushes(SLOW_FLUSH);
    let slow = one_and_all(&nodes, window).await?;
    server.delay_flushes(Duration::ZERO);
    for node in nodes {
        node.close().await;
    }
    step("new keys");
    let targets = [
        ("new keys, none live", "keyed"),
        ("new keys, all live", "live"),
    ];
    let mut keyed: [Vec<Round>; 2] = Default::default();
    let mut journals = Vec::new();
    for (name, schema) in targets {
        let journal = open(&url, schema).await?;
        journal.submit(submission(true)?).await?;
        journals.push(Target::new(name, journal, Path::new(""), true));
    }
    step("claims are filled in");
    fill(&server, "live", live.claims);
    step("new keys");
    for _ in 0..ROUNDS {
        for (journal, rounds) in journals.iter().zip(&mut keyed) {
            rounds.push(journal.round(window, false).await?);
        }
    }
    let names = [
        "1 node",
        "12 nodes",
        "1 node, flushes of 2 ms more",
        "12 nodes, the same",
        targets[0].0,
        targets[1].0,
    ];
    print((names.into_iter()).zip(rounds.iter().chain(&slow).chain(&keyed)));
    println!(
        "\n12 nodes, of the rate of one, on this disk: {:.0} %",
        ratio(&rounds[1], &rounds[0]) * 100.0
    );
    for target in journals {
        target.journal.close().await;
    }
    let claims = ratio(&keyed[1], &keyed[0]);
    Ok(aim::print(&[
        Aim::at_least(
            "12 nodes, of the rate of one, flushes of 2 ms more",
            ratio(&slow[1], &slow[0]),
            NODES_RATIO_MIN,
        ),
        Aim::at_least(
            format!("new keys, {} live, of the rate with none", live.claims),
            claims,
            CLAIMS_RATIO_MIN,
        ),
    ]))
}

/// One node and all of them, in turn.
async fn one_and_all(nodes: &[Arc<Journal>], window: Duration) -> Result<[Vec<Round>; 2]> {
    let mut rounds: [Vec<Round>; 2] = Default::default();
    for _ in 0..ROUNDS {
        rounds[0].push(together(&nodes[..1], window).await?);
        rounds[1].push(together(nodes, window).await?);
    }
    Ok(rounds)
}

/// One caller for each of these journals, for so long.
async fn together(journals: &[Arc<Journal>], window: Duration) -> Result<Round> {
    let process = Process::own();
    let (begun, cpu) = (Instant::now(), process.cpu_micros()?);
    let callers: Vec<Callers> = journals
        .iter()
        .map(|journal| Callers::start(journal, 1, false))
        .collect();
    tokio::time::sleep(window).await;
    let mut micros = Vec::new();
    for callers in callers {
        micros.extend(callers.stop().await?);
    }
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), process.cpu_micros()? - cpu);
    let times = Times::from_micros(micros);
    Ok(Round {
        rate: times.samples as f64 / seconds,
        cpu_micros: cpu / times.samples as f64,
        times,
    })
}

/// A node of the cluster in this schema.
async fn open(url: &str, schema: &str) -> Result<Arc<Journal>> {
    let options = PostgresOptions {
        database: cluster_at(url, schema),
        node: Uuid::now_v7(),
        log: None,
        commit_wait: Duration::from_secs(60),
        pending_bytes_max: 64 << 20,
        seq_floor: Seq::MIN,
        log_retention: Duration::MAX,
        log_retention_bytes: u64::MAX >> 1,
    };
    Ok(Journal::open_postgres(options, Arc::new(Metrics::new())).await?)
}

/// So many claims more, as if they had just been made.
fn fill(server: &Postgres, schema: &str, claims: u64) {
    server.query(&format!(
        "SET synchronous_commit = off;
         INSERT INTO {schema}.claims (g, scope, request_id, digest, lived_ms, items)
         SELECT g, gen_random_uuid(), gen_random_uuid(), 0, lived_ms, 1
         FROM {schema}.cluster, generate_series(1, {claims});
         ANALYZE {schema}.claims; CHECKPOINT"
    ));
}
