//! Somebody whom sinks call: a small HTTP server that remembers what it was sent and answers as it is told.
//!
//! **Invariant**: every request is remembered before it is answered.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// The address of who sent it.
    pub(crate) from: Option<IpAddr>,
}

impl Seen {
    /// The one header of this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(own, _)| own == name);
        let first = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is there twice: {self:?}");
        first
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// What it does with a request.
pub(crate) enum Reply {
    /// Sends these bytes and keeps the connection.
    Whole(String),
    /// Sends these bytes and then nothing more.
    Stall(String),
}

/// A whole answer; `headers` are lines that end in CRLF.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::Whole(format!(
        "HTTP/1.1 {status} As Told\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    ))
}

/// What a receiver has taken, which believes keys: a request with one that it knows changes nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book(Arc<Mutex<HashMap<String, Vec<String>>>>);

impl Book {
    /// Takes the items of a request.
    pub(crate) fn take(&self, key: &str, items: Vec<String>) {
        let mut book = self.0.lock().expect("no panic while held");
        let known = book.entry(key.to_owned()).or_insert_with(|| items.clone());
        assert_eq!(*known, items, "a key stands for the same items for ever");
    }

    /// It has exactly these items, each under one key.
    #[track_caller]
    pub(crate) fn holds_each_once(&self, expected: &[&str]) {
        let book = self.0.lock().expect("no panic while held");
        let mut taken: Vec<&str> = book.values().flatten().map(String::as_str).collect();
        taken.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(taken, expected, "{book:?}");
    }
}

type Answers = dyn Fn(&Seen, usize) -> Reply + Send + Sync;

/// The server; it ends with the test's process.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<Mutex<usize>>,
    open: Arc<Mutex<Open>>,
}

/// Connections that are open, and who opened the last of all.
#[derive(Debug, Default)]
struct Open {
    count: usize,
    last: Option<SocketAddr>,
}

impl Receiver {
    /// Answers every request with `answers`, which is told how many came before.
    pub(crate) fn start(
        answers: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static,
    ) -> Receiver {
        Self::start_at("127.0.0.1:0".parse().expect("an address"), answers)
    }

    /// The same at an address.
    pub(crate) fn start_at(
        address: SocketAddr,
        answers: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static,
    ) -> Receiver {
        let listener = TcpListener::bind(address).expect("a free port");
        let receiver = Receiver {
            address: listener.local_addr().expect("an address"),
            seen: Arc::default(),
            connections: Arc::default(),
            open: Arc::default(),
        };
        let answers: Arc<Answers> = Arc::new(answers);
        let seen = Arc::clone(&receiver.seen);
        let connections = Arc::clone(&receiver.connections);
        let open = Arc::clone(&receiver.open);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                *connections.lock().expect("no panic while held") += 1;
                let (seen, answers) = (Arc::clone(&seen), Arc::clone(&answers));
                let open = Arc::clone(&open);
                {
                    let mut open = open.lock().expect("no panic while held");
                    (open.count, open.last) = (open.count + 1, stream.peer_addr().ok());
                }
                std::thread::spawn(move || {
                    serve(stream, &seen, &*answers);
                    open.lock().expect("no panic while held").count -= 1;
                });
            }
        });
        receiver
    }

    /// Takes everything with 200.
    pub(crate) fn content() -> Receiver {
        Self::start(|_, _| answer(200, "", "thanks"))
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What came so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic while held").clone()
    }

    /// Waits until what a caller sent that is gone has been answered: nothing of it comes after what others send later.
    pub(crate) fn ends_calls(&self) {
        let connected = TcpStream::connect(self.address).expect("it listens");
        let own = connected.local_addr().expect("an address");
        drop(connected);
        crate::wait::eventually("calls of before have ended", || {
            let open = self.open.lock().expect("no panic while held");
            (open.last == Some(own) && open.count == 0).then_some(())
        });
    }

    /// How many connections were opened.
    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().expect("no panic while held")
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Seen>>, answers: &Answers) {
    let mut lines = BufReader::new(stream.try_clone().expect("a socket"));
    while let Some(request) = read(&mut lines) {
        let before = {
            let mut seen = seen.lock().expect("no panic while held");
            seen.push(request.clone());
            seen.len() - 1
        };
        match answers(&request, before) {
            Reply::Whole(bytes) => {
                if stream.write_all(bytes.as_bytes()).is_err() {
                    return;
                }
            }
            Reply::Stall(bytes) => {
                let _ = stream.write_all(bytes.as_bytes());
                let _ = std::io::copy(&mut lines, &mut std::io::sink());
                return;
            }
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn read(lines: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut line = String::new();
    let mut next = |lines: &mut BufReader<TcpStream>| {
        line.clear();
        let read = lines.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let _ = read;
        Some(line.trim_end().to_owned())
    };
    let first = next(lines)?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let line = next(lines)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().expect("a number"));
    let mut body = vec![0; length];
    lines.read_exact(&mut body).ok()?;
    let from = lines.get_ref().peer_addr();
    Some(Seen {
        method,
        path,
        headers,
        body: String::from_utf8(body).expect("text"),
        from: from.ok().map(|from| from.ip()),
    })
}
