//! The addresses to which a sink can connect.
//!
//! **Invariant**: an address is rejected unless it is known to be public or a listed network contains it; an address
//! that embeds another one is treated like the embedded one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use settings::Network;

/// IPv4 addresses that are not public: IANA's registry of special addresses, multicast, and a metadata service that has
/// a public address. A guest could otherwise reach what only this machine or its network can.
const SPECIAL_V4: [Network; 17] = [
    Network::v4(0, 0, 0, 0, 8),
    Network::v4(10, 0, 0, 0, 8),
    Network::v4(100, 64, 0, 0, 10),
    Network::v4(127, 0, 0, 0, 8),
    Network::v4(168, 63, 129, 16, 32),
    Network::v4(169, 254, 0, 0, 16),
    Network::v4(172, 16, 0, 0, 12),
    Network::v4(192, 0, 0, 0, 24),
    Network::v4(192, 0, 2, 0, 24),
    Network::v4(192, 31, 196, 0, 24),
    Network::v4(192, 88, 99, 0, 24),
    Network::v4(192, 168, 0, 0, 16),
    Network::v4(198, 18, 0, 0, 15),
    Network::v4(198, 51, 100, 0, 24),
    Network::v4(203, 0, 113, 0, 24),
    Network::v4(224, 0, 0, 0, 4),
    Network::v4(240, 0, 0, 0, 4),
];

/// The IPv6 addresses that are routed between networks. All others count as not public, because new special ranges may
/// appear there.
const GLOBAL_V6: Network = Network::v6([0x2000, 0, 0, 0], 3);

/// Those among them that are not public: protocol assignments (including Teredo), documentation, 6to4.
const SPECIAL_V6: [Network; 5] = [
    Network::v6([0x2001, 0, 0, 0], 23),
    Network::v6([0x2001, 0xdb8, 0, 0], 32),
    Network::v6([0x2002, 0, 0, 0], 16),
    Network::v6([0x2620, 0x4f, 0x8000, 0], 48),
    Network::v6([0x3fff, 0, 0, 0], 20),
];

const NAT64: Network = Network::v6([0x64, 0xff9b, 0, 0], 96);
const SIX_TO_FOUR: Network = Network::v6([0x2002, 0, 0, 0], 16);
const COMPATIBLE: Network = Network::v6([0, 0, 0, 0], 96);

/// The addresses of one sink.
#[derive(Debug)]
pub(crate) struct Addresses {
    networks: Vec<Network>,
}

impl Addresses {
    pub(crate) fn new(networks: Vec<Network>) -> Self {
        Self { networks }
    }

    /// Whether a connection to it is allowed.
    pub(super) fn allow(&self, address: IpAddr) -> bool {
        // The kernel takes an IPv4-mapped address for the one that it carries.
        let address = address.to_canonical();
        let listed = |address| self.networks.iter().any(|own| own.contains(address));
        match address {
            IpAddr::V4(v4) => is_public_v4(v4) || listed(address),
            IpAddr::V6(v6) => match carried(v6) {
                Some(inner) => listed(address) && (is_public_v4(inner) || listed(inner.into())),
                None => is_public_v6(v6) || listed(address),
            },
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let mut special = SPECIAL_V4.iter();
    !special.any(|network| network.contains(address.into()))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let mut special = SPECIAL_V6.iter();
    GLOBAL_V6.contains(address.into()) && !special.any(|network| network.contains(address.into()))
}

/// The IPv4 address to which a translator or a tunnel would convert it. A private IPv4 address could otherwise be
/// reached by its IPv6 form.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [_, b, c, _, _, _, g, h] = address.segments();
    let joined = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    if NAT64.contains(address.into()) {
        Some(joined(g, h))
    } else if SIX_TO_FOUR.contains(address.into()) {
        Some(joined(b, c))
    } else if COMPATIBLE.contains(address.into())
        && !address.is_loopback()
        && !address.is_unspecified()
    {
        Some(joined(g, h))
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
