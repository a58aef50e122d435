//! Who gets the cookie of a session: cookies know hosts, and no ports.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::admin::{SEEN, sign_in};
use super::daemon::Daemon;
use super::driver::Window;
use super::site::{BLANK, head};

/// Another service of this machine, which keeps what browsers send.
struct Neighbour {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Neighbour {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heads = Arc::new(Mutex::default());
        let kept = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || answer(stream, &kept));
            }
        });
        Self { port, heads }
    }

    /// Whether a cookie of this name came with a request since the last call; there was one.
    fn was_sent(&self, name: &str) -> bool {
        let heads = std::mem::take(&mut *self.heads.lock().expect("no panic while held"));
        assert!(!heads.is_empty(), "the browser asked");
        let mut lines = heads.iter().flat_map(|head| head.lines());
        lines.any(|line| line.to_lowercase().starts_with("cookie:") && line.contains(name))
    }
}

fn answer(mut stream: TcpStream, kept: &Mutex<Vec<String>>) -> Option<()> {
    let head = head(&mut stream)?;
    kept.lock().ok()?.push(head);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{BLANK}",
        BLANK.len()
    );
    stream.write_all(answer.as_bytes()).ok()
}

#[test]
fn a_session_at_a_name_below_localhost_is_told_to_no_other_service() {
    let test = "a_session_at_a_name_below_localhost_is_told_to_no_other_service";
    let Some(window) = Window::open(test) else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let neighbour = Neighbour::start();
    let port = daemon.process().admin.port();
    // Other tests have sessions in the same browser.
    let name = format!("headgate_{port}=");
    let is_told = |host: &str| {
        window.go(&format!("http://{host}:{}/", neighbour.port));
        neighbour.was_sent(&name)
    };
    let own = format!("http://headgate.localhost:{port}");
    sign_in(&window, &own, "/");
    for host in ["127.0.0.1", "localhost", "other.localhost"] {
        assert!(!is_told(host), "{host}");
    }
    // It is still there, and forms work.
    window.go(&format!("{own}/"));
    window.shows(SEEN, &json!(["Overview", false]));
    window.run("document.querySelector('.out button').click()", &json!([]));
    window.shows(SEEN, &json!(["Sign in", false]));
    // At an address every service of the address gets it.
    sign_in(&window, &format!("http://127.0.0.1:{port}"), "/");
    assert!(is_told("127.0.0.1"));
    assert!(!is_told("headgate.localhost"));
}
