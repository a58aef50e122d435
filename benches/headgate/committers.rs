//! What the journal in PostgreSQL takes: one node and twelve, and new idempotency keys when many others are live.
//!
//! Starts a PostgreSQL of its own, without a standby, on the disk of temporary files, and opens journals in this process, as
//! nodes do. Callers hand them requests of one item, each when it has the receipt of the one before. First each journal has
//! one caller, so that each request is a transaction: one journal and twelve in turn. Then one journal has 64 callers with
//! new keys: in a schema without claims and in one with as many as wanted, all in the generation that new ones go to.
//!
//! How to read it: callers, journals and the server share the cores. The aims are ratios of neighbors.
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
use crate::claims::Target;
use crate::options::Window;
use crate::table::Table;
use crate::times::{Times, median_of};
use crate::{Result, step};
use base::order::Seq;

const NODES: usize = 12;
const ROUNDS: usize = 3;
/// Twelve nodes beside one.
const NODES_RATIO_MIN: f64 = 5.0;
/// All keys live beside none.
const CLAIMS_RATIO_MIN: f64 = 0.8;

/// What the caller may choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Keys that are live; ten million take about 1.5 GB of disk
    #[arg(
        long,
        value_name = "N",
        env = "HEADGATE_BENCH_CLAIMS",
        default_value_t = 1_000_000
    )]
    claims: u64,
    #[command(flatten)]
    window: Window,
}

/// Runs the bench; false if an aim is missed.
pub(crate) async fn bench(options: &Options) -> Result<bool> {
    let window = options.window.time;
    let Some(server) = Postgres::start("the bench") else {
        return Err("install PostgreSQL: initdb, postgres and psql".into());
    };
    let url = server.url();
    let mut table = Table::new(&["", "requests/s", "p50 ms", "p99 ms"]);
    step("one caller for each node");
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(open(&url, "nodes").await?);
    }
    let mut rounds: [Vec<Round>; 2] = Default::default();
    for _ in 0..ROUNDS {
        rounds[0].push(together(&nodes[..1], window).await?);
        rounds[1].push(together(&nodes, window).await?);
    }
    for (name, rounds) in ["1 node", "12 nodes"].iter().zip(&rounds) {
        row(&mut table, name, rounds);
    }
    let beside = ratio(&rounds[1], &rounds[0]);
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
    fill(&server, "live", options.claims);
    step("new keys");
    for _ in 0..ROUNDS {
        for (journal, rounds) in journals.iter().zip(&mut keyed) {
            let round = journal.round(window, false).await?;
            rounds.push(Round {
                rate: round.rate,
                times: round.times,
            });
        }
    }
    for ((name, _), rounds) in targets.iter().zip(&keyed) {
        row(&mut table, name, rounds);
    }
    table.print();
    for target in journals {
        target.journal.close().await;
    }
    let claims = ratio(&keyed[1], &keyed[0]);
    Ok(aim::print(&[
        Aim::at_least("12 nodes, of the rate of one", beside, NODES_RATIO_MIN),
        Aim::at_least(
            format!("new keys, {} live, of the rate with none", options.claims),
            claims,
            CLAIMS_RATIO_MIN,
        ),
    ]))
}

/// What one round showed.
struct Round {
    /// Requests a second, of all journals.
    rate: f64,
    times: Times,
}

/// How much faster the first is, by the median of rounds that are neighbors.
fn ratio(one: &[Round], other: &[Round]) -> f64 {
    let pairs: Vec<f64> = one
        .iter()
        .zip(other)
        .map(|(one, other)| one.rate / other.rate)
        .collect();
    median_of(&pairs, |ratio| *ratio)
}

fn row(table: &mut Table, name: &str, rounds: &[Round]) {
    table.row([
        name.to_owned(),
        format!("{:.0}", median_of(rounds, |round| round.rate)),
        format!("{:.2}", median_of(rounds, |round| round.times.p50)),
        format!("{:.2}", median_of(rounds, |round| round.times.p99)),
    ]);
}

/// One caller for each of these journals, for so long.
async fn together(journals: &[Arc<Journal>], window: Duration) -> Result<Round> {
    let begun = Instant::now();
    let callers: Vec<Callers> = journals
        .iter()
        .map(|journal| Callers::start(journal, 1, false))
        .collect();
    tokio::time::sleep(window).await;
    let mut micros = Vec::new();
    for callers in callers {
        micros.extend(callers.stop().await?);
    }
    let times = Times::from_micros(micros);
    Ok(Round {
        rate: times.samples as f64 / begun.elapsed().as_secs_f64(),
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
