//! What the catalog has, by name and in lists.
//!
//! **Invariant**: one answer is of one moment.

use std::sync::Arc;

use super::Catalog;
use super::connector::Connector;
use super::reader::ReadKey;
use super::stream::Stream;
use settings::Limits;

impl Catalog {
    /// The streams that people made, by name. The daemon's own is not among them, because nobody can change it or
    /// submit to it.
    pub fn streams(&self) -> Vec<Arc<Stream>> {
        let mut streams = self.readable_streams();
        streams.retain(|stream| !stream.is_built_in);
        streams
    }

    /// All streams, by name.
    pub fn readable_streams(&self) -> Vec<Arc<Stream>> {
        self.now().streams.values().cloned().collect()
    }

    pub fn stream(&self, name: &str) -> Option<Arc<Stream>> {
        self.read(|entries| entries.streams.get(name).cloned())
    }

    /// [`Stream::life`]; 0 if there is no such stream.
    pub fn stream_life(&self, name: &str) -> u64 {
        self.read(|entries| entries.streams.get(name).map_or(0, |stream| stream.life))
    }

    /// Whether the stream exists.
    pub fn has_stream(&self, name: &str) -> bool {
        self.read(|entries| entries.streams.contains_key(name))
    }

    /// The connectors, by name.
    pub fn connectors(&self) -> Vec<Arc<Connector>> {
        self.now().connectors.values().cloned().collect()
    }

    pub fn connector(&self, id: &str) -> Option<Arc<Connector>> {
        self.read(|entries| entries.connectors.get(id).cloned())
    }

    /// What the keys may of a connector that has no limits of its own.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What stands before the path in every URL that tools are given, if the configuration says so.
    pub fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }

    /// The read keys, by name.
    pub fn read_keys(&self) -> Vec<Arc<ReadKey>> {
        self.now().read_keys.values().cloned().collect()
    }

    pub fn read_key(&self, name: &str) -> Option<Arc<ReadKey>> {
        self.read(|entries| entries.read_keys.get(name).cloned())
    }
}
