//! The streams that acts concern, in memory, so that all others cost one look a batch.
//!
//! **Invariant**: a key that has a row in one of the tables of acts is known here, or its whole stream is; one too many
//! costs a look into the file.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use rusqlite::Connection;

use super::STREAM;

/// Every stream and key that has a row.
const KEYS: &str = "SELECT stream, key FROM shown UNION SELECT stream, key FROM writes UNION SELECT stream, key FROM kept_of
    UNION SELECT stream, key FROM holds";

/// The streams that acts concern.
#[derive(Debug, Default)]
pub(crate) struct ActStreams {
    of: HashMap<Arc<str>, Concern>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Concern {
    /// The whole stream is held. Then its keys need not be known, because each of them is concerned.
    held: bool,
    /// Hashes of keys instead of keys, which may be long. Two that collide cost a look into the file.
    keys: HashSet<u64>,
}

impl ActStreams {
    pub(crate) fn load(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut streams = Self::default();
        let mut select = connection.prepare(KEYS)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            streams.add(&row.get::<_, Arc<str>>(0)?, row.get_ref(1)?.as_str()?);
        }
        Ok(streams)
    }

    /// Whether what happens to this key may be another thing to what is shown.
    pub(crate) fn concern(&self, stream: &str, key: &str) -> bool {
        match self.of.get(stream) {
            None => false,
            Some(concern) => concern.held || concern.keys.contains(&self.hasher.hash_one(key)),
        }
    }

    /// From now on it does. With [`STREAM`] for a key: the whole stream.
    pub(crate) fn add(&mut self, stream: &Arc<str>, key: &str) {
        let hash = self.hasher.hash_one(key);
        if !self.of.contains_key(stream) {
            self.of.insert(Arc::clone(stream), Concern::default());
        }
        if let Some(concern) = self.of.get_mut(stream) {
            match key {
                STREAM => concern.held = true,
                _ => _ = concern.keys.insert(hash),
            }
        }
    }

    /// A transaction has changed something of the stream and is committed: forgets what is over. Otherwise each key
    /// that was ever overridden would cost a look for ever.
    pub(crate) fn settle(
        &mut self,
        connection: &Connection,
        stream: &str,
    ) -> Result<(), rusqlite::Error> {
        let any = format!("SELECT EXISTS (SELECT 1 FROM ({KEYS}) WHERE stream = ?1)");
        let held = "SELECT EXISTS (SELECT 1 FROM holds WHERE stream = ?1 AND key = '')";
        let ask = |sql: &str| {
            connection
                .prepare_cached(sql)?
                .query_row([stream], |row| row.get::<_, bool>(0))
        };
        if !ask(&any)? {
            self.of.remove(stream);
        } else if let Some(concern) = self.of.get_mut(stream) {
            concern.held = ask(held)?;
        }
        Ok(())
    }
}
