//! The limits of keys over all nodes: what this node uses of them, and what the others do.
//!
//! **Invariant**: a node that hears of the others again after a while uses almost nothing of any rate at first. Bytes
//! of a day are passed by at most what other nodes store until this one hears of it.

use std::sync::Arc;
use std::time::Duration;

use base::clock::{Unix, since_boot};
use base::node_share::NodeShare;
use catalog::{Catalog, IngestKey, KeyHash, RateId};
use cluster::{PublishedShare, Shares, Status, ToPublish, Wanted};
use postgres::{Database, DatabaseError, LimitsConnection, LimitsToPublish, PublishedRate, within};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// From one look to the next; and while nodes have published shares.
const EVERY: Duration = Duration::from_secs(1);
const EVERY_SHARED: Duration = Duration::from_millis(250);
/// What a key without a daily limit stored is for people: it is published so often.
const EVERY_UNLIMITED: Duration = Duration::from_mins(1);
const LOOK_MAX: Duration = Duration::from_secs(3);
/// A node that has not looked for so long is held for dead by the others. Its shares are divided among them then, so it
/// uses none of them any more.
const AWAY: Duration = Duration::from_secs(3);

/// What a node stored of a key: a day since 1970, and bytes.
type Stored = (Arc<IngestKey>, (u64, u64));

/// The limits of keys, which all nodes share.
pub(super) struct KeyLimits {
    id: Uuid,
    database: Database,
    catalog: Arc<Catalog>,
    status: Status,
    shares: Shares<RateId>,
    connection: Option<LimitsConnection>,
    /// When this node looked last, by [`since_boot`]; when it began to.
    looked: Option<Duration>,
    /// When what keys without a limit stored was published last.
    published_all: Option<Duration>,
}

impl KeyLimits {
    pub(super) fn new(
        id: Uuid,
        database: Database,
        catalog: &Arc<Catalog>,
        status: &Status,
    ) -> Self {
        Self {
            id,
            database,
            catalog: Arc::clone(catalog),
            status: status.clone(),
            shares: Shares::new(id),
            connection: None,
            looked: None,
            published_all: None,
        }
    }

    /// Looks until `stop`.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        while stop.run_until_cancelled(self.step()).await.is_some() {}
        // What this life stored would be lost else, up to a minute of it.
        self.published_all = None;
        if let Err(error) = within(LOOK_MAX, self.look()).await {
            tracing::debug!(%error, "what keys stored last is not published");
        }
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
    }

    /// One look, and the pause behind it. After an error the connection is replaced, because it may be in the middle of
    /// an answer.
    async fn step(&mut self) {
        if let Err(error) = within(LOOK_MAX, self.look()).await {
            tracing::debug!(%error, "the limits of keys cannot be compared with other nodes");
            self.connection = None;
        }
        tokio::time::sleep(match self.shares.are_published() {
            true => EVERY_SHARED,
            false => EVERY,
        })
        .await;
    }

    /// A share that grows is published before it is used, so that all shares together are never more than the rate.
    async fn look(&mut self) -> Result<(), DatabaseError> {
        let now = since_boot();
        let keys = self.catalog.ingest_keys();
        let publish = self.plan(now, &keys);
        self.use_shares(&keys);
        let is_due = |before: Duration| now >= before + EVERY_UNLIMITED;
        let all = self.published_all.is_none_or(is_due);
        let stored = unpublished(&keys, all);
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => LimitsConnection::to(&self.database).await?,
        };
        let publish = to_publish(&publish, &stored);
        connection.publish(self.id, &publish).await?;
        let shares = connection.shares(self.id).await?;
        self.shares
            .receive(shares.into_iter().filter_map(published_share));
        self.use_shares(&keys);
        let day = catalog::day_of(Unix::now());
        for (key, bytes) in connection.stored_elsewhere(self.id, day).await? {
            if let Some(key) = self.catalog.ingest_key(&KeyHash::from_bytes(key)) {
                key.volume.set_elsewhere((day, bytes));
            }
        }
        self.connection = Some(connection);
        for (key, day) in stored {
            key.volume.note_written(day);
        }
        if all {
            self.published_all = Some(now);
        }
        self.looked = Some(now);
        Ok(())
    }

    /// What this node was asked for, and what it has to publish because of that.
    fn plan(&mut self, now: Duration, keys: &[Arc<IngestKey>]) -> ToPublish<RateId> {
        let since = self.looked.map(|looked| now.saturating_sub(looked));
        if since.is_some_and(|since| since > AWAY) {
            self.shares.forget();
        }
        let rates = keys.iter().flat_map(|key| key.rates());
        let elapsed = since.unwrap_or(EVERY);
        let wanted = rates.filter_map(|rate| {
            let wanted = rate.take_wanted();
            (wanted > 0).then(|| Wanted {
                id: rate.id(),
                per_second: rate.per_second(),
                wanted: per_second(wanted, elapsed),
            })
        });
        self.shares.look(now, self.others(), wanted)
    }

    /// The other nodes that live.
    fn others(&self) -> Vec<Uuid> {
        let nodes = self.status.read().nodes;
        let others = nodes.iter().filter(|node| node.is_live && !node.is_this);
        others.map(|node| node.id).collect()
    }

    fn use_shares(&self, keys: &[Arc<IngestKey>]) {
        for rate in keys.iter().flat_map(|key| key.rates()) {
            rate.set_share(self.shares.of(&rate.id()));
        }
    }
}

/// What keys stored and was not published: of those with a daily limit, or of all.
fn unpublished(keys: &[Arc<IngestKey>], all: bool) -> Vec<Stored> {
    let keys = keys
        .iter()
        .filter(|key| all || key.volume.limits().bytes_per_day > 0);
    keys.filter_map(|key| Some((Arc::clone(key), key.volume.unwritten()?)))
        .collect()
}

fn to_publish(shares: &ToPublish<RateId>, stored: &[Stored]) -> LimitsToPublish {
    let ToPublish { shares, withdrawn } = shares;
    LimitsToPublish {
        shares: (shares.iter())
            .map(|(id, share, wanted)| (id.to_vec(), share.parts(), *wanted))
            .collect(),
        withdrawn: withdrawn.iter().map(|id| id.to_vec()).collect(),
        stored: (stored.iter())
            .map(|(key, (day, bytes))| (*key.hash().as_bytes(), *day, *bytes))
            .collect(),
    }
}

/// None: its ID is none of this version.
fn published_share(rate: PublishedRate) -> Option<PublishedShare<RateId>> {
    Some(PublishedShare {
        id: rate.id.try_into().ok()?,
        node: rate.node,
        share: NodeShare::of_parts(rate.share),
        wanted: rate.wanted,
    })
}

/// What that is in a second, rounded up. Rounded down, a key that is used rarely would want nothing.
fn per_second(wanted: u64, elapsed: Duration) -> u64 {
    let elapsed = elapsed.as_millis().max(1);
    let rate = (u128::from(wanted) * 1_000).div_ceil(elapsed);
    u64::try_from(rate).unwrap_or(u64::MAX)
}
