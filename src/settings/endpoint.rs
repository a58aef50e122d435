//! Where a sink can open a connection, and its text: `tcp://10.0.0.5:5250`.
//!
//! Read by the plugin engine, which asks for each connection.
//!
//! **Invariant**: what is displayed parses back to the same value; an endpoint that is not written down is never matched.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::egress::{address, is_name};
use crate::problem::quoted;

/// How what is sent travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    /// TCP with TLS.
    Tls,
    Udp,
    /// A WebSocket.
    Ws,
    /// A WebSocket over TLS.
    Wss,
}

const TRANSPORTS: [(&str, Transport); 5] = [
    ("tcp", Transport::Tcp),
    ("tls", Transport::Tls),
    ("udp", Transport::Udp),
    ("ws", Transport::Ws),
    ("wss", Transport::Wss),
];

impl Transport {
    /// Whether certificates are verified.
    pub fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// Whether what travels are messages of a WebSocket, at a path.
    pub fn is_web_socket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

/// A transport, a host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub transport: Transport,
    /// Lower case; an address without brackets.
    pub host: String,
    pub port: u16,
}

impl Endpoint {
    /// The endpoint of a URL, and the path of a WebSocket behind it; none if it is no such URL.
    pub fn of_url(url: &str) -> Option<(Self, &str)> {
        let (scheme, rest) = url.split_once("://")?;
        let (_, transport) = TRANSPORTS.iter().find(|(name, _)| *name == scheme)?;
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let is_plain = !path.contains(|one: char| one.is_control() || one == ' ' || one == '#');
        if !is_plain || !path.is_empty() && !transport.is_web_socket() {
            return None;
        }
        let (host, port) = authority.rsplit_once(':')?;
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port > 0)?;
        let host = match address(host) {
            Some(IpAddr::V6(_)) if !host.starts_with('[') => return None,
            Some(address) => address.to_string(),
            None if is_name(host) => host.to_ascii_lowercase(),
            None => return None,
        };
        let transport = *transport;
        Some((
            Self {
                transport,
                host,
                port,
            },
            path,
        ))
    }
}

impl FromStr for Endpoint {
    /// A message for the person who wrote the setting.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match Self::of_url(text) {
            Some((endpoint, "")) => Ok(endpoint),
            _ => Err(format!(
                "{} is not an endpoint; expected tcp, tls, udp, ws or wss, a host and a port, such as \"tcp://10.0.0.5:5250\"; no path",
                quoted(text)
            )),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = TRANSPORTS.iter().find(|(_, own)| *own == self.transport);
        let scheme = found.map_or("", |(name, _)| name);
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests;
