//! Unit tests of `unauthenticated.rs`.

use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn requests_beyond_the_rate_are_told_to_wait_and_others_are_not() {
    assert!(Unauthenticated::new(0).is_none());
    let unauthenticated = Unauthenticated::new(2).expect("a limit");
    let burst = 2 * BURST.get();
    for n in 0..burst {
        assert_eq!(
            unauthenticated.over(address("192.0.2.1"), Lived::MIN),
            None,
            "{n}"
        );
    }
    assert!(
        unauthenticated
            .over(address("192.0.2.1"), Lived::MIN)
            .is_some()
    );
    assert_eq!(unauthenticated.over(address("192.0.2.2"), Lived::MIN), None);
}

#[test]
fn those_that_are_remembered_are_swept_once_a_second_and_no_more_are_added_before() {
    // At this rate, all clients except the last can be removed immediately.
    let unauthenticated = Unauthenticated::new(1_000_000).expect("a limit");
    let mut next = 0_u32;
    let mut come = |now| {
        next += 1;
        unauthenticated.over(IpAddr::V4(next.into()), now);
        unauthenticated.rate.len()
    };
    while come(Lived::from_ms(5_000)) < CLIENTS_MAX {}
    assert!(come(Lived::from_ms(5_000)) < CLIENTS_MAX, "the first sweep");
    while come(Lived::from_ms(5_000)) < CLIENTS_MAX {}
    for _ in 0..3 {
        assert_eq!(
            come(Lived::from_ms(5_999)),
            CLIENTS_MAX + 1,
            "others are as one"
        );
    }
    assert!(come(Lived::from_ms(6_000)) < CLIENTS_MAX, "the next sweep");
}
