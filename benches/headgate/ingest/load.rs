//! The load generator: keep-alive connections on one thread, each sending its next request when the answer is there.
//!
//! Called by the rounds, by `peers` and by the curves of `growth`. Raw sockets, because an HTTP client library would cost
//! more than the server it measures.
//!
//! **Invariant:** every request that was begun before the deadline is answered or counted as failed; nothing is
//! sent after it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};

use super::payload::Requests;
use crate::Result;
use crate::http::Head;

/// How long after the deadline outstanding answers may take.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// Above this a request is written while the answer is watched: a server may refuse it before it read it all.
const WATCHED_BYTES: usize = 65_536;

/// What one connection sends.
#[derive(Debug)]
pub(crate) enum Source {
    /// New keys and revisions in each request.
    Fresh(Box<Requests>),
    /// The same bytes each time, shared between connections.
    Same(Arc<[u8]>),
    /// What a function writes.
    Written(Written),
}

/// Writes a request into an empty buffer.
type Write = Box<dyn FnMut(&mut Vec<u8>)>;

/// Writes one request after the other into the same buffer.
pub(crate) struct Written {
    buffer: Vec<u8>,
    write: Write,
}

impl Written {
    /// By this function, which is given an empty buffer.
    pub(crate) fn by(write: impl FnMut(&mut Vec<u8>) + 'static) -> Self {
        Self {
            buffer: Vec::new(),
            write: Box::new(write),
        }
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written").finish_non_exhaustive()
    }
}

impl Source {
    fn next(&mut self) -> &[u8] {
        match self {
            Self::Fresh(requests) => requests.next(),
            Self::Same(bytes) => bytes,
            Self::Written(written) => {
                written.buffer.clear();
                (written.write)(&mut written.buffer);
                &written.buffer
            }
        }
    }
}

/// Where to send, for how long, and what is expected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Who is sent to.
    pub(crate) address: SocketAddr,
    /// The status that means that a request was accepted.
    pub(crate) accepted: u16,
    /// Nothing is sent after this.
    pub(crate) duration: Duration,
    /// Most requests of each connection.
    pub(crate) requests_max: u64,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Just before the first request.
    pub(crate) first_sent: Instant,
    /// When the last answer was there.
    pub(crate) last_answered: Instant,
    /// Requests that were accepted.
    pub(crate) accepted: u64,
    /// Other answers, by status.
    pub(crate) refused: BTreeMap<u16, u64>,
    /// Requests that ended in a broken connection.
    pub(crate) broken: u64,
    /// Request to complete answer, µs, of those that were accepted.
    pub(crate) latencies: Vec<u32>,
}

impl Outcome {
    fn empty(first_sent: Instant) -> Self {
        Self {
            first_sent,
            last_answered: first_sent,
            accepted: 0,
            refused: BTreeMap::new(),
            broken: 0,
            latencies: Vec::new(),
        }
    }

    fn add(&mut self, other: Self) {
        self.last_answered = self.last_answered.max(other.last_answered);
        self.accepted += other.accepted;
        for (status, count) in other.refused {
            *self.refused.entry(status).or_default() += count;
        }
        self.broken += other.broken;
        self.latencies.extend(other.latencies);
    }
}

impl Load {
    /// As many requests as are answered 202 one after the other.
    pub(crate) fn new(address: SocketAddr, duration: Duration) -> Self {
        Self {
            address,
            accepted: 202,
            duration,
            requests_max: u64::MAX,
        }
    }

    /// Sends from one connection for each source; what came back on all of them.
    pub(crate) fn run(self, sources: Vec<Source>) -> Result<Outcome> {
        let mut each = self.run_each(sources)?.into_iter();
        let mut total = each.next().ok_or("nothing to send")?;
        each.for_each(|outcome| total.add(outcome));
        Ok(total)
    }

    /// The same, for each connection, in the order of the sources.
    pub(crate) fn run_each(self, sources: Vec<Source>) -> Result<Vec<Outcome>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        LocalSet::new().block_on(&runtime, async {
            let mut connections = Vec::new();
            for source in sources {
                connections.push((Connection::open(self.address).await?, source));
            }
            let first_sent = Instant::now();
            let tasks: Vec<_> = connections
                .into_iter()
                .map(|(connection, source)| spawn_local(self.send(connection, source, first_sent)))
                .collect();
            let mut each = Vec::new();
            let answered = tokio::time::timeout(self.duration + ANSWER_WAIT, async {
                for task in tasks {
                    each.push(task.await?);
                }
                Result::Ok(())
            });
            answered
                .await
                .map_err(|_| "failed to get every answer: the server stopped answering")??;
            Ok(each)
        })
    }

    async fn send(
        self,
        mut connection: Connection,
        mut source: Source,
        first_sent: Instant,
    ) -> Outcome {
        let deadline = first_sent + self.duration;
        let mut outcome = Outcome::empty(first_sent);
        for _ in 0..self.requests_max {
            let sent = Instant::now();
            if sent >= deadline {
                break;
            }
            let answer = connection.exchange(source.next()).await;
            let answered = Instant::now();
            let keep = match &answer {
                Ok(head) => {
                    outcome.last_answered = answered;
                    if head.status == self.accepted {
                        outcome.accepted += 1;
                        let micros = answered.duration_since(sent).as_micros();
                        outcome
                            .latencies
                            .push(u32::try_from(micros).unwrap_or(u32::MAX));
                    } else {
                        *outcome.refused.entry(head.status).or_default() += 1;
                    }
                    !head.closes
                }
                Err(_) => {
                    outcome.broken += 1;
                    false
                }
            };
            if !keep && !connection.reopen(deadline).await {
                break;
            }
        }
        outcome
    }
}

struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            address,
            stream,
            buffer: Vec::with_capacity(4096),
        })
    }

    /// Connects again until it works or `deadline` has passed.
    async fn reopen(&mut self, deadline: Instant) -> bool {
        while Instant::now() < deadline {
            if let Ok(fresh) = Self::open(self.address).await {
                *self = fresh;
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }

    async fn exchange(&mut self, request: &[u8]) -> io::Result<Head> {
        self.buffer.clear();
        let (mut reader, mut writer) = self.stream.split();
        if request.len() < WATCHED_BYTES {
            writer.write_all(request).await?;
            return read_answer(&mut reader, &mut self.buffer).await;
        }
        let written = tokio::select! {
            biased;
            written = writer.write_all(request) => written,
            answer = read_answer(&mut reader, &mut self.buffer) => {
                // Refused before it was read to its end: the rest of the body must not become the next request.
                return answer.map(|head| Head { closes: true, ..head });
            }
        };
        let answer = read_answer(&mut reader, &mut self.buffer).await;
        match written {
            Ok(()) => answer,
            Err(error) => answer
                .map(|head| Head {
                    closes: true,
                    ..head
                })
                .map_err(|_| error),
        }
    }
}

async fn read_answer(
    reader: &mut (impl AsyncReadExt + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Head> {
    loop {
        if let Some(head) = Head::complete(buffer)? {
            return Ok(head);
        }
        if reader.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
