//! Unit tests of `egress/address.rs`.

use proptest::prelude::*;

use super::*;

fn allowed(networks: &[&str], address: &str) -> bool {
    let networks = networks.iter().map(|text| text.parse().expect("a network"));
    let address = address.parse().expect("an address");
    Addresses::new(networks.collect()).allow(address)
}

#[test]
fn only_public_addresses_are_allowed() {
    for public in [
        "1.1.1.1",
        "8.8.8.8",
        "93.184.216.34",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450:4001::1",
        "::ffff:8.8.8.8",
    ] {
        assert!(allowed(&[], public), "{public}");
    }
    for special in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.168.1.1",
        "198.19.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::8.8.8.8",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:808:808::",
        "3fff::1",
        "4000::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(!allowed(&[], special), "{special}");
    }
}

#[test]
fn listed_networks_are_allowed_and_their_neighbours_are_not() {
    assert!(allowed(&["127.0.0.0/8"], "127.0.0.1"));
    assert!(allowed(&["127.0.0.0/8"], "::ffff:127.0.0.1"));
    assert!(!allowed(&["127.0.0.0/8"], "::1"));
    assert!(!allowed(&["127.0.0.1"], "127.0.0.2"));
    assert!(!allowed(&["10.0.0.0/8"], "169.254.169.254"));
    assert!(allowed(&["fd00::/8"], "fd12::1"));
    // A translator's network opens what it translates to, and no more.
    assert!(allowed(&["64:ff9b::/96"], "64:ff9b::8.8.8.8"));
    assert!(!allowed(&["64:ff9b::/96"], "64:ff9b::127.0.0.1"));
    assert!(!allowed(&["127.0.0.0/8"], "64:ff9b::127.0.0.1"));
    assert!(allowed(
        &["64:ff9b::/96", "10.0.0.0/8"],
        "64:ff9b::10.0.0.1"
    ));
}

proptest! {
    #[test]
    fn an_address_of_a_special_network_is_refused_in_every_form(which in 0..SPECIAL_V4.len(), random: u32) {
        // Any address of the network: its first bits, then random ones.
        let network = SPECIAL_V4[which];
        let text = network.to_string();
        let (first, bits) = text.split_once('/').expect("a network");
        let first: Ipv4Addr = first.parse().expect("an address");
        let mask = u32::MAX.checked_shr(bits.parse().expect("a number")).unwrap_or(0);
        let address = first.to_bits() | random & mask;
        prop_assert!(network.contains(Ipv4Addr::from_bits(address).into()));
        let v4 = Ipv4Addr::from_bits(address);
        let [a, b, c, d] = v4.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let none = Addresses::new(Vec::new());
        prop_assert!(!none.allow(v4.into()));
        prop_assert!(!none.allow(v4.to_ipv6_mapped().into()));
        let carriers = Addresses::new(vec![NAT64, SIX_TO_FOUR, COMPATIBLE]);
        prop_assert!(!carriers.allow(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low).into()));
        prop_assert!(!carriers.allow(Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1).into()));
        if address > 1 {
            prop_assert!(!carriers.allow(Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low).into()));
        }
    }

    #[test]
    fn what_the_standard_library_calls_special_is_refused(bits: u32) {
        let address = Ipv4Addr::from_bits(bits);
        let special = address.is_private() || address.is_loopback() || address.is_link_local()
            || address.is_multicast() || address.is_broadcast() || address.is_unspecified()
            || address.is_documentation();
        prop_assert!(!(special && Addresses::new(Vec::new()).allow(address.into())));
    }

    #[test]
    fn ipv6_beyond_the_global_range_is_refused(bits: u128) {
        let address = Ipv6Addr::from_bits(bits);
        if bits >> 125 != 1 && address.to_ipv4_mapped().is_none() {
            prop_assert!(!Addresses::new(Vec::new()).allow(address.into()));
        }
    }
}
