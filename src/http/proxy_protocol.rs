//! The PROXY protocol: a trusted proxy begins each of its connections with the address of the client.
//!
//! `server` reads it directly from the socket, so that TLS, limits and the log use the client's address.
//!
//! **Invariant**: the daemon expects a header only from the proxies of the configuration. It reads nothing beyond the
//! header, and closes their connections without one. Connections of other clients are accepted as usual.

use std::io;

use proxy_header::{ParseConfig, ProxyHeader};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The first bytes of version 2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Length of the shortest header: `PROXY UNKNOWN\r\n`.
const SHORTEST: usize = 15;
/// Length of the longest line of version 1.
const LINE_MAX: usize = 107;
/// Bytes of a header of version 2 before the variable part.
const FIXED: usize = 16;
/// Maximum bytes of the variable part. A header can announce 64 KiB, which no proxy needs.
const VARIABLE_MAX: usize = 4_096;

/// The address in the header; `None`: the connection is the proxy's own, or the proxy does not know the address. It is
/// read byte by byte where it has no length, because what follows belongs to the client.
pub(super) async fn header(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<std::net::SocketAddr>> {
    let mut bytes = vec![0; SHORTEST];
    stream.read_exact(&mut bytes).await?;
    if bytes.starts_with(SIGNATURE) {
        bytes.push(stream.read_u8().await?);
        let length = usize::from(u16::from_be_bytes([bytes[FIXED - 2], bytes[FIXED - 1]]));
        if length > VARIABLE_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        bytes.resize(FIXED + length, 0);
        stream.read_exact(&mut bytes[FIXED..]).await?;
    } else {
        while !bytes.ends_with(b"\n") {
            if bytes.len() >= LINE_MAX || !bytes.starts_with(b"PROXY ") {
                return Err(io::ErrorKind::InvalidData.into());
            }
            bytes.push(stream.read_u8().await?);
        }
    }
    let parsed = ProxyHeader::parse(&bytes, ParseConfig::default());
    let (header, _) = parsed.map_err(io::Error::other)?;
    Ok(header.proxied_address().map(|proxied| proxied.source))
}

#[cfg(test)]
mod tests;
