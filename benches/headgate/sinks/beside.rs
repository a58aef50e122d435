//! How long items take into the pool while another sink misbehaves.
//!
//! **Invariant:** both sides of a comparison are the same daemon; the other sink has nothing to do while the one side
//! is measured, and misbehaves all the time while the other is.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use headgate::daemon::Daemon;

use super::median;
use crate::aim::Aim;
use crate::http::Client;
use crate::options::TARGET_TMP;
use crate::table::Table;
use crate::times::percentile;
use crate::{Result, daemon};

/// What the other sink does with an item.
const WAYS: [&str; 6] = ["loop", "recurse", "grow", "print", "panic", "sleep"];

/// Comparisons of each way, and probes of each side of one.
const ROUNDS: usize = 3;
const PROBES: usize = 200;
const PROBE_PAUSE: Duration = Duration::from_millis(2);

/// What the other sink gets meanwhile: one good item and one bad, so that its lane does not pause.
const MISBEHAVE_PAUSE: Duration = Duration::from_millis(60);

/// Measures all ways; the aim is the worst of them.
pub(crate) async fn bench(wicked: &Path) -> Result<Aim> {
    println!("\nmilliseconds into the pool, beside a sink that misbehaves\n");
    let mut table = Table::new(&[
        "it does",
        "alone p50",
        "p99",
        "beside p50",
        "p99",
        "ratio p99",
    ]);
    let mut worst = 0.0_f64;
    for way in WAYS {
        let folder = tempfile::tempdir_in(TARGET_TMP)?;
        let daemon = start(folder.path(), wicked, way).await?;
        let (mut alone, mut beside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let quiet = probe(&daemon).await?;
            let stop = tokio_util::sync::CancellationToken::new();
            let misbehaving = tokio::spawn(misbehave(address(&daemon)?, stop.clone()));
            let busy = probe(&daemon).await?;
            stop.cancel();
            misbehaving.await??;
            let lane = daemon.operator.delivery.lane("hostile").ok_or("no lane")?;
            while lane.cursor() < *daemon.operator.journal.newest().borrow() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            ratios.push(percentile(&busy, 0.99) / percentile(&quiet, 0.99));
            alone.extend(quiet);
            beside.extend(busy);
        }
        daemon.run(std::future::ready(())).await?;
        let ratio = median(&ratios);
        worst = worst.max(ratio);
        let shown = |times: &[f64], share| format!("{:.2}", percentile(times, share));
        table.row([
            way.to_owned(),
            shown(&alone, 0.5),
            shown(&alone, 0.99),
            shown(&beside, 0.5),
            shown(&beside, 0.99),
            format!("{ratio:.2}"),
        ]);
    }
    table.print();
    Ok(Aim::at_most(
        "p99 beside the worst of them",
        worst,
        2.0,
        " x",
    ))
}

async fn start(folder: &Path, wicked: &Path, way: &str) -> Result<Daemon> {
    let key = |stream: &str| {
        format!(
            "{{ name = \"{stream}\", stream = \"{stream}\", secret = \"{}\" }}",
            secret(stream)
        )
    };
    let rest = format!(
        "[limits]\nrequests_per_second = 1000000\nburst = 1000000\n\
         [plugins]\nmemory_max_bytes = 8388608\ncpu_timeout_ms = 100\nwrite_timeout_ms = 200\n\
         [[streams]]\nname = \"good\"\n[[streams]]\nname = \"hostile\"\n\
         [[connectors]]\nname = \"bench\"\nkind = \"ingest\"\nkeys = [{}, {}]\n\
         [[sinks]]\nname = \"pool\"\nplugin = \"pool\"\nstreams = [\"good\"]\n\
         [[sinks]]\nname = \"hostile\"\nplugin = {wicked:?}\nstreams = [\"hostile\"]\nconfig = {{ how = \"{way}\" }}\n\
         batch = {{ items_max = 1 }}\nretry = {{ first_ms = 1, max_ms = 1, attempts = 1 }}\n",
        key("good"),
        key("hostile"),
    );
    daemon::start_inside(folder, "", &rest).await
}

fn secret(stream: &str) -> String {
    format!("ik_bench_{stream:_<24}")
}

fn address(daemon: &Daemon) -> Result<SocketAddr> {
    Ok(daemon
        .service_address
        .trim_start_matches("http://")
        .parse()?)
}

fn request(stream: &str, body: &str) -> Vec<u8> {
    let (secret, length) = (secret(stream), body.len());
    format!(
        "POST /api/ingest HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {secret}\r\nContent-Type: application/json\r\n\
         X-Item-Key: id\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Milliseconds from sending to the commit in the pool, for one item after the other.
async fn probe(daemon: &Daemon) -> Result<Vec<f64>> {
    let address = address(daemon)?;
    let pool = std::sync::Arc::clone(&daemon.operator.pool);
    tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(address)?;
        let mut times = Vec::with_capacity(PROBES);
        for number in 0..PROBES {
            let before = pool.position().seq;
            let body = format!("{{\"id\": \"probe\", \"number\": {number}}}");
            let sent = Instant::now();
            let (status, _) = client.exchange(&request("good", &body))?;
            if status != 202 {
                return Err(format!("a probe was answered {status}").into());
            }
            while pool.position().seq == before {
                std::thread::sleep(Duration::from_micros(50));
            }
            times.push(sent.elapsed().as_secs_f64() * 1e3);
            std::thread::sleep(PROBE_PAUSE);
        }
        Ok(times)
    })
    .await?
}

/// Gives the other sink something to misbehave with until told to stop.
async fn misbehave(address: SocketAddr, stop: tokio_util::sync::CancellationToken) -> Result<()> {
    tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(address)?;
        let mut number = 0;
        while !stop.is_cancelled() {
            number += 1;
            let body = format!("{{\"id\": \"{number}\", \"bad\": {}}}", number % 2 == 0);
            client.exchange(&request("hostile", &body))?;
            std::thread::sleep(MISBEHAVE_PAUSE);
        }
        Ok(())
    })
    .await?
}
