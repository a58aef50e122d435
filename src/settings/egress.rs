//! What a sink may call over HTTP: hosts, networks, and their text.
//!
//! Read by the plugin engine, which asks for each request.
//!
//! **Invariant**: what is displayed parses back to the same value; a host that is not written down is never matched.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::problem::quoted;

/// A host that a sink may call: `api.example.com`, `*.example.com:8443`, `10.0.0.5`, `[2001:db8::1]:8443`, and
/// `http://…` for one that is called without encryption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    encrypted: bool,
    name: HostName,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostName {
    Address(IpAddr),
    /// Lower case.
    Name(String),
    /// What follows the `*`, from the dot on, in lower case.
    Below(String),
}

impl Host {
    /// Whether it is called over TLS.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Whether this is the host of a URL: its scheme, its host as it stands there, and its port or the scheme's own.
    pub fn matches(&self, encrypted: bool, host: &str, port: u16) -> bool {
        if (encrypted, port) != (self.encrypted, self.port) {
            return false;
        }
        match &self.name {
            HostName::Address(own) => address(host).is_some_and(|address| address == *own),
            HostName::Name(own) => host.eq_ignore_ascii_case(own),
            HostName::Below(suffix) => {
                let host = host.to_ascii_lowercase();
                host.strip_suffix(suffix.as_str()).is_some_and(is_name)
            }
        }
    }
}

impl FromStr for Host {
    /// A message for the person who wrote the setting.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (encrypted, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            Some(_) => return Err(mismatch(text)),
            None => (true, text),
        };
        let (host, port) = match rest.rsplit_once(':') {
            // The colons of an address without brackets.
            Some((before, _)) if before.contains(':') && !before.ends_with(']') => (rest, None),
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        };
        let port = match port {
            None => default_port(encrypted),
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                let port = port.parse().ok().filter(|port| *port > 0);
                port.ok_or_else(|| mismatch(text))?
            }
            Some(_) => return Err(mismatch(text)),
        };
        let name = match (address(host), host.strip_prefix('*')) {
            (Some(address), _) => HostName::Address(address),
            (None, Some(suffix)) => match suffix.strip_prefix('.') {
                Some(domain) if is_name(domain) => HostName::Below(suffix.to_ascii_lowercase()),
                _ => return Err(mismatch(text)),
            },
            (None, None) if is_name(host) => HostName::Name(host.to_ascii_lowercase()),
            (None, None) => return Err(mismatch(text)),
        };
        Ok(Self {
            encrypted,
            name,
            port,
        })
    }
}

fn mismatch(text: &str) -> String {
    format!(
        "{} is not a host; expected \"api.example.com\", \"*.example.com\", \"10.0.0.5:8443\", or \"http://host\" for one without encryption; no path",
        quoted(text)
    )
}

/// The port of a URL that names none.
pub fn default_port(encrypted: bool) -> u16 {
    if encrypted { 443 } else { 80 }
}

/// The address that a host is in its usual form, with or without brackets.
pub(crate) fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(rest) => Some(rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.into()),
        None => host.parse().ok(),
    }
}

/// Labels of letters, digits, `-` and `_`, none of them empty.
pub(crate) fn is_name(text: &str) -> bool {
    text.split('.').all(|label| {
        !label.is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    })
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.encrypted {
            f.write_str("http://")?;
        }
        match &self.name {
            HostName::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            HostName::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            HostName::Name(name) => f.write_str(name)?,
            HostName::Below(suffix) => write!(f, "*{suffix}")?,
        }
        if self.port != default_port(self.encrypted) {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

/// Addresses with the same beginning: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// The network of these first bits of an address.
    pub const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            bits,
        }
    }

    /// The network of these first bits of an address, of which the first four groups are given.
    pub const fn v6(groups: [u16; 4], bits: u8) -> Self {
        let [a, b, c, d] = groups;
        Self {
            address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)),
            bits,
        }
    }

    /// Whether the address lies in it. An IPv4 address never lies in a network of IPv6.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    /// A message for the person who wrote the setting.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mismatch = || {
            format!(
                "{} is not a network; expected \"10.0.0.0/8\", \"fd00::/8\", or one address",
                quoted(text)
            )
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| mismatch())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => width,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                let bits = bits.parse().ok().filter(|bits| *bits <= width);
                bits.ok_or_else(mismatch)?
            }
            Some(_) => return Err(mismatch()),
        };
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests;
