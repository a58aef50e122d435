//! As much HTTP/1.1 as a load generator needs: the end of an answer, its status, and a blocking exchange.
//!
//! Called by the load generator, the probe and the look at the admin listener.
//!
//! **Invariant:** an answer is complete only when as many body bytes as its `Content-Length` are there, or the last of
//! its chunks is; an answer without a length is an error, never a guess.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::Result;

/// Longest wait for one blocking read or write.
const SOCKET_WAIT: Duration = Duration::from_secs(60);

/// Where an answer ends and what it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// Status code.
    pub(crate) status: u16,
    /// Offset of the body.
    pub(crate) body_at: usize,
    /// Offset of the first byte after the answer.
    pub(crate) end: usize,
    /// Whether the server closes the connection after it.
    pub(crate) closes: bool,
}

impl Head {
    /// Reads the head at the beginning of `bytes`; `None` while its empty line has not arrived, or the last of its
    /// chunks: a chunked body is left as it came.
    pub(crate) fn parse(bytes: &[u8]) -> io::Result<Option<Self>> {
        let Some(length) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let status = bytes
            .get(9..12)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| io::Error::other("answer without a status"))?;
        let body_at = length + 4;
        let (mut body_len, mut closes) = (None, false);
        for line in bytes[..length].split(|&byte| byte == b'\n').skip(1) {
            let Some(colon) = line.iter().position(|&byte| byte == b':') else {
                continue;
            };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"content-length") {
                body_len = std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.parse::<usize>().ok());
            } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                body_len = Some(match chunks_len(&bytes[body_at..])? {
                    Some(length) => length,
                    None => return Ok(None),
                });
            } else if name.eq_ignore_ascii_case(b"connection") {
                closes = value.eq_ignore_ascii_case(b"close");
            }
        }
        let body_len = body_len.ok_or_else(|| io::Error::other("answer without Content-Length"))?;
        Ok(Some(Self {
            status,
            body_at,
            end: body_at + body_len,
            closes,
        }))
    }

    /// The head, if `bytes` hold the whole answer.
    pub(crate) fn complete(bytes: &[u8]) -> io::Result<Option<Self>> {
        Ok(Self::parse(bytes)?.filter(|head| bytes.len() >= head.end))
    }
}

/// Bytes of a chunked body at the beginning of `bytes`, which has no trailers; `None` while some are missing.
fn chunks_len(bytes: &[u8]) -> io::Result<Option<usize>> {
    let mut at = 0;
    loop {
        let Some(line) = bytes[at..].windows(2).position(|two| two == b"\r\n") else {
            return Ok(None);
        };
        let size = std::str::from_utf8(&bytes[at..at + line])
            .ok()
            .and_then(|digits| usize::from_str_radix(digits, 16).ok())
            .ok_or_else(|| io::Error::other("a chunk without a size"))?;
        at += line + 2 + size + 2;
        if at > bytes.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

/// A keep-alive connection that waits for each answer.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects, without Nagle's delay.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SOCKET_WAIT))?;
        stream.set_write_timeout(Some(SOCKET_WAIT))?;
        Ok(Self {
            stream,
            buffer: Vec::with_capacity(4096),
        })
    }

    /// Sends one request, returns status and body of its answer.
    pub(crate) fn exchange(&mut self, request: &[u8]) -> io::Result<(u16, &[u8])> {
        self.send(request)?;
        self.receive()
    }

    /// Sends one request.
    pub(crate) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request)
    }

    /// Status and body of the next answer.
    pub(crate) fn receive(&mut self) -> io::Result<(u16, &[u8])> {
        self.buffer.clear();
        let mut chunk = [0; 4096];
        loop {
            let count = self.stream.read(&mut chunk)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.buffer.extend_from_slice(&chunk[..count]);
            if let Some(head) = Head::complete(&self.buffer)? {
                return Ok((head.status, &self.buffer[head.body_at..head.end]));
            }
        }
    }
}

/// GET `path` with a bearer token; the JSON body of a 200.
pub(crate) fn get_json(address: SocketAddr, path: &str, token: &str) -> Result<serde_json::Value> {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n");
    let mut client = Client::connect(address)?;
    let (status, body) = client.exchange(request.as_bytes())?;
    if status != 200 {
        return Err(format!(
            "GET {path} answered {status}: {}",
            String::from_utf8_lossy(body)
        )
        .into());
    }
    Ok(serde_json::from_slice(body)?)
}
