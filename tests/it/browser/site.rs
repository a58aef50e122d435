//! Pages that do not come from the daemon: a web server with an origin of its own, and files.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// A page without anything in it.
pub(super) const BLANK: &str = "<!doctype html><meta charset=utf-8><title>A page</title>\
     <link rel=icon href=data:,><body>";

/// A web server for the files of one folder of the project; `/` is a blank page.
#[derive(Debug)]
pub(super) struct Site {
    address: SocketAddr,
}

impl Site {
    /// Serves a folder until the tests end.
    pub(super) fn of(folder: &str) -> Self {
        let folder = project(folder);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A browser may open a connection and say nothing on it for a while.
                let folder = folder.clone();
                std::thread::spawn(move || answer(stream, &folder));
            }
        });
        Self { address }
    }

    /// Its origin.
    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address of a file, or of the blank page.
    pub(super) fn page(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }
}

/// A file or folder of the project.
pub(super) fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The head of a request, which has no body.
pub(super) fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut chunk = [0; 4096];
    while !head.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        head.extend_from_slice(&chunk[..count]);
    }
    String::from_utf8(head).ok()
}

fn answer(mut stream: TcpStream, folder: &Path) -> Option<()> {
    let head = head(&mut stream)?;
    let path = head.split(' ').nth(1)?.trim_start_matches('/');
    let path = path.split('?').next()?;
    let (status, text) = match path {
        "" => ("200 OK", BLANK.to_owned()),
        path => match std::fs::read_to_string(folder.join(path)) {
            Ok(text) => ("200 OK", text),
            Err(_) => ("404 Not Found", String::new()),
        },
    };
    let content_type = match path.rsplit_once('.') {
        Some((_, "js" | "mjs")) => "text/javascript",
        Some((_, "json")) => "application/json",
        _ => "text/html",
    };
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}"
    );
    stream.write_all(answer.as_bytes()).ok()
}
