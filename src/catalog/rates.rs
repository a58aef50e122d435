//! The rates of keys that nodes of a cluster share.
//!
//! **Invariant**: a rate has the same ID on all nodes.

use std::sync::Arc;

use base::node_share::NodeShare;

use super::bucket::Bucket;
use super::{Catalog, IngestKey, KeyHash};

/// Tells the rates of all keys apart: the digest of the key, and which of its rates it is. The digest instead of a
/// name, because a key of the same name may be another one.
pub type RateId = [u8; 33];

/// A rate of a key.
#[derive(Debug)]
pub struct Rate<'a> {
    bucket: &'a Bucket,
    key: &'a KeyHash,
    kind: u8,
}

impl Rate<'_> {
    /// The same on all nodes.
    pub fn id(&self) -> RateId {
        let mut id = [0; 33];
        id[0] = self.kind;
        id[1..].copy_from_slice(self.key.as_bytes());
        id
    }

    /// Requests or bytes a second, on all nodes.
    pub fn per_second(&self) -> u64 {
        self.bucket.rate()
    }

    /// Requests or bytes that this node was asked for since the last call, also those that it refused. Counted while
    /// other nodes have a share.
    pub fn take_wanted(&self) -> u64 {
        self.bucket.take_wanted()
    }

    /// Gives this node a share of the rate.
    pub fn set_share(&self, share: NodeShare) {
        self.bucket.set_share(share, Bucket::now_ns());
    }
}

impl IngestKey {
    /// What it is found by.
    pub fn hash(&self) -> &KeyHash {
        &self.hash
    }

    /// Its rates: of requests, and of bytes if it has one.
    pub fn rates(&self) -> impl Iterator<Item = Rate<'_>> {
        let buckets = [Some(&self.quota.bucket), self.volume.bucket.as_ref()];
        (0..).zip(buckets).filter_map(|(kind, bucket)| {
            Some(Rate {
                bucket: bucket?,
                key: &self.hash,
                kind,
            })
        })
    }
}

impl Catalog {
    /// The keys of all connectors, also those that have ended.
    pub fn ingest_keys(&self) -> Vec<Arc<IngestKey>> {
        let connectors = self.connectors();
        let keys = connectors.iter().flat_map(|connector| &connector.keys);
        keys.cloned().collect()
    }

    /// The key with this digest.
    pub fn ingest_key(&self, hash: &KeyHash) -> Option<Arc<IngestKey>> {
        self.read(|entries| entries.keys.get(hash).cloned())
    }
}
