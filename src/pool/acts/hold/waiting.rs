//! What a hold keeps back, and what is shown when it ends.
//!
//! **Invariant**: what is shown of a held key changes only when what waits is taken, or when the hold ends.

use std::sync::Arc;

use rusqlite::params;
use serde_json::Value;

use super::held::{COLUMNS, Held};
use crate::acts::Acting;
use crate::acts::key::KeyState;
use crate::change_set::ChangeSet;
use base::order::ChangeSeq;

impl Acting<'_> {
    pub(in crate::acts) fn put_hold(
        &mut self,
        stream: &Arc<str>,
        held: &Held,
    ) -> Result<(), rusqlite::Error> {
        self.acts.add(stream, &held.key);
        self.connection
            .prepare_cached(&format!(
                "INSERT OR REPLACE INTO holds (stream, {COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
            ))?
            .execute(params![
                &**stream,
                held.key,
                held.n.cast_signed(),
                held.since.cast_signed(),
                held.by,
                held.until_lived,
                held.until_wall,
            ])?;
        Ok(())
    }

    /// The frozen keys of which something waits: those of the stream's hold, or of these keys.
    pub(super) fn waiting(
        &self,
        stream: &str,
        keys: Option<&[String]>,
    ) -> Result<Vec<String>, rusqlite::Error> {
        let of_stream = "SELECT key FROM kept WHERE stream = ?1
             AND EXISTS (SELECT 1 FROM holds WHERE stream = ?1 AND key = '')
             AND NOT EXISTS (SELECT 1 FROM holds WHERE holds.stream = ?1 AND holds.key = kept.key) ORDER BY key";
        let of_keys = "SELECT key FROM kept WHERE stream = ?1 AND key IN (SELECT value FROM json_each(?2)) ORDER BY key";
        let mut select = self.connection.prepare_cached(match keys {
            None => of_stream,
            Some(_) => of_keys,
        })?;
        let read = |row: &rusqlite::Row<'_>| row.get(0);
        match keys {
            None => select.query_map([stream], read)?.collect(),
            Some(keys) => {
                let keys = Value::from(keys).to_string();
                select.query_map([stream, &keys], read)?.collect()
            }
        }
    }

    /// What waits of a key is shown; what was kept goes, or is kept for the undo of act `n`. True: it is published.
    pub(in crate::acts) fn take(
        &mut self,
        stream: &Arc<str>,
        key: &str,
        n: Option<ChangeSeq>,
        pass: &mut ChangeSet<'_>,
    ) -> Result<bool, rusqlite::Error> {
        let state = KeyState::of(self.connection, stream, key)?;
        let Some(kept) = &state.kept else {
            return Ok(false);
        };
        if let Some(n) = n {
            self.acts.add(stream, key);
            self.connection
                .prepare_cached(
                    "INSERT INTO kept_of (n, stream, key, fields, updated_at, request_id, removal)
                     SELECT ?3, stream, key, fields, updated_at, request_id, removal FROM kept WHERE stream = ?1 AND key = ?2",
                )?
                .execute(params![&**stream, key, n.to_column()])?;
        }
        self.connection
            .prepare_cached("DELETE FROM kept WHERE stream = ?1 AND key = ?2")?
            .execute([&**stream, key])?;
        // Overrides from before the removal end; where the item is gone, all of an item that was there.
        let until = match (&state.source, &kept.form) {
            (None, Some(_)) => ChangeSeq::MAX,
            _ => kept.removal,
        };
        let sql = match n {
            Some(_) => {
                "UPDATE writes SET hidden = ?4 WHERE stream = ?1 AND key = ?2 AND n < ?3 AND hidden = 0"
            }
            None => {
                "DELETE FROM writes WHERE stream = ?1 AND key = ?2 AND n < ?3 AND hidden = 0 AND ?4"
            }
        };
        let mark = n.map_or(1, ChangeSeq::to_column);
        self.connection.prepare_cached(sql)?.execute(params![
            &**stream,
            key,
            until.to_column(),
            mark
        ])?;
        self.show(stream, key, pass)
    }

    /// Ends these holds of a stream, that of the stream by [`STREAM`](super::STREAM), and shows what waits and is not frozen any more.
    /// The keys whose changes are published to renderers.
    pub(in crate::acts) fn end_holds(
        &mut self,
        stream: &Arc<str>,
        holds: &[String],
        n: Option<ChangeSeq>,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Vec<String>, rusqlite::Error> {
        for key in holds {
            self.connection
                .prepare_cached("DELETE FROM holds WHERE stream = ?1 AND key = ?2")?
                .execute([&**stream, key])?;
        }
        let sql = "SELECT key FROM kept WHERE stream = ?1
             AND NOT EXISTS (SELECT 1 FROM holds WHERE holds.stream = ?1 AND holds.key IN ('', kept.key)) ORDER BY key";
        let free: Vec<String> = {
            let mut select = self.connection.prepare_cached(sql)?;
            let keys = select.query_map([&**stream], |row| row.get(0))?;
            keys.collect::<Result<_, _>>()?
        };
        let mut changed = Vec::new();
        for key in free {
            if self.take(stream, &key, n, pass)? {
                changed.push(key);
            }
        }
        Ok(changed)
    }
}
