//! A substitute for the service: a small HTTP server on a real socket, whose responses a test defines.
//!
//! Tests of the client and of the verbs use it to check requests and to send faulty responses.
//!
//! **Invariant**: its thread ends before the test does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A request as it was received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// `POST /api/ingest`
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|header| header.0 == name)
            .map(|header| header.1.as_str())
    }
}

/// The reaction to a request.
pub(crate) enum Reply {
    /// Answer with a status, header lines (each ending in `\r\n`) and a body.
    Answer(u16, String, String),
    /// Answer with 200, header lines and the beginning of a body, and leave the connection open.
    Begin(String, String),
    /// Close the connection without an answer.
    HangUp,
}

pub(crate) struct StandIn {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StandIn {
    /// Starts the server; `reply` gets each request and the number of earlier requests.
    pub(crate) fn start(
        mut reply: impl FnMut(&Received, usize) -> Reply + Send + 'static,
    ) -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let received = Arc::new(Mutex::new(Vec::new()));
        let closing = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (received, closing) = (Arc::clone(&received), Arc::clone(&closing));
            move || {
                let mut open = Vec::new();
                while let Ok((stream, _)) = listener.accept() {
                    if closing.load(Ordering::SeqCst) {
                        return;
                    }
                    open.extend(serve(stream, |request| {
                        let mut received = received.lock().expect("no test panics here");
                        let count = received.len();
                        received.push(request.clone());
                        reply(&request, count)
                    }));
                }
            }
        });
        StandIn {
            address,
            received,
            closing,
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no test panics here").clone()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        let woken = TcpStream::connect(self.address);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// Reads a request, replies to it and closes the connection, or returns it if it must stay open.
pub(crate) fn serve<S: Read + Write>(
    stream: S,
    reply: impl FnOnce(Received) -> Reply,
) -> Option<S> {
    let mut stream = BufReader::new(stream);
    let request = read(&mut stream)?;
    let (answer, stays_open) = match reply(request) {
        Reply::Answer(status, headers, body) => {
            let len = body.len();
            let head = format!(
                "HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-length: {len}\r\n{headers}\r\n"
            );
            (head + &body, false)
        }
        Reply::Begin(headers, body) => {
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{headers}\r\n");
            (head + &body, true)
        }
        Reply::HangUp => return None,
    };
    let mut stream = stream.into_inner();
    let _ = stream.write_all(answer.as_bytes());
    let _ = stream.flush();
    stays_open.then_some(stream)
}

fn read(stream: &mut impl BufRead) -> Option<Received> {
    let mut request = Received::default();
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    request.target = line.rsplit_once(' ')?.0.to_owned();
    loop {
        line.clear();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        request
            .headers
            .push((name.to_lowercase(), value.to_owned()));
    }
    let len = request
        .header("content-length")
        .map_or(0, |len| len.parse().unwrap_or(0));
    let mut body = vec![0; len];
    stream.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).ok()?;
    Some(request)
}
