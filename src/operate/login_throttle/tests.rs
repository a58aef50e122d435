//! Unit tests of `login_throttle.rs`.

use std::net::IpAddr;

use super::*;

fn client(last: u8) -> Client {
    Client::Address([10, 0, 0, last].into())
}

#[test]
fn pauses_grow_and_are_forgotten() {
    let login_throttle = LoginThrottle::default();
    let mut now = Lived::from_ms(1_000);
    let ms = Duration::from_millis;
    for n in 0..5 {
        let verdict = login_throttle.note(client(1), now + ms(n));
        assert_eq!(verdict.pause, None, "{n}");
        assert_eq!(verdict.to_log, (n == 0).then_some(1), "{n}");
    }
    now += ms(10);
    let mut pauses = Vec::new();
    for _ in 0..11 {
        let pause = login_throttle.note(client(1), now).pause.expect("a pause");
        // Within the pause it is what is left of it, and counts for nothing.
        let within = login_throttle.note(client(1), now + ms(1)).pause;
        assert_eq!(within, Some(pause));
        pauses.push(pause);
        now += Duration::from_secs(pause);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert_eq!(login_throttle.note(client(2), now).pause, None);
    now += ms(400_000);
    let verdict = login_throttle.note(client(1), now);
    assert_eq!(verdict.pause, None, "it is forgotten");
    assert!(verdict.to_log.is_some_and(|count| count > 1), "{verdict:?}");
}

#[test]
fn a_network_counts_once_and_no_more_are_remembered_than_there_is_room_for() {
    let address = |text: &str| Client::Address(text.parse().expect("an address"));
    let one = counted(address("2001:db8::1"));
    assert_eq!(one, counted(address("2001:db8::ffff:1")));
    assert_ne!(one, counted(address("2001:db8:0:1::1")));
    let login_throttle = LoginThrottle::default();
    for n in 0..u32::try_from(CLIENTS_MAX).expect("small") + 10 {
        login_throttle.note(Client::Address(IpAddr::V4(n.into())), Lived::from_ms(5));
    }
    let state = login_throttle.0.lock().expect("nobody panicked");
    assert_eq!(state.clients.len(), CLIENTS_MAX + 1);
    let others = &state.clients[&Client::Many];
    assert_eq!(others.count, 6, "five are free, then one a second");
    assert_eq!(state.logged.1, LOGGED_MAX);
}

#[test]
fn those_that_are_forgotten_are_swept_once_a_second() {
    let login_throttle = LoginThrottle::default();
    let come = |first: usize, count: usize, now: Lived| {
        for n in first..first + count {
            let address = u32::try_from(n).expect("small");
            login_throttle.note(Client::Address(IpAddr::V4(address.into())), now);
        }
        login_throttle
            .0
            .lock()
            .expect("nobody panicked")
            .clients
            .len()
    };
    let begin = Lived::from_ms(100_000);
    let ms = Duration::from_millis(1);
    assert_eq!(come(0, CLIENTS_MAX, begin), CLIENTS_MAX);
    // Nobody is over yet, so that the next look is a second later.
    let swept_at = begin + FORGOTTEN - ms;
    assert_eq!(come(CLIENTS_MAX, 1, swept_at), CLIENTS_MAX + 1);
    let others = come(CLIENTS_MAX, 10, swept_at + SWEEP_EVERY - ms);
    assert_eq!(others, CLIENTS_MAX + 1, "all are over, and nobody looks");
    let left = come(CLIENTS_MAX, 1, swept_at + SWEEP_EVERY);
    assert_eq!(left, 2, "the others of a moment ago, and this one");
}
