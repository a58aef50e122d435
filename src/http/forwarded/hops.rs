//! The names that proxies write: `X-Forwarded-For`, and `Forwarded` (RFC 7239).
//!
//! **Invariant**: names are read from the end, as far as those who wrote them are trusted, and never past what cannot be
//! read.

use std::net::IpAddr;

use settings::ProxyHeader;

/// Names that are looked at.
const HOPS_MAX: usize = 32;

/// The last one in the lines of a header that is no trusted proxy itself, or else the first one; up to what cannot be
/// read.
pub fn client(
    header: ProxyHeader,
    lines: &[&str],
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let read: fn(&str) -> Option<IpAddr> = match header {
        ProxyHeader::XForwardedFor => address,
        ProxyHeader::Forwarded => forwarded_for,
        ProxyHeader::ProxyProtocol => return None,
    };
    let hops = lines.iter().rev().flat_map(|line| line.rsplit(','));
    let mut named = None;
    for hop in hops.take(HOPS_MAX) {
        let Some(address) = read(hop.trim()) else {
            break;
        };
        named = Some(address);
        if !is_trusted(address) {
            break;
        }
    }
    named
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`
fn address(text: &str) -> Option<IpAddr> {
    let address = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0.parse().ok()?,
        None => match text.parse() {
            Ok(address) => address,
            Err(_) => text.split_once(':')?.0.parse().ok()?,
        },
    };
    // As it is compared with networks.
    Some(match address {
        IpAddr::V6(address) => address.to_canonical(),
        address => address,
    })
}

/// What one element of `Forwarded` says in `for=`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';');
    let mut named = pairs.filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        name.eq_ignore_ascii_case("for").then_some(value)
    });
    let value = named.next()?;
    address(value.trim_matches('"'))
}
