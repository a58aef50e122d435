//! What stands between a page and the daemon: a proxy that can lose its way, or does not know WebSockets.
//!
//! **Invariant**: it changes nothing of what it passes on.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A proxy in front of a daemon.
#[derive(Debug)]
pub(super) struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// The daemon; `None` while the network is gone.
    to: Option<SocketAddr>,
    websockets: bool,
    open: Vec<TcpStream>,
    /// First lines of the requests.
    requests: Vec<String>,
}

impl Proxy {
    /// A proxy that passes everything on.
    pub(super) fn to(daemon: SocketAddr) -> Self {
        Self::start(daemon, true)
    }

    /// A proxy that answers 502 to whoever asks for a WebSocket.
    pub(super) fn without_websockets(daemon: SocketAddr) -> Self {
        Self::start(daemon, false)
    }

    fn start(daemon: SocketAddr, websockets: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State {
            to: Some(daemon),
            websockets,
            open: Vec::new(),
            requests: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || pass_on(from, &state));
            }
        });
        Self { address, state }
    }

    /// Its origin, which for pages is the daemon's.
    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts every connection; new ones are closed at once.
    pub(super) fn cut(&self) {
        let mut state = self.state.lock().expect("no panic while held");
        state.to = None;
        for stream in state.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The network is back.
    pub(super) fn mend(&self, daemon: SocketAddr) {
        self.state.lock().expect("no panic while held").to = Some(daemon);
    }

    /// The requests to follow streams so far: the first line of each.
    pub(super) fn follows(&self) -> Vec<String> {
        let state = self.state.lock().expect("no panic while held");
        let follows = |line: &&String| line.starts_with("GET /api/live");
        state.requests.iter().filter(follows).cloned().collect()
    }
}

fn pass_on(mut from: TcpStream, state: &Mutex<State>) -> Option<()> {
    let to = state.lock().ok()?.to?;
    let mut to = TcpStream::connect(to).ok()?;
    let (mut back_from, mut back_to) = (to.try_clone().ok()?, from.try_clone().ok()?);
    {
        let mut state = state.lock().ok()?;
        // Cut meanwhile?
        state.to?;
        state.open.push(from.try_clone().ok()?);
        state.open.push(to.try_clone().ok()?);
    }
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut back_from, &mut back_to);
        let _ = back_to.shutdown(Shutdown::Both);
    });
    let mut chunk = [0; 16 << 10];
    loop {
        let count = from.read(&mut chunk).ok().filter(|count| *count > 0);
        let Some(count) = count else {
            return to.shutdown(Shutdown::Both).ok();
        };
        // Browsers send the head of a request in one piece.
        let text = String::from_utf8_lossy(&chunk[..count]).to_lowercase();
        if let Some((line, _)) = text.split_once(" http/1.1\r\n") {
            let line = String::from_utf8_lossy(&chunk[..line.len()]).into_owned();
            let mut state = state.lock().ok()?;
            state.requests.push(line);
            if !state.websockets && text.contains("\r\nupgrade: websocket\r\n") {
                let refusal =
                    "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _ = from.write_all(refusal.as_bytes());
                return to.shutdown(Shutdown::Both).ok();
            }
        }
        to.write_all(&chunk[..count]).ok()?;
    }
}
