//! What was last seen of screens, over restarts: a row for each read key.
//!
//! **Invariant**: what a row says is the business of who wrote it.

use std::sync::Arc;

use super::{Catalog, CatalogError, KeyHash, ReadKey};

pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS screens (
    read_key TEXT PRIMARY KEY,
    seen TEXT NOT NULL
) WITHOUT ROWID;";

impl Catalog {
    /// What was written of screens, by read key. What keys that are gone left is forgotten. Blocks.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn screens(&self) -> Result<Vec<(String, String)>, CatalogError> {
        let entries = self.now();
        self.write(|store| {
            store.connection.execute_batch(TABLE)?;
            let mut statement = store
                .connection
                .prepare("SELECT read_key, seen FROM screens")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let rows = rows.collect::<Result<Vec<(String, String)>, _>>()?;
            let is_there = |(key, _): &(String, String)| entries.read_keys.contains_key(&**key);
            let (there, gone): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_there);
            for (key, _) in gone {
                let sql = "DELETE FROM screens WHERE read_key = ?1";
                store.connection.execute(sql, [key])?;
            }
            Ok(there)
        })
    }

    /// The read key with this secret, whether it can be used or not. A screen whose key has ended is still known by its
    /// name so.
    pub fn read_key_of(&self, secret: &str) -> Option<Arc<ReadKey>> {
        let hash = KeyHash::of(secret);
        let mut keys = self.now().read_keys.clone().into_values();
        keys.find(|key| key.hash == hash)
    }

    /// Writes what was seen. Blocks.
    ///
    /// # Errors
    /// The file cannot be written; nothing is then.
    pub fn keep_screens(&self, seen: &[(String, String)]) -> Result<(), CatalogError> {
        self.write(|store| {
            let sql = "INSERT OR REPLACE INTO screens VALUES (?1, ?2)";
            let mut put = store.connection.prepare_cached(sql)?;
            for (key, seen) in seen {
                put.execute([key, seen])?;
            }
            Ok(())
        })
    }
}
