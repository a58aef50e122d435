//! Half connections that are kept open.
//!
//! Called by the bench.
//!
//! **Invariant:** they are closed with a reset, so that none of them occupies a port afterwards.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::Result;

/// How often closed ones are looked for.
const TICK: Duration = Duration::from_millis(100);
/// How many are opened again in this time at most.
const AGAIN_MAX: usize = 300;
/// Longest wait for a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(30);
/// Longest wait for all of them.
const FILL_WAIT: Duration = Duration::from_secs(60);
/// The first address of others, and how many there are.
const OTHERS: (u32, u32) = (0x7f01_0000, 0xf0_0000);
/// Half a head.
const HALF_HEAD: &[u8] = b"POST /api/ingest HTTP/1.1\r\nHost: bench\r\nContent-Type: appl";
/// A `ClientHello` of 512 bytes that ends after its first ones.
const HALF_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

/// Whether they are open, and whether they should be.
#[derive(Debug, Default)]
pub(super) struct Open {
    is_filled: AtomicBool,
    is_over: AtomicBool,
}

impl Open {
    /// Waits until all are open, or as many as the daemon allows.
    pub(super) async fn wait_until_filled(&self) -> Result<()> {
        let filled = async {
            while !self.is_filled.load(Ordering::Acquire) {
                tokio::time::sleep(TICK / 10).await;
            }
        };
        let filled = tokio::time::timeout(FILL_WAIT, filled).await;
        Ok(filled.map_err(|_| "the half connections cannot be opened")?)
    }

    /// Has them closed.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}

/// Which half connections are kept.
#[derive(Debug)]
pub(super) struct Half {
    pub(super) service: SocketAddr,
    pub(super) tls: bool,
    pub(super) count: usize,
    /// From 127.0.0.1, instead of another address each.
    pub(super) same_address: bool,
}

impl Half {
    /// Keeps them open until the end; the average number of open ones.
    pub(super) fn keep(&self, state: &Open) -> Result<f64> {
        let mut open = Vec::with_capacity(self.count);
        let mut number = 0;
        self.add(&mut open, self.count, &mut number)?;
        state.is_filled.store(true, Ordering::Release);
        let (mut total, mut looks) = (0, 0);
        while !state.is_over.load(Ordering::Acquire) {
            std::thread::sleep(TICK);
            open.retain(is_open);
            total += open.len();
            looks += 1;
            let missing = self.count - open.len();
            self.add(&mut open, missing.min(AGAIN_MAX), &mut number)?;
        }
        Ok(total as f64 / f64::from(looks.max(1)))
    }

    fn add(&self, open: &mut Vec<TcpStream>, count: usize, number: &mut u32) -> Result<()> {
        for _ in 0..count {
            open.push(self.connect(*number)?);
            *number += 1;
        }
        Ok(())
    }

    /// The half connection of this number.
    fn connect(&self, number: u32) -> Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_linger(Some(Duration::ZERO))?;
        if !self.same_address {
            let address = Ipv4Addr::from(OTHERS.0 + number % OTHERS.1);
            socket.bind(&SocketAddr::from((address, 0)).into())?;
        }
        socket.connect_timeout(&self.service.into(), CONNECT_WAIT)?;
        let mut stream = TcpStream::from(socket);
        stream.set_nonblocking(true)?;
        if number % 2 == 1 {
            let half = if self.tls { HALF_HELLO } else { HALF_HEAD };
            // The daemon may have closed it for another one.
            let _ = stream.write_all(half);
        }
        Ok(stream)
    }
}

/// Whether the daemon has neither closed it nor answered.
fn is_open(stream: &TcpStream) -> bool {
    let mut stream = stream;
    let read = stream.read(&mut [0; 256]);
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}
