//! Addresses in the headers of proxies: `X-Forwarded-For`, and `Forwarded` (RFC 7239).
//!
//! **Invariant**: entries are read from the end, only as long as their writers are trusted, and never past an
//! unreadable entry.

use std::net::IpAddr;

use settings::ProxyHeader;

/// Maximum entries that are read. A client can send any number of them.
const HOPS_MAX: usize = 32;

/// The last address that is not a trusted proxy; if all are trusted, the first one. An unreadable entry ends the
/// search.
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
    // Networks are compared with the canonical form.
    Some(match address {
        IpAddr::V6(address) => address.to_canonical(),
        address => address,
    })
}

/// The address in `for=` of one element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';');
    let mut named = pairs.filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        name.eq_ignore_ascii_case("for").then_some(value)
    });
    let value = named.next()?;
    address(value.trim_matches('"'))
}
