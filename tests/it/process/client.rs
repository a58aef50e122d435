//! As much HTTP as the tests of real processes need: a blocking keep-alive connection.
//!
//! **Invariant**: an answer is what arrived in full; a connection that breaks is an error, never an answer.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::setup::key_of;
use crate::wait::PROCESS_DEADLINE;

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its status code.
    pub(crate) status: u16,
    /// Its head, in lower case.
    pub(crate) head: String,
    /// Its body.
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header, whose name is given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }

    /// `data` of an answer with this status.
    #[track_caller]
    pub(crate) fn data(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.json()["data"].take()
    }

    /// The secret that a 201 shows, once.
    #[track_caller]
    pub(crate) fn secret(&self) -> String {
        let secret = self.data(201)["secret"].take();
        secret.as_str().expect("a secret").to_owned()
    }

    /// The request id that a 202 tells.
    pub(crate) fn request_id(&self) -> String {
        let body = self.json();
        let id = body["data"]["request_id"].as_str();
        id.expect("a request id").to_owned()
    }
}

/// The header that has the field `id` identify items.
pub(crate) const BY_ID: &str = "X-Item-Key: id\r\n";

/// The header of a JSON body.
pub(crate) const JSON: &str = "Content-Type: application/json\r\n";

/// The header of a secret.
pub(crate) fn bearer(secret: &str) -> String {
    format!("Authorization: Bearer {secret}\r\n")
}

/// A keep-alive connection that waits for each answer.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PROCESS_DEADLINE))?;
        stream.set_write_timeout(Some(PROCESS_DEADLINE))?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    /// Submits a body; `headers` are whole lines that end in CRLF.
    pub(crate) fn post(&mut self, stream: &str, headers: &str, body: &str) -> io::Result<Answer> {
        self.begin_post(stream, headers, body.len())?;
        self.send(body)?;
        self.answer()
    }

    /// The head of a submission, without its body.
    pub(crate) fn begin_post(
        &mut self,
        stream: &str,
        headers: &str,
        length: usize,
    ) -> io::Result<()> {
        let headers = format!("{}{JSON}{headers}", bearer(&key_of(stream)));
        self.begin("POST", "/api/ingest", &headers, length)
    }

    /// Gets something.
    pub(crate) fn get(&mut self, path: &str, secret: &str) -> io::Result<Answer> {
        self.send(format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n\r\n"
        ))?;
        self.answer()
    }

    /// Calls the admin API, with a JSON body if there is one.
    pub(crate) fn call(
        &mut self,
        method: &str,
        path: &str,
        secret: &str,
        body: &str,
    ) -> io::Result<Answer> {
        self.request(method, path, &format!("{}{JSON}", bearer(secret)), body)
    }

    /// Any request; `headers` are whole lines that end in CRLF.
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> io::Result<Answer> {
        self.begin(method, path, headers, body.len())?;
        self.send(body)?;
        self.answer()
    }

    /// The head of any request, without its body.
    pub(crate) fn begin(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        length: usize,
    ) -> io::Result<()> {
        self.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{headers}\r\n"
        ))
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Reads the head of an answer that comes before the real one.
    pub(crate) fn interim(&mut self) -> io::Result<String> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&head).into_owned())
    }

    /// Reads so many bytes of a body whose head was read with [`interim`](Self::interim).
    pub(crate) fn rest(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    /// Reads one answer, which must have a length, or a status that has no body.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        self.buffer.clear();
        let mut chunk = [0; 16 << 10];
        loop {
            let end = self.buffer.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                let head = String::from_utf8_lossy(&self.buffer[..end]).to_lowercase();
                let mut answer = Answer {
                    status: head
                        .get(9..12)
                        .and_then(|code| code.parse().ok())
                        .unwrap_or(0),
                    head,
                    body: String::new(),
                };
                let length: usize = match answer.status {
                    204 | 304 => 0,
                    _ => answer
                        .header("content-length")
                        .and_then(|length| length.parse().ok())
                        .ok_or_else(|| io::Error::other("an answer without a length"))?,
                };
                if let Some(body) = self.buffer[end + 4..].get(..length) {
                    answer.body = String::from_utf8_lossy(body).into_owned();
                    return Ok(answer);
                }
            }
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.buffer.extend_from_slice(&chunk[..count]),
            }
        }
    }
}
