//! What stands between the daemon and a renderer, and lets through as much as the test wants.
//!
//! **Invariant**: its buffers are small, so that what does not pass soon stays with the daemon.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use crate::app::in_background;

const RECEIVE_BUFFER_BYTES: u32 = 4 << 10;

/// So many bytes pass at once; a byte a second from then on.
type Width = Option<usize>;

/// Takes one connection after the other.
#[derive(Debug)]
pub(super) struct Strait {
    address: String,
    /// `None`: open.
    width: watch::Sender<Width>,
}

impl Strait {
    /// One in front of this address, open.
    pub(super) async fn to(daemon: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it listens").to_string();
        let (width, wanted) = watch::channel(None);
        drop(in_background(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = connect_with_small_buffer(daemon).await;
                drop(in_background(pass(near, far, wanted.clone())));
            }
        }));
        Self { address, width }
    }

    /// Where the renderer connects to.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// From now on a byte a second.
    pub(super) fn narrow(&self) {
        self.narrow_after(0);
    }

    /// A byte a second after so many bytes.
    pub(super) fn narrow_after(&self, bytes: usize) {
        self.width.send_replace(Some(bytes));
    }

    /// Everything passes.
    pub(super) fn open(&self) {
        self.width.send_replace(None);
    }
}

/// A connection whose other end soon has to wait.
pub(super) async fn connect_with_small_buffer(daemon: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    let set = socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
    set.expect("a small buffer");
    socket.connect(daemon).await.expect("it listens")
}

async fn pass(near: TcpStream, far: TcpStream, mut width: watch::Receiver<Width>) {
    let (mut from_renderer, mut to_renderer) = near.into_split();
    let (mut from_daemon, mut to_daemon) = far.into_split();
    let up = in_background(async move {
        let _ = tokio::io::copy(&mut from_renderer, &mut to_daemon).await;
    });
    let mut buffer = vec![0; 64 << 10];
    let mut left = *width.borrow_and_update();
    loop {
        let most = left.unwrap_or(buffer.len()).clamp(1, buffer.len());
        let read = tokio::select! {
            changed = width.changed() => {
                if changed.is_err() {
                    break;
                }
                left = *width.borrow_and_update();
                continue;
            }
            read = async {
                if left == Some(0) {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                from_daemon.read(&mut buffer[..most]).await
            } => read,
        };
        let Ok(count @ 1..) = read else { break };
        left = left.map(|left| left.saturating_sub(count));
        if to_renderer.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    up.abort();
}
