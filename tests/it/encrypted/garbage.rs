//! Encrypted listeners and clients that do not speak TLS, or only half of it.
//!
//! `HEADGATE_HALF_HANDSHAKES=6000` is the long form.
//!
//! **Invariant**: requests of others are accepted while the connections of a test are open.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Pair, curl, is_there, pair, tls, url};
use crate::faults::{number, random};
use crate::process::Process;
use crate::setup::Setup;
use crate::wait::PROCESS_DEADLINE;

/// The first bytes of an alert.
const ALERT: &[u8] = &[0x15, 3];
/// A hello of 512 bytes that ends after its first ones.
const HALF_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
/// Far less than a connection without a request may last otherwise, and far more than an answer takes.
const QUICKLY: Duration = Duration::from_secs(10);

/// A daemon whose service listener is encrypted, and whose admin listener is not.
fn encrypted() -> (Process, Pair) {
    let setup = Setup::shop();
    let server = pair(&setup, "server");
    let process = setup.toml(&tls("server", &server, "")).spawn();
    (process, server)
}

/// A request is accepted.
#[track_caller]
fn accepts(process: &Process, server: &Pair) {
    let bearer = format!("Authorization: Bearer {}", process.setup.secret("shop", 0));
    let json = "Content-Type: application/json";
    let url = url(process, "/api/ingest");
    let posted = [&url, "-H", &bearer, "-H", json, "-d", "{}"];
    let (status, body) = curl(&server.certificate, &posted);
    assert_eq!(status, 202, "{body}");
}

/// A connection on which these bytes are sent, as far as the daemon takes them.
fn sent(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket
        .set_read_timeout(Some(PROCESS_DEADLINE))
        .expect("a socket");
    let _ = socket.write_all(bytes);
    socket
}

/// What the daemon sends until it hangs up.
#[track_caller]
fn rest(mut socket: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(error) = socket.read_to_end(&mut bytes) {
        let kind = error.kind();
        assert!(
            matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
            "the daemon does not hang up: {error}"
        );
    }
    bytes
}

/// The same once this end sends no more.
#[track_caller]
fn rest_after_end(socket: TcpStream) -> Vec<u8> {
    let _ = socket.shutdown(Shutdown::Write);
    rest(socket)
}

/// A `curl` that calls a listener of the test.
struct Caller {
    curl: Child,
    socket: TcpStream,
}

impl Caller {
    fn call(options: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let curl = Command::new("curl")
            .args(["--silent", "--insecure"])
            .args(options)
            .arg(format!("https://{address}/healthz"))
            .stdout(Stdio::null())
            .spawn()
            .expect("curl runs");
        let (socket, _) = listener.accept().expect("curl connects");
        Self { curl, socket }
    }

    /// What it sends next, in one piece.
    fn says(&mut self) -> Vec<u8> {
        next(&mut self.socket)
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.curl.kill();
        let _ = self.curl.wait();
    }
}

fn next(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = vec![0; 16 << 10];
    let count = socket.read(&mut bytes).expect("the other end sends");
    bytes.truncate(count);
    bytes
}

#[test]
fn what_is_no_hello_is_answered_with_an_alert() {
    if !is_there("what_is_no_hello_is_answered_with_an_alert") {
        return;
    }
    let (process, server) = encrypted();
    let mut random = random("what_is_no_hello_is_answered_with_an_alert");
    let mut open = Vec::new();
    for length in 5..205 {
        let mut noise: Vec<u8> = (0..length)
            .map(|_| random.next().to_le_bytes()[0])
            .collect();
        // It begins no handshake.
        noise[0] |= 0x80;
        open.push(sent(process.service, &noise));
    }
    open.push(sent(
        process.service,
        b"POST /api/ingest HTTP/1.1\r\nHost: x\r\n\r\n",
    ));
    accepts(&process, &server);
    for socket in open {
        let answer = rest(socket);
        assert!(answer.starts_with(ALERT), "{answer:?}");
    }
    // And the other way round: a listener without TLS reads a hello as a request.
    let hello = Caller::call(&[]).says();
    let answer = rest(sent(process.admin, &hello));
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{answer:?}");
}

#[test]
fn a_hello_that_is_cut_or_changed_anywhere_ends_its_connection_only() {
    if !is_there("a_hello_that_is_cut_or_changed_anywhere_ends_its_connection_only") {
        return;
    }
    let (process, server) = encrypted();
    let hello = Caller::call(&[]).says();
    let cut = |length: usize| sent(process.service, &hello[..length]);
    let cuts: Vec<_> = (0..hello.len()).map(cut).collect();
    accepts(&process, &server);
    for (length, socket) in cuts.into_iter().enumerate() {
        assert_eq!(rest_after_end(socket), b"", "cut at {length}");
    }
    for at in (0..hello.len()).step_by(7) {
        let mut changed = hello.clone();
        changed[at] ^= 0xff;
        let answer = rest_after_end(sent(process.service, &changed));
        assert!(!answer.starts_with(b"HTTP"), "changed at {at}: {answer:?}");
    }
    accepts(&process, &server);
}

#[test]
fn a_second_hello_ends_its_connection() {
    if !is_there("a_second_hello_ends_its_connection") {
        return;
    }
    let (process, server) = encrypted();
    for version in ["1.2", "1.3"] {
        let mut caller = Caller::call(&["--tls-max", version]);
        let hello = caller.says();
        let mut socket = sent(process.service, &hello);
        let answer = next(&mut socket);
        caller.socket.write_all(&answer).expect("curl reads");
        // The end of the handshake.
        socket.write_all(&caller.says()).expect("it is sent");
        let begun = Instant::now();
        let _ = socket.write_all(&hello);
        let answer = rest(socket);
        assert!(begun.elapsed() < QUICKLY, "{version}: {answer:?}");
    }
    accepts(&process, &server);
}

#[test]
fn a_client_cannot_renegotiate() {
    if !is_there("a_client_cannot_renegotiate") {
        return;
    }
    let (process, server) = encrypted();
    let mut client = Command::new("openssl")
        .args(["s_client", "-tls1_2", "-connect"])
        .arg(process.service.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl runs");
    // A line with an R is its command for a new handshake.
    let mut commands = client.stdin.take().expect("piped");
    commands.write_all(b"R\n").expect("it reads");
    let ended = client.wait_with_output().expect("it ends");
    drop(commands);
    let log = String::from_utf8_lossy(&ended.stderr);
    assert!(log.contains("no renegotiation"), "{log}");
    accepts(&process, &server);
}

#[test]
fn half_handshakes_in_hundreds_are_in_nobodys_way() {
    if !is_there("half_handshakes_in_hundreds_are_in_nobodys_way") {
        return;
    }
    let count = number("HEADGATE_HALF_HANDSHAKES").unwrap_or(600);
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, all).expect("the limit can be raised to its maximum");
    let (process, server) = encrypted();
    let mut half = Vec::new();
    for n in 0..count {
        let begun = if n % 2 == 0 { HALF_HELLO } else { b"" };
        half.push(sent(process.service, begun));
        if n % 200 == 0 {
            accepts(&process, &server);
        }
    }
    accepts(&process, &server);
    for socket in half {
        assert_eq!(rest(socket), b"");
    }
    accepts(&process, &server);
}
