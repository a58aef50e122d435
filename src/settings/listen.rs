//! Where a listener binds: an address or a Unix socket, written as one string.
//!
//! Read by the daemon, which binds it.
//!
//! **Invariant**: what is displayed parses back to the same value.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest path of a Unix socket in bytes: `sun_path` holds 108, the last of them is the terminator.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// An address to listen on: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080` or `unix:/run/headgate.sock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// `host:port` as written, ready to be resolved and bound. Port 0 lets the system choose one.
    Tcp(String),
    /// The path of a Unix socket; a relative one starts at the working directory.
    Unix(PathBuf),
}

impl Listen {
    /// Whether only programs of this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self.host_and_port() {
            None => true,
            Some((host, _)) => match host.parse::<IpAddr>() {
                Ok(address) => address.is_loopback(),
                Err(_) => host.eq_ignore_ascii_case("localhost"),
            },
        }
    }

    /// Whether it is an address of this machine's own network.
    pub fn is_loopback(&self) -> bool {
        matches!(self, Listen::Tcp(_)) && self.is_local()
    }

    /// The address by which a program of this machine reaches it; none where the system chooses the port.
    pub fn local_url(&self) -> Option<String> {
        let (host, port) = match (self, self.host_and_port()) {
            (Listen::Unix(path), _) => return Some(format!("unix:{}", path.display())),
            (Listen::Tcp(_), None | Some((_, 0))) => return None,
            (Listen::Tcp(_), Some(found)) => found,
        };
        let host = match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) if address.is_unspecified() => "127.0.0.1".to_owned(),
            Ok(IpAddr::V6(address)) if address.is_unspecified() => "[::1]".to_owned(),
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            _ => host.to_owned(),
        };
        Some(format!("http://{host}:{port}"))
    }

    /// Whether both cannot be bound at once: the same address, or the same port where one is a wildcard.
    pub(super) fn collides_with(&self, other: &Listen) -> bool {
        let (Some((host, port)), Some((other_host, other_port))) =
            (self.host_and_port(), other.host_and_port())
        else {
            return self == other;
        };
        let wildcard = |host: &str| host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
        port != 0
            && port == other_port
            && (host.eq_ignore_ascii_case(other_host) || wildcard(host) || wildcard(other_host))
    }

    /// The host without brackets, and the port.
    fn host_and_port(&self) -> Option<(&str, u16)> {
        let Listen::Tcp(address) = self else {
            return None;
        };
        split_address(address)
    }
}

fn split_address(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    // `u16::from_str` takes "+80", which no resolver does.
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let port = port.parse().ok()?;
    match host.strip_prefix('[') {
        Some(rest) => {
            let inner = rest.strip_suffix(']')?;
            inner.parse::<std::net::Ipv6Addr>().ok()?;
            Some((inner, port))
        }
        None => {
            let plausible = !host.is_empty()
                && host
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
            plausible.then_some((host, port))
        }
    }
}

impl FromStr for Listen {
    /// A message for the person who wrote the setting.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() || path.contains('\0') {
                return Err("expected a path after \"unix:\"".to_owned());
            }
            if path.len() > UNIX_PATH_BYTES_MAX {
                return Err(format!(
                    "the path of a Unix socket has at most {UNIX_PATH_BYTES_MAX} bytes; this one has {}",
                    path.len()
                ));
            }
            return Ok(Listen::Unix(PathBuf::from(path)));
        }
        match split_address(text) {
            Some(_) => Ok(Listen::Tcp(text.to_owned())),
            None => Err(format!(
                "{} is not an address; expected host:port such as \"127.0.0.1:8080\" or \"[::1]:8080\", or \"unix:/path\"",
                super::problem::quoted(text)
            )),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => f.write_str(address),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::Listen;

    #[test]
    fn a_wildcard_is_reached_by_the_loopback_address() {
        for (listen, url) in [
            ("0.0.0.0:8080", Some("http://127.0.0.1:8080")),
            ("[::]:8080", Some("http://[::1]:8080")),
            ("[fd00::1]:80", Some("http://[fd00::1]:80")),
            ("10.0.0.5:80", Some("http://10.0.0.5:80")),
            ("localhost:8080", Some("http://localhost:8080")),
            ("127.0.0.1:0", None),
            ("unix:/run/headgate.sock", Some("unix:/run/headgate.sock")),
        ] {
            let listen: Listen = listen.parse().expect("an address");
            assert_eq!(listen.local_url().as_deref(), url);
        }
    }
}
