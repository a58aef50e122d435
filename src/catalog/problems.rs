//! Which problems the stream of problems has as open, and what is being published: over restarts.
//!
//! `operate` writes what it is about to publish, then publishes it, then marks it as published. The columns `told_ms` and
//! `telling` have these by their earlier names.
//!
//! In a cluster, each node has its own rows: their keys end with its name.
//!
//! **Invariant**: what was about to be published when the daemon was killed is published again as it was, under the same
//! id.

use rusqlite::{Connection, params};

use super::{Catalog, CatalogError};
use base::clock::Lived;

/// The columns keep their earlier names, because files and entries of logs have them.
pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS published_problems (
    stream TEXT NOT NULL,
    key TEXT NOT NULL,
    fields TEXT NOT NULL,
    is_open INTEGER NOT NULL,
    told_ms INTEGER NOT NULL,
    telling BLOB,
    PRIMARY KEY (stream, key)
) WITHOUT ROWID;";

/// What was said last of a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedProblem {
    pub key: String,
    /// Of its item, as JSON.
    pub fields: String,
    pub is_open: bool,
    pub published_at: Lived,
    /// Under which id it is being published; none: it is published. The journal refuses the same id a second time.
    pub publishing: Option<[u8; 16]>,
}

impl Catalog {
    /// What was published in a stream and is open, and what was about to be published, by all nodes of a cluster. What was
    /// published in another stream under keys with this ending is forgotten: those of one node of a cluster, or with `""` all.
    /// Blocks.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn published_problems(
        &self,
        stream: &str,
        ending: &str,
    ) -> Result<Vec<PublishedProblem>, CatalogError> {
        self.write(|store| {
            store.connection.execute_batch(TABLE)?;
            let others = "DELETE FROM published_problems
                WHERE stream <> ?1 AND (?2 = '' OR substr(key, -length(?2)) = ?2)";
            store.connection.execute(others, [stream, ending])?;
            Ok(entries(&store.connection, stream)?)
        })
    }

    /// The same without a change: what the nodes of a cluster have published by now. Blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn problem_entries(&self, stream: &str) -> Result<Vec<PublishedProblem>, CatalogError> {
        let store = self.store();
        match store.connection.is_stopped() {
            true => Err(CatalogError::Closed),
            false => Ok(entries(&store.connection, stream)?),
        }
    }

    /// Writes what is about to be published. It is written before the journal has it, so that a kill in between
    /// publishes nothing twice. Blocks.
    ///
    /// # Errors
    /// The file cannot be written; nothing is then.
    pub fn publish_problems(
        &self,
        stream: &str,
        problems: &[PublishedProblem],
    ) -> Result<(), CatalogError> {
        self.write(|store| {
            let sql = "INSERT OR REPLACE INTO published_problems VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let mut put = store.connection.prepare_cached(sql)?;
            for one in problems {
                let published_at = one.published_at.to_column();
                put.execute(params![
                    stream,
                    one.key,
                    one.fields,
                    one.is_open,
                    published_at,
                    one.publishing
                ])?;
            }
            Ok(())
        })
    }

    /// What was about to be published under these ids is published; of what is over nothing more needs to be known. What other
    /// nodes of a cluster are about to publish stays. Blocks.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end_publishing(&self, ids: &[[u8; 16]]) -> Result<(), CatalogError> {
        self.write(|store| {
            let over = "DELETE FROM published_problems WHERE is_open = 0 AND telling = ?1";
            let published = "UPDATE published_problems SET telling = NULL WHERE telling = ?1";
            for sql in [over, published] {
                let mut end = store.connection.prepare_cached(sql)?;
                for id in ids {
                    end.execute([id])?;
                }
            }
            Ok(())
        })
    }
}

fn entries(
    connection: &Connection,
    stream: &str,
) -> Result<Vec<PublishedProblem>, rusqlite::Error> {
    let sql =
        "SELECT key, fields, is_open, told_ms, telling FROM published_problems WHERE stream = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([stream], |row| {
        Ok(PublishedProblem {
            key: row.get(0)?,
            fields: row.get(1)?,
            is_open: row.get(2)?,
            published_at: Lived::from_column(row.get(3)?),
            publishing: row.get(4)?,
        })
    })?;
    rows.collect()
}
