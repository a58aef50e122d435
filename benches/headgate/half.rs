//! The 202 while others keep half connections open, which send no request.
//!
//! Starts `headgate serve` as a child, without TLS and with it, once with the default number of connections and once
//! with as many as 1,024 open files allow. A thread keeps half connections open to it: every second one sends nothing,
//! the others half a head, or with TLS half a `ClientHello`; from the address of the senders, or each from another
//! address of `127.0.0.0/8`. It opens again what the daemon closes, at most 3,000 a second. Meanwhile one sender waits
//! for each 202 of 200 bytes on a kept connection, and another one on a new connection each time.
//!
//! How to read it: times are of a client that shares the cores with the server and with the half connections. A new
//! connection includes its handshake, which resumes no session. A request without a 202 counts as one that never ends.
//! **open** is how many half connections there were on average: fewer than wanted where the daemon has closed some, for
//! their time or for others.
//!
//! Called by the command line. Needs `openssl` for a certificate.
//!
//! **Invariant:** the half connections are open before the first request of a round is sent, and every request has an
//! item that was not sent before.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde::Serialize;

use crate::aim::{self, Aim};
use crate::child::{self, Child, free_address};
use crate::daemon::{self, ADMIN_TOKEN};
use crate::options::{Rounds, count};
use crate::senders::body;
use crate::table::Table;
use crate::times::{Times, median_of};
use crate::{Result, block_on, step};
use kept::{Half, Open};

mod kept;

const KEY: &str = "ik_live_bench_of_half_connections_01";
const BODY_BYTES: usize = 200;
/// Items of the stream.
const KEYS: u64 = 5_000;
/// Pause of a sender after each 202.
const PAUSE: Duration = Duration::from_millis(3);
/// Longest wait for a 202.
const ANSWER_WAIT: Duration = Duration::from_secs(20);
const P99_MS_MAX: f64 = 100.0;
/// Open files of bench and daemon that are not for half connections.
const OTHER_FILES: usize = 1_024;

/// What the caller may choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Half connections that are kept open, beside none
    #[arg(long = "open", value_name = "N", value_delimiter = ',', default_values_t = [300, 6_000], value_parser = count(60_000))]
    open: Vec<usize>,
    /// Connections that the listener accepts at most
    #[arg(long = "places", value_name = "N", value_delimiter = ',', default_values_t = [20_000, 576], value_parser = count(1_000_000))]
    places: Vec<usize>,
}

/// One case: what is measured beside how many half connections from where.
#[derive(Clone, Copy, Debug, Serialize)]
struct Case {
    tls: bool,
    places: usize,
    half: usize,
    /// From the address of the senders.
    same_address: bool,
}

/// One round of a case.
#[derive(Debug, Serialize)]
struct Round {
    kept: Times,
    new: Times,
    failed: usize,
    open: f64,
}

/// All rounds of a case.
#[derive(Debug, Serialize)]
struct Measured {
    #[serde(flatten)]
    case: Case,
    rounds: Vec<Round>,
}

impl Measured {
    fn p99(&self, times: fn(&Round) -> &Times) -> f64 {
        median_of(&self.rounds, |round| times(round).p99)
    }
}

/// Runs the bench; false if an aim was missed.
pub(crate) fn bench(options: &Options) -> Result<bool> {
    let most = options.open.iter().copied().max().unwrap_or_default();
    let files = child::raise_open_files(2 * most + OTHER_FILES)?;
    if files < most + OTHER_FILES {
        println!(
            "only {files} files may be open (ulimit -n): at most {} half connections",
            files.saturating_sub(OTHER_FILES)
        );
    }
    let half_max = files.saturating_sub(OTHER_FILES).max(1);
    let mut all = Vec::new();
    for &places in &options.places {
        for tls in [false, true] {
            all.extend(listener(options, places, tls, half_max)?);
        }
    }
    let aims = report(&all);
    options.rounds.write(&all, &aims)?;
    Ok(aim::print(&aims))
}

/// All cases of one listener.
fn listener(options: &Options, places: usize, tls: bool, half_max: usize) -> Result<Vec<Measured>> {
    let folder = options.rounds.make_folder("half-")?;
    let service = free_address()?;
    let configuration = configuration(folder.path(), service, places, tls)?;
    let mut child = Child::start(
        daemon::command(folder.path(), &configuration)?,
        folder.path(),
    )?;
    child.wait_for(service)?;
    let mut cases = vec![(0, true)];
    for &half in &options.open {
        cases.extend([(half.min(half_max), true), (half.min(half_max), false)]);
    }
    let mut all: Vec<Measured> = (cases.iter())
        .map(|&(half, same_address)| Measured {
            case: Case {
                tls,
                places,
                half,
                same_address,
            },
            rounds: Vec::new(),
        })
        .collect();
    let sender = Sender::to(service, tls);
    for number in 1..=options.rounds.count {
        step(&format!(
            "{}, {places} places, round {number} of {}",
            name(tls),
            options.rounds.count
        ));
        for measured in &mut all {
            let time = options.rounds.window.time;
            let round = round(&sender, service, measured.case, time);
            measured
                .rounds
                .push(round.map_err(|error| child.explain(error))?);
        }
    }
    child.stop()?;
    Ok(all)
}

fn configuration(folder: &Path, service: SocketAddr, places: usize, tls: bool) -> Result<String> {
    let tls = match tls {
        false => String::new(),
        true => {
            let (certificate, key) = certificate(folder)?;
            format!("[server.tls]\ncertificate = {certificate:?}\nkey = {key:?}\n")
        }
    };
    Ok(format!(
        "[server]\nlisten = \"{service}\"\nconnections_max = {places}\n{tls}\
         [admin]\nlisten = \"{}\"\ntoken = \"{ADMIN_TOKEN}\"\n[storage]\ndata_dir = {:?}\n\
         [limits]\nrequests_per_second = 10000000\nburst = 10000000\n[[streams]]\nname = \"half\"\n\
         [[connectors]]\nname = \"half\"\nkind = \"ingest\"\n\
         keys = [{{ name = \"main\", stream = \"half\", secret = \"{KEY}\" }}]\n",
        free_address()?,
        folder.join("data")
    ))
}

/// Sends for a while beside the half connections of a case.
fn round(sender: &Sender, service: SocketAddr, case: Case, time: Duration) -> Result<Round> {
    let half = Half {
        service,
        tls: case.tls,
        count: case.half,
        same_address: case.same_address,
    };
    let open = Open::default();
    std::thread::scope(|scope| {
        let keeper = scope.spawn(|| half.keep(&open));
        let sent = block_on(async {
            // Its connection is older than the half ones.
            let kept = client(1)?;
            sender.post(&kept).await;
            open.wait_until_filled().await?;
            let until = Instant::now() + time;
            Ok(tokio::join!(
                sender.on_a_kept_one(&kept, until),
                sender.on_new_ones(until)
            ))
        });
        open.end();
        let average = keeper.join().map_err(|_| "the keeper panicked")??;
        let (kept, new) = sent?;
        let new = new?;
        let failed =
            [&kept, &new].map(|micros| micros.iter().filter(|one| one.is_infinite()).count());
        Ok(Round {
            kept: Times::from_micros(kept),
            new: Times::from_micros(new),
            failed: failed.iter().sum(),
            open: average,
        })
    })
}

/// A sender of objects.
struct Sender {
    url: String,
    numbers: AtomicU64,
}

impl Sender {
    fn to(service: SocketAddr, tls: bool) -> Self {
        let scheme = if tls { "https" } else { "http" };
        Self {
            url: format!("{scheme}://{service}/api/ingest"),
            numbers: AtomicU64::new(1),
        }
    }

    /// Microseconds until the 202, or infinitely many.
    async fn post(&self, client: &Client) -> f64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let body = body(number % KEYS, number, BODY_BYTES);
        let request = client
            .post(&self.url)
            .bearer_auth(KEY)
            .header("Content-Type", "application/json")
            .header("X-Item-Key", "id")
            .body(body);
        let begun = Instant::now();
        let accepted = async {
            let answer = request.send().await.ok()?;
            let is_accepted = answer.status() == 202;
            answer.bytes().await.ok().filter(|_| is_accepted)
        };
        match accepted.await {
            Some(_) => begun.elapsed().as_secs_f64() * 1e6,
            None => f64::INFINITY,
        }
    }

    async fn on_a_kept_one(&self, client: &Client, until: Instant) -> Vec<f64> {
        let mut micros = Vec::new();
        while Instant::now() < until {
            micros.push(self.post(client).await);
            tokio::time::sleep(PAUSE).await;
        }
        micros
    }

    async fn on_new_ones(&self, until: Instant) -> Result<Vec<f64>> {
        let mut micros = Vec::new();
        while Instant::now() < until {
            micros.push(self.post(&client(0)?).await);
            tokio::time::sleep(PAUSE).await;
        }
        Ok(micros)
    }
}

/// A client without sessions to resume that keeps so many connections.
fn client(kept: usize) -> Result<Client> {
    let client = Client::builder()
        .pool_max_idle_per_host(kept)
        .tls_built_in_root_certs(false)
        .danger_accept_invalid_certs(true)
        .no_proxy()
        .local_address(IpAddr::V4(Ipv4Addr::LOCALHOST))
        .tcp_nodelay(true)
        .timeout(ANSWER_WAIT)
        .build()?;
    Ok(client)
}

/// A certificate and its key in this folder.
fn certificate(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args([
            "-subj",
            "/CN=bench",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .map_err(|error| format!("openssl cannot be run: {error}"))?;
    if !made.status.success() {
        return Err(String::from_utf8_lossy(&made.stderr).into());
    }
    Ok((certificate, key))
}

fn name(tls: bool) -> &'static str {
    if tls { "TLS" } else { "plain" }
}

/// Prints the table; the aims are of the slowest case of each listener.
fn report(all: &[Measured]) -> Vec<Aim> {
    let mut table = Table::new(&[
        "listener",
        "places",
        "half",
        "from",
        "open",
        "kept p50 ms",
        "p99",
        "new p50 ms",
        "p99",
        "without 202",
    ]);
    for measured in all {
        let (case, rounds) = (measured.case, &measured.rounds);
        let from = match (case.half, case.same_address) {
            (0, _) => "",
            (_, true) => "same address",
            (_, false) => "others",
        };
        let p50 = |times: fn(&Round) -> &Times| median_of(rounds, |round| times(round).p50);
        let failed: usize = rounds.iter().map(|round| round.failed).sum();
        table.row([
            name(case.tls).to_owned(),
            case.places.to_string(),
            case.half.to_string(),
            from.to_owned(),
            format!("{:.0}", median_of(rounds, |round| round.open)),
            format!("{:.2}", p50(|round| &round.kept)),
            format!("{:.2}", measured.p99(|round| &round.kept)),
            format!("{:.2}", p50(|round| &round.new)),
            format!("{:.2}", measured.p99(|round| &round.new)),
            failed.to_string(),
        ]);
    }
    table.print();
    let mut aims: Vec<Aim> = Vec::new();
    for tls in [false, true] {
        let cases = all
            .iter()
            .filter(|one| one.case.tls == tls && one.case.half > 0);
        let worst = cases
            .map(|one| {
                one.p99(|round| &round.kept)
                    .max(one.p99(|round| &round.new))
            })
            .fold(0.0, f64::max);
        let name = format!(
            "p99 of a 202 beside half connections, {}, slowest",
            name(tls)
        );
        aims.push(Aim::at_most(name, worst, P99_MS_MAX, " ms"));
    }
    aims
}
