//! What signatures cost, and what strangers do to whoever signs.
//!
//! Starts `headgate serve` as a child and sends it objects of 2 KB from keep-alive connections, in turn: with a bearer
//! key, signed by a scheme without an id (`hmac`), and as GitHub sends them (`github`, each with an id of its own, which
//! is an idempotency key, and an event's name, which is a field more). Then one caller after the other signs, alone and
//! beside a stranger who sends a thousand deliveries a second to the same address, with signatures that are wrong.
//!
//! How to read it: **CPU us/request** is the server process's own CPU time. The signatures are made by the load
//! generator, which is not counted. The aims are ratios of one run.
//!
//! Called by the command line.
//!
//! **Invariant:** every request has an item key and fields that were not sent before, and a round with another answer
//! than 202 ends the bench.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ring::hmac;
use serde::Serialize;

use crate::aim::{self, Aim};
use crate::child::{Child, free_address};
use crate::daemon::{self, ADMIN_TOKEN};
use crate::http::Client;
use crate::options::Rounds;
use crate::process::Process;
use crate::table::Table;
use crate::times::{Times, median_of};
use crate::{Result, step};

const BEARER: &str = "ik_live_bench_of_the_senders_0123";
const SECRET: &str = "a-secret-of-the-bench-0123456789";
const CONNECTIONS: usize = 32;
const BODY_BYTES: usize = 2_048;
/// Items of a stream.
const KEYS: u64 = 10_000;
/// Deliveries of the stranger in a second.
const STRANGERS: u32 = 1_000;
/// A signed request over one with a key.
const RATIO_MAX: f64 = 1.15;
/// The 99th percentile beside the stranger over that alone.
const SLOWER_MAX: f64 = 2.0;

/// How a request is vouched for; the name of its stream and connector.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Bearer,
    Hmac,
    GitHub,
}

impl Way {
    const ALL: [Self; 3] = [Self::Bearer, Self::Hmac, Self::GitHub];

    fn name(self) -> &'static str {
        match self {
            Self::Bearer => "bearer",
            Self::Hmac => "hmac",
            Self::GitHub => "github",
        }
    }

    fn key(self) -> String {
        match self {
            Self::Bearer => format!("secret = \"{BEARER}\""),
            Self::Hmac => format!(
                "verify = {{ scheme = \"hmac\", secret = \"{SECRET}\", header = \"X-Signature\" }}"
            ),
            Self::GitHub => format!("verify = {{ scheme = \"github\", secret = \"{SECRET}\" }}"),
        }
    }

    /// The request of this number.
    fn request(self, secret: &str, number: u64) -> Vec<u8> {
        let body = body(number % KEYS, number, BODY_BYTES);
        let name = self.name();
        let vouched = match self {
            Self::Bearer => format!("{name} HTTP/1.1\r\nAuthorization: Bearer {secret}\r\n"),
            Self::Hmac => format!(
                "{name}/{name} HTTP/1.1\r\nX-Signature: {}\r\n",
                tag(secret, body.as_bytes())
            ),
            Self::GitHub => format!(
                "{name}/{name} HTTP/1.1\r\nX-Hub-Signature-256: sha256={}\r\nX-GitHub-Delivery: {number:032x}\r\nX-GitHub-Event: push\r\n",
                tag(secret, body.as_bytes())
            ),
        };
        format!(
            "POST /api/webhook/{vouched}Host: bench\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

/// An item of this id and revision, with a text that fills the body up to so many bytes.
pub(crate) fn body(id: u64, revision: u64, bytes: usize) -> String {
    let mut body = format!("{{\"id\":{id},\"revision\":{revision},\"text\":\"");
    let rest = bytes - body.len() - "\"}".len();
    body.extend(std::iter::repeat_n('x', rest));
    body.push_str("\"}");
    body
}

/// The signature of a body, in hexadecimal digits.
pub(crate) fn tag(secret: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, body);
    tag.as_ref().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// What the caller may choose.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
}

/// One round of one way.
#[derive(Debug, Serialize)]
struct Round {
    requests: u64,
    cpu_us: f64,
}

/// Every round.
#[derive(Debug, Default, Serialize)]
struct Results {
    bearer: Vec<Round>,
    hmac: Vec<Round>,
    github: Vec<Round>,
    alone: Vec<Times>,
    beside_stranger: Vec<Times>,
    /// Deliveries of the stranger that were refused.
    refused: u64,
}

impl Results {
    fn of(&mut self, way: Way) -> &mut Vec<Round> {
        match way {
            Way::Bearer => &mut self.bearer,
            Way::Hmac => &mut self.hmac,
            Way::GitHub => &mut self.github,
        }
    }
}

/// Runs the bench; false if an aim was missed.
pub(crate) fn bench(options: &Options) -> Result<bool> {
    let folder = options.rounds.make_folder("senders-")?;
    let (service, admin) = (free_address()?, free_address()?);
    let tables: String = Way::ALL
        .iter()
        .map(|way| {
            let (name, key) = (way.name(), way.key());
            format!(
                "[[streams]]\nname = \"{name}\"\n[[connectors]]\nname = \"{name}\"\nkind = \"webhook\"\nitem_key = \"id\"\n\
                 keys = [{{ name = \"main\", stream = \"{name}\", {key} }}]\n"
            )
        })
        .collect();
    let configuration = format!(
        "[server]\nlisten = \"{service}\"\n[admin]\nlisten = \"{admin}\"\ntoken = \"{ADMIN_TOKEN}\"\n\
         [storage]\ndata_dir = {:?}\n[limits]\nrequests_per_second = 10000000\nburst = 10000000\n{tables}",
        folder.path().join("data")
    );
    let command = daemon::command(folder.path(), &configuration)?;
    let mut child = Child::start(command, folder.path())?;
    child.wait_for(service)?;
    let results = measure(options, service, &Process::new(child.id()))
        .map_err(|error| child.explain(error))?;
    child.stop()?;
    let aims = report(&results);
    options.rounds.write(&results, &aims)?;
    Ok(aim::print(&aims))
}

fn measure(options: &Options, service: SocketAddr, process: &Process) -> Result<Results> {
    let mut results = Results::default();
    let numbers = AtomicU64::new(1);
    let time = options.rounds.window.time;
    for way in Way::ALL {
        round(service, process, way, &numbers, time / 4)?;
    }
    for number in 1..=options.rounds.count {
        step(&format!("round {number} of {}", options.rounds.count));
        for way in Way::ALL {
            let round = round(service, process, way, &numbers, time)?;
            results.of(way).push(round);
        }
        results.alone.push(one_by_one(service, &numbers, time)?);
        let (times, refused) = beside_stranger(service, &numbers, time)?;
        results.beside_stranger.push(times);
        results.refused += refused;
    }
    Ok(results)
}

/// All connections at once for a while.
fn round(
    service: SocketAddr,
    process: &Process,
    way: Way,
    numbers: &AtomicU64,
    time: Duration,
) -> Result<Round> {
    let secret = match way {
        Way::Bearer => BEARER,
        Way::Hmac | Way::GitHub => SECRET,
    };
    let (begun, before) = (Instant::now(), process.cpu_micros()?);
    let send = || -> Result<u64> {
        let mut client = Client::connect(service)?;
        let mut sent = 0;
        while begun.elapsed() < time {
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            accepted(&mut client, &way.request(secret, number))?;
            sent += 1;
        }
        Ok(sent)
    };
    let sent: Result<Vec<u64>> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(send)).collect();
        let joined = senders
            .into_iter()
            .map(|sender| sender.join().map_err(|_| "a sender panicked")?);
        joined.collect()
    });
    let requests: u64 = sent?.iter().sum();
    // The sinks are not done yet: each way has as much to do there.
    std::thread::sleep(Duration::from_secs(1));
    Ok(Round {
        requests,
        cpu_us: (process.cpu_micros()? - before) / requests.max(1) as f64,
    })
}

/// One caller that waits for each answer, and for a while between two.
fn one_by_one(service: SocketAddr, numbers: &AtomicU64, time: Duration) -> Result<Times> {
    let mut client = Client::connect(service)?;
    let (begun, mut micros) = (Instant::now(), Vec::new());
    while begun.elapsed() < time {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let request = Way::Hmac.request(SECRET, number);
        let sent = Instant::now();
        accepted(&mut client, &request)?;
        micros.push(sent.elapsed().as_secs_f64() * 1e6);
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(Times::from_micros(micros))
}

/// The same beside a stranger; and how many of his deliveries were refused.
fn beside_stranger(
    service: SocketAddr,
    numbers: &AtomicU64,
    time: Duration,
) -> Result<(Times, u64)> {
    let done = AtomicBool::new(false);
    let flood = || -> Result<u64> {
        let mut client = Client::connect(service)?;
        let request = Way::Hmac.request("another-secret-of-the-bench-01234", 0);
        let (begun, mut sent) = (Instant::now(), 0_u32);
        while !done.load(Ordering::Relaxed) {
            match client.exchange(&request)?.0 {
                401 | 429 => {}
                other => return Err(format!("a stranger was answered {other}").into()),
            }
            sent += 1;
            let due = begun + Duration::from_secs(1) * sent / STRANGERS;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(u64::from(sent))
    };
    std::thread::scope(|scope| {
        let flood = scope.spawn(flood);
        let times = one_by_one(service, numbers, time);
        done.store(true, Ordering::Relaxed);
        let refused = flood.join().map_err(|_| "the stranger panicked")??;
        Ok((times?, refused))
    })
}

fn accepted(client: &mut Client, request: &[u8]) -> Result<()> {
    match client.exchange(request)? {
        (202, _) => Ok(()),
        (status, body) => {
            let body = String::from_utf8_lossy(body);
            Err(format!("a request was answered {status}: {body}").into())
        }
    }
}

fn report(results: &Results) -> Vec<Aim> {
    let cpu = |rounds: &[Round]| median_of(rounds, |round| round.cpu_us);
    let bearer = cpu(&results.bearer);
    let mut table = Table::new(&["2 KB", "CPU us/request", "over bearer"]);
    for (name, rounds) in [
        ("bearer", &results.bearer),
        ("hmac", &results.hmac),
        ("github", &results.github),
    ] {
        let own = cpu(rounds);
        let ratio = format!("{:.2}", own / bearer);
        table.row([name.to_owned(), format!("{own:.1}"), ratio]);
    }
    table.print();
    println!();
    let p99 = |times: &[Times]| median_of(times, |times| times.p99);
    let (alone, beside) = (p99(&results.alone), p99(&results.beside_stranger));
    let mut table = Table::new(&["one signed sender", "202 p50 ms", "p99"]);
    for (name, times) in [
        ("alone", &results.alone),
        ("beside a stranger", &results.beside_stranger),
    ] {
        let p50 = median_of(times, |times| times.p50);
        table.row([
            name.to_owned(),
            format!("{p50:.2}"),
            format!("{:.2}", p99(times)),
        ]);
    }
    table.print();
    println!("refused of the stranger: {}", results.refused);
    vec![
        Aim::at_most(
            "CPU of a signed request / of one with a key",
            cpu(&results.hmac) / bearer,
            RATIO_MAX,
            "",
        ),
        Aim::at_most(
            "p99 beside 1,000 bad signatures a second / alone",
            beside / alone,
            SLOWER_MAX,
            "",
        ),
    ]
}
