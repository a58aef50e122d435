//! A connection whose bytes the test writes itself, for what an HTTP client would never send.
//!
//! **Invariant**: nothing is sent that the test did not write.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Reply;
use crate::wait::DEADLINE;

/// An open connection.
pub(crate) struct Raw {
    stream: TcpStream,
    /// What has arrived and was not looked at.
    buffer: Vec<u8>,
}

impl Raw {
    /// Connects to `http://host:port`.
    pub(crate) async fn connect(url: &str) -> Self {
        let address = url.strip_prefix("http://").expect("a TCP listener");
        let stream = TcpStream::connect(address).await.expect("it listens");
        stream.set_nodelay(true).expect("it is connected");
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// This end's address.
    pub(crate) fn local_address(&self) -> std::net::SocketAddr {
        self.stream.local_addr().expect("it is connected")
    }

    /// Sends bytes.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        assert!(self.try_send(bytes).await, "the daemon takes what is sent");
    }

    /// Sends bytes to one who may have hung up.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        let sent = tokio::time::timeout(DEADLINE, self.stream.write_all(bytes.as_ref())).await;
        sent.expect("the daemon reads or hangs up in time").is_ok()
    }

    /// Sends no more, and waits until the daemon hangs up, too.
    pub(crate) async fn hang_up(mut self) {
        let _ = self.stream.shutdown().await;
        self.rest().await;
    }

    /// Sends the head of a `POST /api/ingest` with these further lines.
    pub(crate) async fn post_head(&mut self, secret: &str, lines: &str) {
        let head = format!(
            "POST /api/ingest HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {secret}\r\n\
             Content-Type: application/json\r\n{lines}\r\n"
        );
        self.send(head).await;
    }

    /// Reads one answer; an interim `100 Continue` is one, too.
    pub(crate) async fn reply(&mut self) -> Reply {
        let head = self.head().await;
        self.body_of(head).await
    }

    /// Reads the head of an answer.
    pub(super) async fn head(&mut self) -> Reply {
        let head = tokio::time::timeout(DEADLINE, self.read_head()).await;
        head.expect("an answer comes in time")
    }

    /// Reads the body of an answer whose head was read.
    pub(super) async fn body_of(&mut self, mut reply: Reply) -> Reply {
        let length = reply.header("content-length");
        let length: usize = length.map_or(0, |text| text.parse().expect("a length"));
        let read = async {
            while self.buffer.len() < length {
                assert!(self.more().await, "hung up within an answer");
            }
        };
        let read = tokio::time::timeout(DEADLINE, read).await;
        read.expect("the answer comes in time");
        reply.body = self.buffer.drain(..length).collect();
        reply
    }

    /// The connection, and what has arrived on it and was not looked at.
    pub(super) fn into_parts(self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.buffer)
    }

    /// Reads until the daemon hangs up, and returns everything.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let read = async { while self.more().await {} };
        let done = tokio::time::timeout(DEADLINE, read).await;
        done.expect("the daemon hangs up in time");
        std::mem::take(&mut self.buffer)
    }

    async fn read_head(&mut self) -> Reply {
        let head_end = loop {
            let found = self.buffer.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(at) = found {
                break at + 4;
            }
            assert!(self.more().await, "hung up before an answer");
        };
        let head: Vec<u8> = self.buffer.drain(..head_end).collect();
        let head = String::from_utf8(head).expect("the head is text");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status = status.and_then(|text| text.parse().ok());
        let mut headers = HeaderMap::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').expect("a header line");
            headers.append(
                HeaderName::try_from(name).expect("a header's name"),
                HeaderValue::try_from(value.trim()).expect("a header's value"),
            );
        }
        Reply {
            status: status.expect("a status line"),
            headers,
            body: Vec::new(),
        }
    }

    async fn more(&mut self) -> bool {
        self.stream
            .read_buf(&mut self.buffer)
            .await
            .is_ok_and(|n| n > 0)
    }
}
