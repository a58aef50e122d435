//! Limits of the connections of a listener: of all clients, and of one client.
//!
//! **Invariant**: a connection without a request never keeps a place that another connection needs. When no place is
//! free, the oldest connection without a request is closed: of the same client, if that client has reached its limit.
//! Health checks are answered even when all places are in use. A client is one address, or an IPv6 network of 64 bits.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use settings::{Networks, party};

use super::listen::Places;

/// Minimum time that a connection can be without a request, even if another connection needs its place.
const SILENT_TIME_MIN: Duration = Duration::from_millis(200);
/// Places for health checks when no other place is free.
const RESERVED: usize = 16;
/// Number of clients up to which clients without a connection are always kept.
const FORGOTTEN_MIN: usize = 64;

/// The open connections of a listener.
pub(super) struct Admission {
    places: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    of_client_max: usize,
    /// Networks without a limit per client.
    exempt: Networks,
    clients: HashMap<IpAddr, Client>,
    /// With this many clients, clients without a connection are removed.
    clients_max: usize,
    /// Connections without a request, of all clients.
    silent: Queue,
}

/// The connections of one client.
#[derive(Default)]
struct Client {
    /// Each open connection holds one reference.
    connections: Arc<()>,
    silent: Queue,
}

impl Client {
    fn open(&self) -> usize {
        Arc::strong_count(&self.connections) - 1
    }
}

/// Connections without a request, the oldest first. Entries whose connection has a request by now are removed later.
#[derive(Default)]
struct Queue(VecDeque<Weak<Silent>>);

impl Queue {
    /// Adds the newest connection. Removes outdated entries when the queue is full.
    fn add(&mut self, silent: &Arc<Silent>) {
        if self.0.len() == self.0.capacity() {
            self.0.retain(|one| one.strong_count() > 0);
            // The capacity is doubled, so that the next removal is not soon.
            self.0.reserve(self.0.len() + 1);
        }
        self.0.push_back(Arc::downgrade(silent));
    }

    fn oldest(&mut self) -> Option<Arc<Silent>> {
        while let Some(first) = self.0.front() {
            if let Some(silent) = first.upgrade() {
                return Some(silent);
            }
            self.0.pop_front();
        }
        None
    }

    /// Closes the oldest connection, if any.
    fn close_oldest(&mut self) -> bool {
        let oldest = self.oldest();
        if let Some(oldest) = &oldest {
            self.0.pop_front();
            oldest.gives_way.cancel();
        }
        oldest.is_some()
    }
}

/// A connection without a request. It is dropped when the request has arrived or the connection is closed.
#[derive(Debug)]
pub(super) struct Silent {
    /// Canceled when another connection needs the place.
    pub(super) gives_way: CancellationToken,
    since: Instant,
}

impl Silent {
    pub(super) fn now() -> Arc<Self> {
        Arc::new(Self {
            gives_way: CancellationToken::new(),
            since: Instant::now(),
        })
    }

    fn may_be_closed_at(&self) -> Instant {
        self.since + SILENT_TIME_MIN
    }
}

/// A place that is in use until the connection is closed.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    _of_client: Option<Arc<()>>,
    /// It is one of the places for health checks.
    pub(super) is_reserved: bool,
}

impl Admission {
    pub(super) fn new(places: Places) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places.max)),
            reserved: Arc::new(Semaphore::new(RESERVED)),
            of_client_max: places.of_address_max,
            exempt: places.exempt,
            clients: HashMap::new(),
            clients_max: FORGOTTEN_MIN,
            silent: Queue::default(),
        }
    }

    /// Reserves a place for a connection. An address outside of the exempt networks is subject to the limit per client.
    /// `None`: the connection is rejected because its client has reached the limit.
    pub(super) async fn admit(
        &mut self,
        address: Option<IpAddr>,
        silent: &Arc<Silent>,
    ) -> Option<Place> {
        let address = address.filter(|address| !self.exempt.contains(Some(*address)));
        let of_client = match address.map(|address| self.of_client(party(address))) {
            None => None,
            Some(Some(one)) => Some(one),
            Some(None) => {
                let permit = Arc::clone(&self.reserved).try_acquire_owned().ok()?;
                return Some(Place::reserved(permit));
            }
        };
        let place = self.place(of_client).await?;
        if !place.is_reserved {
            let client = address.and_then(|address| self.clients.get_mut(&party(address)));
            if let Some(client) = client {
                client.silent.add(silent);
            }
            self.silent.add(silent);
        }
        Some(place)
    }

    /// A reference for a connection of a client, if the client is below its limit or its oldest connection without a
    /// request could be closed.
    fn of_client(&mut self, client: IpAddr) -> Option<Arc<()>> {
        if self.clients.len() >= self.clients_max {
            self.clients.retain(|_, client| client.open() > 0);
            self.clients_max = FORGOTTEN_MIN.max(2 * self.clients.len());
        }
        let client = self.clients.entry(client).or_default();
        let oldest = client.silent.oldest();
        if client.open() >= self.of_client_max {
            oldest.filter(|oldest| oldest.may_be_closed_at() <= Instant::now())?;
            client.silent.close_oldest();
        }
        Some(Arc::clone(&client.connections))
    }

    /// Reserves one of all places. If none is free, the oldest connection without a request is closed. If all
    /// connections have requests, the result is a reserved place, or the first that becomes free.
    async fn place(&mut self, of_client: Option<Arc<()>>) -> Option<Place> {
        let of_all = |permit| Place {
            _permit: permit,
            _of_client: of_client,
            is_reserved: false,
        };
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(of_all(permit));
        }
        let free = Arc::clone(&self.places).acquire_owned();
        tokio::pin!(free);
        let due = match self.silent.oldest() {
            Some(oldest) => oldest.may_be_closed_at(),
            None => Instant::now() + SILENT_TIME_MIN,
        };
        tokio::select! {
            biased;
            permit = &mut free => return permit.ok().map(of_all),
            () = sleep_until(due) => {}
        }
        if self.silent.close_oldest() {
            return free.await.ok().map(of_all);
        }
        tokio::select! {
            biased;
            permit = &mut free => permit.ok().map(of_all),
            permit = Arc::clone(&self.reserved).acquire_owned() => permit.ok().map(Place::reserved),
        }
    }
}

impl Place {
    fn reserved(permit: OwnedSemaphorePermit) -> Self {
        Self {
            _permit: permit,
            _of_client: None,
            is_reserved: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(max: usize, of_address_max: usize) -> Admission {
        let exempt = Networks::of(["10.0.0.0/8"]).expect("networks");
        Admission::new(Places {
            max,
            of_address_max,
            exempt,
        })
    }

    impl Admission {
        /// A connection that has had no request since this time.
        async fn open(&mut self, address: &str, since: Instant) -> (Option<Place>, Arc<Silent>) {
            let silent = Arc::new(Silent {
                gives_way: CancellationToken::new(),
                since,
            });
            let address = address.parse().ok();
            (self.admit(address, &silent).await, silent)
        }

        /// A connection whose request has arrived.
        async fn asks(&mut self, address: &str) -> Place {
            self.open(address, Instant::now()).await.0.expect("a place")
        }
    }

    #[tokio::test]
    async fn each_client_has_so_many_connections_and_proxies_have_more() {
        let mut admission = admission(100, 2);
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
    async fn the_oldest_without_a_request_gives_way_to_its_own_client() {
        let mut admission = admission(100, 2);
        let long_ago = Instant::now() - SILENT_TIME_MIN;
        let (_elsewhere, others) = admission.open("192.0.2.9", long_ago).await;
        let (_first, first) = admission.open("192.0.2.1", long_ago).await;
        let later = Instant::now() + Duration::from_secs(3_600);
        let (_second, second) = admission.open("192.0.2.1", later).await;
        let third = admission.asks("192.0.2.1").await;
        assert!(!third.is_reserved);
        let young = admission.asks("192.0.2.1").await;
        assert!(young.is_reserved, "the second may still send its request");
        assert!(first.gives_way.is_cancelled());
        assert!(!second.gives_way.is_cancelled() && !others.gives_way.is_cancelled());
    }

    #[tokio::test]
    async fn without_a_place_the_oldest_of_all_gives_way_and_health_has_a_reserve() {
        let mut admission = admission(2, 100);
        let (silent, oldest) = admission.open("192.0.2.1", Instant::now()).await;
        let _asks = admission.asks("192.0.2.2").await;
        let told = oldest.gives_way.clone();
        let closes = async {
            told.cancelled().await;
            drop((silent, oldest));
        };
        let (_third, ()) = tokio::join!(admission.asks("192.0.2.3"), closes);
        let mut reserved = Vec::new();
        for _ in 0..RESERVED {
            let place = admission.asks("192.0.2.4").await;
            assert!(place.is_reserved);
            reserved.push(place);
        }
        let more = admission.asks("192.0.2.4");
        let waits = tokio::time::timeout(SILENT_TIME_MIN * 10, more).await;
        assert!(waits.is_err(), "it waits for a place");
        reserved.pop();
        assert!(admission.asks("192.0.2.4").await.is_reserved);
    }

    #[tokio::test]
    async fn clients_without_a_connection_are_forgotten() {
        let mut admission = admission(10_000, 2);
        let kept = admission.asks("192.0.2.1").await;
        let (_silent, _oldest) = admission.open("192.0.2.1", Instant::now()).await;
        for n in 0..10_000_u32 {
            let address = std::net::Ipv4Addr::from(n | 1 << 24).to_string();
            drop(admission.asks(&address).await);
        }
        assert!(admission.clients.len() <= FORGOTTEN_MIN);
        assert!(admission.silent.0.len() <= FORGOTTEN_MIN);
        drop(kept);
    }
}
