//! The client behind a proxy, as a trusted proxy names it in a header.
//!
//! **Invariant**: only the trusted proxies of the configuration are believed, and only for the entries that they wrote
//! themselves.

pub mod hops;

use std::net::IpAddr;

use salvo_core::Request;
use salvo_core::http::header::{FORWARDED, HeaderMap, HeaderName};

use journal::log::Client;
use settings::{Networks, ProxyHeader, Server};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The trusted proxies, and their header.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    trusted: Networks,
    header: ProxyHeader,
}

impl Proxies {
    /// The proxies of the configuration.
    pub(super) fn of(settings: &Server) -> Self {
        Self {
            trusted: settings.trusted_proxies.clone(),
            header: settings.proxy_header,
        }
    }

    /// The client that a trusted proxy names; `None`: the peer of the connection is the client.
    pub(super) fn client(&self, peer: Client, req: &Request) -> Option<Client> {
        match self.trusts(peer) {
            true => self.named(req.headers()).map(Client::Address),
            false => None,
        }
    }

    fn trusts(&self, client: Client) -> bool {
        self.trusted.contains(client.address())
    }

    fn named(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let name = match self.header {
            ProxyHeader::XForwardedFor => X_FORWARDED_FOR,
            ProxyHeader::Forwarded => FORWARDED,
            // The address is set when the connection is accepted.
            ProxyHeader::ProxyProtocol => return None,
        };
        let lines: Vec<&str> = (headers.get_all(name).iter())
            .filter_map(|line| line.to_str().ok())
            .collect();
        hops::client(self.header, &lines, |address| {
            self.trusts(Client::Address(address))
        })
    }
}

#[cfg(test)]
mod tests;
