//! Whose connections are taken or believed: networks, and the Unix socket.
//!
//! Of keys, of the admin listener, and of trusted proxies.
//!
//! **Invariant**: what is written parses back to the same value; an address is compared in its canonical form.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Network;

/// In place of a network: whoever connects to the Unix socket.
const UNIX: &str = "unix";

/// A list of networks, as `networks = ["10.0.0.0/8", "unix"]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<Place>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Network(Network),
    Socket,
}

impl Networks {
    /// The list of these texts.
    ///
    /// # Errors
    /// The sentence about the first one that is neither a network nor `unix`.
    pub fn of<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, String> {
        let places = texts.into_iter().map(|text| place(text.as_ref()));
        places.collect::<Result<_, _>>().map(Self)
    }

    /// A list that lets nobody in.
    pub fn nowhere() -> Self {
        Self(vec![Place::Network(Network::v4(0, 0, 0, 0, 32))])
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address lies in one of them; none: the Unix socket.
    pub fn contains(&self, address: Option<IpAddr>) -> bool {
        let address = address.map(|address| address.to_canonical());
        self.0.iter().any(|place| match (place, address) {
            (Place::Network(network), Some(address)) => network.contains(address),
            (Place::Socket, None) => true,
            _ => false,
        })
    }

    /// Whether who comes from there is let in: without a list everybody is.
    pub fn admit(&self, address: Option<IpAddr>) -> bool {
        self.is_empty() || self.contains(address)
    }

    /// As they are written, one by one.
    pub fn texts(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

/// As whom an address counts: of IPv6 one has a whole network.
pub fn party(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address => address,
    }
}

/// Checks one of them.
pub(super) fn check(text: &str) -> Result<(), String> {
    place(text).map(|_| ())
}

fn place(text: &str) -> Result<Place, String> {
    match text {
        UNIX => Ok(Place::Socket),
        text => match text.parse() {
            Ok(network) => Ok(Place::Network(network)),
            Err(message) => Err(format!("{message}, or \"{UNIX}\"")),
        },
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => network.fmt(formatter),
            Self::Socket => formatter.write_str(UNIX),
        }
    }
}

/// `10.0.0.0/8, unix`
impl fmt::Display for Networks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.texts().join(", "))
    }
}

impl Serialize for Networks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.texts())
    }
}

impl<'de> Deserialize<'de> for Networks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        Self::of(texts).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_admitted_by_its_network_and_the_socket_by_its_word() {
        let check = |list: &[&str], address: Option<&str>, expected: bool| {
            let networks = Networks::of(list).expect("networks");
            let address = address.map(|text| text.parse().expect("an address"));
            assert_eq!(networks.admit(address), expected, "{list:?} {address:?}");
            assert_eq!(Networks::of(networks.texts()), Ok(networks));
        };
        check(&[], Some("192.0.2.1"), true);
        check(&[], None, true);
        check(&["192.0.2.0/24"], Some("192.0.2.1"), true);
        check(&["192.0.2.0/24"], Some("::ffff:192.0.2.1"), true);
        check(&["192.0.2.0/24"], Some("192.0.3.1"), false);
        check(&["192.0.2.0/24"], None, false);
        check(&["unix"], None, true);
        check(&["unix"], Some("127.0.0.1"), false);
        check(&["2001:db8::/32", "10.0.0.1"], Some("2001:db8::5"), true);
        let error = Networks::of(["10.0.0.0/40"]).expect_err("no network");
        assert!(error.contains("\"unix\""), "{error}");
    }
}
