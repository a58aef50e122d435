//! Limits of the connections of a listener: of all clients, and of one client.
//!
//! **Invariant**: a connection without a request never keeps a place that another connection needs. When no place is
//! free, the oldest connection without a request loses its place to the new one and is closed: that of the same client,
//! if the client has reached its limit. Nobody waits for its end. Health checks are answered even when all places are
//! in use. A client is one address, or an IPv6 network of 64 bits. A connection of a proxy has its place before the proxy
//! names the client, and counts for that client from then on.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use settings::{Networks, party};

use super::listen::Places;

/// Minimum time that a connection can be without a request, even if a connection of another client needs its place. With
/// all places taken, the listener accepts as many connections in this time as it has places. It does not apply among
/// connections of one client: after a burst, all of them are younger, and a new connection with a request would be
/// rejected.
const SILENT_TIME_MIN: Duration = Duration::from_millis(20);
/// Time in which a connection gets a place for health checks only if all others have requests.
const BUSY_TIME_MAX: Duration = Duration::from_millis(200);
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
    waiting: Mutex<Waiting>,
}

/// Who can lose a place.
struct Waiting {
    clients: HashMap<IpAddr, Client>,
    /// With this many clients, clients without a connection are removed. It grows with those in use, so that a removal
    /// never comes with each connection.
    clients_max: usize,
    /// Connections without a request, of all clients.
    silent: Queue,
}

/// The connections of one client.
#[derive(Default)]
struct Client {
    /// Each place in use holds one reference. The count of its references is the number of places, so that no path can
    /// forget to give one back.
    places: Arc<()>,
    silent: Queue,
}

impl Client {
    fn in_use(&self) -> usize {
        Arc::strong_count(&self.places) - 1
    }
}

/// Connections without a request, the oldest first. Entries whose connection has a request by now are removed later. A
/// search for each request that arrives would cost more than the outdated entries.
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

    /// Since when the oldest connection has been without a request.
    fn oldest(&mut self) -> Option<Instant> {
        while let Some(first) = self.0.front() {
            if let Some(silent) = first.upgrade() {
                return Some(silent.since);
            }
            self.0.pop_front();
        }
        None
    }

    /// Takes the place of the oldest connection that has one, if it has been without a request for so long.
    fn displace(&mut self, min: Duration) -> Option<Place> {
        while self.oldest()? + min <= Instant::now() {
            let oldest = self.0.pop_front()?.upgrade();
            let place = oldest.as_ref().and_then(|oldest| oldest.give_up());
            if let (Some(oldest), Some(place)) = (oldest, place) {
                oldest.displaced.cancel();
                return Some(place);
            }
        }
        None
    }
}

/// A connection without a request. It is dropped when the request has arrived or the connection is closed.
#[derive(Debug)]
pub(super) struct Silent {
    /// Empty once another connection has its place. It is taken in one step, so that a request that arrives at the same
    /// time cannot have it, too.
    place: Mutex<Option<Place>>,
    displaced: CancellationToken,
    since: Instant,
}

impl Silent {
    fn new(place: Place, since: Instant) -> Arc<Self> {
        Arc::new(Self {
            place: Mutex::new(Some(place)),
            displaced: CancellationToken::new(),
            since,
        })
    }

    /// Its place, for the rest of the connection. `None`: another connection has it.
    pub(super) fn take(&self) -> Option<Place> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.take()
    }

    /// Its place for another connection. A place for health checks is kept: it is limited in time anyway.
    fn give_up(&self) -> Option<Place> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.take_if(|place| !place.is_reserved)
    }

    /// Changes its place, unless another connection has it.
    fn change(&self, change: impl FnOnce(&mut Place)) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_mut().map(change);
    }

    /// Whether its place is one of those for health checks.
    pub(super) fn is_reserved(&self) -> bool {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().is_some_and(|place| place.is_reserved)
    }

    /// Ends when another connection has taken its place.
    pub(super) fn displaced(&self) -> WaitForCancellationFutureOwned {
        self.displaced.clone().cancelled_owned()
    }
}

/// A place that is in use until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    permit: OwnedSemaphorePermit,
    _of_client: Option<Arc<()>>,
    is_reserved: bool,
}

impl Place {
    fn reserved(permit: OwnedSemaphorePermit) -> Self {
        Self {
            permit,
            _of_client: None,
            is_reserved: true,
        }
    }
}

impl Admission {
    pub(super) fn new(places: Places) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places.max)),
            reserved: Arc::new(Semaphore::new(RESERVED)),
            of_client_max: places.of_address_max,
            exempt: places.exempt,
            waiting: Mutex::new(Waiting {
                clients: HashMap::new(),
                clients_max: FORGOTTEN_MIN,
                silent: Queue::default(),
            }),
        }
    }

    /// Reserves a place for a connection that was accepted at `since`. An address outside of the exempt networks is
    /// subject to the limit per client. `None`: the connection is rejected because its client has reached the limit.
    pub(super) async fn admit(
        &self,
        address: Option<IpAddr>,
        since: Instant,
    ) -> Option<Arc<Silent>> {
        let client = self.limited(address);
        let of_client = match client.map(|client| self.waiting().of(client, self.of_client_max)) {
            None => None,
            Some(Some(one)) => Some(one),
            Some(None) => {
                let permit = Arc::clone(&self.reserved).try_acquire_owned().ok()?;
                return Some(Silent::new(Place::reserved(permit), since));
            }
        };
        let silent = Silent::new(self.place(of_client).await?, since);
        if !silent.is_reserved() {
            let mut waiting = self.waiting();
            if let Some(client) = client.and_then(|client| waiting.clients.get_mut(&client)) {
                client.silent.add(&silent);
            }
            waiting.silent.add(&silent);
        }
        Some(silent)
    }

    /// Counts a connection for the client that its proxy names. If the client has reached its limit, the connection gets
    /// a place for health checks. `false`: the connection is rejected, because there is none.
    pub(super) fn name(&self, silent: &Arc<Silent>, address: IpAddr) -> bool {
        let Some(client) = self.limited(Some(address)) else {
            return true;
        };
        if silent.is_reserved() {
            return true;
        }
        let mut waiting = self.waiting();
        if let Some(of_client) = waiting.of(client, self.of_client_max) {
            silent.change(|place| place._of_client = Some(of_client));
            if let Some(client) = waiting.clients.get_mut(&client) {
                client.silent.add(silent);
            }
            return true;
        }
        let Ok(permit) = Arc::clone(&self.reserved).try_acquire_owned() else {
            return false;
        };
        silent.change(|place| *place = Place::reserved(permit));
        true
    }

    /// The client to whom the limit per client applies.
    fn limited(&self, address: Option<IpAddr>) -> Option<IpAddr> {
        let address = address.filter(|address| !self.exempt.contains(Some(*address)));
        address.map(party)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves one of all places. If none is free, the oldest connection without a request loses its place. If all
    /// connections have requests, the result is a reserved place, or the first that becomes free.
    async fn place(&self, of_client: Option<Arc<()>>) -> Option<Place> {
        let of_all = |permit| Place {
            permit,
            _of_client: of_client,
            is_reserved: false,
        };
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(of_all(permit));
        }
        let free = || Arc::clone(&self.places).acquire_owned();
        loop {
            let oldest = {
                let mut waiting = self.waiting();
                if let Some(place) = waiting.silent.displace(SILENT_TIME_MIN) {
                    return Some(of_all(place.permit));
                }
                waiting.silent.oldest()
            };
            let Some(oldest) = oldest else { break };
            tokio::select! {
                biased;
                permit = free() => return permit.ok().map(of_all),
                () = sleep_until(oldest + SILENT_TIME_MIN) => {}
            }
        }
        if let Ok(permit) = timeout(BUSY_TIME_MAX, free()).await {
            return permit.ok().map(of_all);
        }
        tokio::select! {
            biased;
            permit = free() => permit.ok().map(of_all),
            permit = Arc::clone(&self.reserved).acquire_owned() => permit.ok().map(Place::reserved),
        }
    }
}

impl Waiting {
    /// A reference for a place of a client, if the client is below its limit or one of its connections without a request
    /// could be displaced.
    fn of(&mut self, client: IpAddr, max: usize) -> Option<Arc<()>> {
        if self.clients.len() >= self.clients_max {
            self.clients.retain(|_, client| client.in_use() > 0);
            self.clients_max = FORGOTTEN_MIN.max(2 * self.clients.len());
        }
        let client = self.clients.entry(client).or_default();
        if client.in_use() >= max {
            drop(client.silent.displace(Duration::ZERO)?);
        }
        Some(Arc::clone(&client.places))
    }
}

#[cfg(test)]
mod tests;
