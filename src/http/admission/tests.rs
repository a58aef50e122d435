//! Unit tests of `admission.rs`.

use futures_util::FutureExt as _;

use super::*;

fn admission(max: usize, of_address_max: usize) -> Admission {
    let exempt = Networks::of(["10.0.0.0/8"]).expect("networks");
    Admission::new(Places {
        max,
        of_address_max,
        exempt,
    })
}

impl Silent {
    /// The only connection of a listener.
    pub(crate) fn alone() -> Arc<Self> {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned();
        let place = Place {
            permit: permit.expect("it is free"),
            _of_client: None,
            is_reserved: false,
        };
        Self::new(place, Instant::now())
    }

    /// As if another connection had its place.
    pub(crate) fn displaced_alone() -> Arc<Self> {
        let silent = Self::alone();
        silent.take();
        silent.displaced.cancel();
        silent
    }

    fn is_displaced(&self) -> bool {
        self.displaced.is_cancelled()
    }
}

impl Admission {
    /// A connection that has had no request since this time.
    async fn open(&self, address: &str, since: Instant) -> Arc<Silent> {
        let admitted = self.admit(address.parse().ok(), since).await;
        admitted.expect("a place")
    }

    /// A connection whose request has arrived.
    async fn asks(&self, address: &str) -> Place {
        let silent = self.open(address, Instant::now()).await;
        silent.take().expect("a place")
    }
}

fn long_ago() -> Instant {
    Instant::now() - SILENT_TIME_MIN
}

#[tokio::test]
async fn each_client_has_so_many_connections_and_proxies_have_more() {
    let admission = admission(100, 2);
    let first = admission.asks("192.0.2.1").await;
    let _second = admission.asks("192.0.2.1").await;
    assert!(admission.asks("192.0.2.1").await.is_reserved);
    assert!(!admission.asks("192.0.2.2").await.is_reserved);
    drop(first);
    let _first = admission.asks("192.0.2.1").await;
    let _six = [
        admission.asks("2001:db8::1").await,
        admission.asks("2001:db8::2").await,
    ];
    let whole_network = admission.asks("2001:db8::3").await;
    assert!(whole_network.is_reserved);
    assert!(!admission.asks("2001:db8:0:1::3").await.is_reserved);
    for address in ["10.0.0.1", ""] {
        for _ in 0..10 {
            let place = admission.asks(address).await;
            assert!(!place.is_reserved);
            std::mem::forget(place);
        }
    }
}

#[tokio::test]
async fn the_oldest_without_a_request_is_displaced_by_its_own_client() {
    let admission = admission(100, 2);
    let others = admission.open("192.0.2.9", long_ago()).await;
    let first = admission.open("192.0.2.1", long_ago()).await;
    let second = admission.open("192.0.2.1", Instant::now()).await;
    let third = admission.asks("192.0.2.1").await;
    assert!(!third.is_reserved);
    assert!(first.is_displaced() && first.take().is_none());
    assert!(!second.is_displaced());
    let fourth = admission.asks("192.0.2.1").await;
    assert!(!fourth.is_reserved);
    assert!(second.is_displaced(), "however young it is");
    assert!(admission.asks("192.0.2.1").await.is_reserved);
    assert!(!others.is_displaced());
}

#[tokio::test]
async fn another_client_waits_until_the_oldest_is_due() {
    let admission = admission(1, 1);
    let young = admission.open("192.0.2.1", Instant::now()).await;
    let place = admission.asks("192.0.2.2").await;
    assert!(!place.is_reserved && young.is_displaced());
    assert!(young.since + SILENT_TIME_MIN <= Instant::now());
}

#[tokio::test]
async fn nobody_waits_for_the_end_of_those_who_are_displaced() {
    let admission = admission(200, 200);
    let mut silent = Vec::new();
    for n in 0..200 {
        let address = format!("192.0.2.{n}");
        silent.push(admission.open(&address, long_ago()).await);
    }
    let mut asking = Vec::new();
    for n in 0..200 {
        let address = format!("198.51.100.{n}");
        let place = admission.asks(&address).now_or_never();
        asking.push(place.expect("it has a place at once"));
    }
    assert!(asking.iter().all(|place| !place.is_reserved));
    assert!(silent.iter().all(|one| one.is_displaced()));
}

#[tokio::test]
async fn who_has_a_request_is_not_displaced() {
    let admission = admission(2, 2);
    let first = admission.open("192.0.2.1", long_ago()).await;
    let second = admission.open("192.0.2.2", long_ago()).await;
    let _first = first.take().expect("its place");
    // The first one is still the oldest of the queue.
    let third = admission.asks("192.0.2.3").await;
    assert!(!third.is_reserved);
    assert!(second.is_displaced() && !first.is_displaced());
}

#[tokio::test]
async fn when_all_have_requests_health_has_a_reserve() {
    let admission = admission(2, 100);
    let _all = [
        admission.asks("192.0.2.1").await,
        admission.asks("192.0.2.2").await,
    ];
    let mut reserved = Vec::new();
    for _ in 0..RESERVED {
        let place = admission.asks("192.0.2.4").await;
        assert!(place.is_reserved);
        reserved.push(place);
    }
    let more = admission.asks("192.0.2.4");
    let waits = timeout(BUSY_TIME_MAX * 10, more).await;
    assert!(waits.is_err(), "it waits for a place");
    reserved.pop();
    assert!(admission.asks("192.0.2.4").await.is_reserved);
}

#[tokio::test]
async fn clients_without_a_connection_are_forgotten() {
    let admission = admission(10_000, 2);
    let kept = admission.asks("192.0.2.1").await;
    let _silent = admission.open("192.0.2.1", Instant::now()).await;
    for n in 0..10_000_u32 {
        let address = std::net::Ipv4Addr::from(n | 1 << 24).to_string();
        drop(admission.asks(&address).await);
    }
    let waiting = admission.waiting();
    assert!(waiting.clients.len() <= FORGOTTEN_MIN);
    assert!(waiting.silent.0.len() <= FORGOTTEN_MIN);
    drop(waiting);
    drop(kept);
}

#[tokio::test]
async fn a_connection_of_a_proxy_counts_for_the_client_that_the_proxy_names() {
    let admission = admission(100, 2);
    let client = "192.0.2.1".parse().expect("an address");
    let first = admission.open("10.0.0.1", long_ago()).await;
    assert!(admission.name(&first, client));
    let _second = admission.asks("192.0.2.1").await;
    let third = admission.open("10.0.0.1", long_ago()).await;
    assert!(admission.name(&third, client));
    assert!(first.is_displaced(), "it was the oldest of its client");
    let _third = third.take().expect("its place");
    let fourth = admission.open("10.0.0.1", long_ago()).await;
    assert!(admission.name(&fourth, client));
    assert!(fourth.is_reserved(), "both others have requests");
    assert_eq!(admission.places.available_permits(), 98);
    let mut reserved = Vec::new();
    for _ in 1..RESERVED {
        let one = admission.open("10.0.0.1", long_ago()).await;
        assert!(admission.name(&one, client));
        reserved.push(one);
    }
    let more = admission.open("10.0.0.1", long_ago()).await;
    assert!(!admission.name(&more, client));
    let another = "198.51.100.1".parse().expect("an address");
    assert!(admission.name(&more, another));
}

#[tokio::test]
async fn a_place_for_health_checks_is_given_to_nobody_else() {
    let admission = admission(1, 1);
    let client = "192.0.2.1".parse().expect("an address");
    let proxied = admission.open("10.0.0.1", long_ago()).await;
    let of_client = admission.waiting().of(client, 1);
    assert!(admission.name(&proxied, client));
    assert!(proxied.is_reserved());
    drop(of_client);
    let _asking = admission.asks("192.0.2.2").await;
    let reserved = admission.asks("192.0.2.3").await;
    assert!(reserved.is_reserved && !proxied.is_displaced());
}
