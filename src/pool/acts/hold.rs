//! Holds: what is shown stays, what comes waits, until it is taken or the hold ends.
//!
//! The stream and single keys are held apart from each other; a key is frozen while either covers it.
//!
//! **Invariant**: what waits is the newest of each key, however much came. What is shown after it has new numbers: those of
//! its source are older than what screens already have.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

use super::key::{KeyState, is_frozen};
use super::record::Change;
use super::{ActRefused, Acting, Call, Fault, Made, Outcome, STREAM, Until};
use crate::change_set::ChangeSet;
use base::clock::{self, Unix};
use base::order::ChangeSeq;

/// Held keys of a stream.
const HELD_MAX: u64 = 10_000;
/// Items of a stream that is held as a whole.
const ITEMS_MAX: u64 = 1_000_000;

/// A hold, as it is kept for undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// Empty: the stream.
    pub(super) key: String,
    pub(super) n: u64,
    pub(super) since: u64,
    pub(super) by: String,
    pub(super) until_lived: Option<i64>,
    pub(super) until_wall: Option<i64>,
}

impl Held {
    pub(super) fn until(&self) -> Option<Until> {
        Until::of_columns(self.until_lived, self.until_wall)
    }

    fn read(row: &rusqlite::Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            key: row.get(0)?,
            n: row.get::<_, i64>(1)?.unsigned_abs(),
            since: row.get::<_, i64>(2)?.unsigned_abs(),
            by: row.get(3)?,
            until_lived: row.get(4)?,
            until_wall: row.get(5)?,
        })
    }
}

/// What undo needs of an act on holds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Scope {
    /// The keys that it named; none: the stream.
    pub(super) keys: Option<Vec<String>>,
    /// The holds that it made or changed, by their keys.
    pub(super) touched: Vec<String>,
    /// Those that it changed or ended, as they were.
    pub(super) before: Vec<Held>,
}

impl Scope {
    pub(super) fn read(json: &str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }

    fn json(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }
}

const COLUMNS: &str = "key, n, since_ms, by_name, until_lived, until_wall";

/// A hold of a stream, or of one of its keys.
pub(super) fn held(
    connection: &Connection,
    stream: &str,
    key: &str,
) -> Result<Option<Held>, rusqlite::Error> {
    use rusqlite::OptionalExtension;
    let sql = format!("SELECT {COLUMNS} FROM holds WHERE stream = ?1 AND key = ?2");
    connection
        .prepare_cached(&sql)?
        .query_row([stream, key], Held::read)
        .optional()
}

/// The keys of a stream that are held by themselves.
fn held_keys(connection: &Connection, stream: &str) -> Result<Vec<String>, rusqlite::Error> {
    let sql = "SELECT key FROM holds WHERE stream = ?1 AND key <> '' ORDER BY key";
    let mut select = connection.prepare_cached(sql)?;
    let keys = select.query_map([stream], |row| row.get(0))?;
    keys.collect()
}

/// For the audit log.
fn described(keys: Option<&[String]>, more: Value) -> Value {
    const NAMED_MAX: usize = 50;
    let mut value = match keys {
        None => json!({}),
        Some(keys) => json!({ "keys": &keys[..keys.len().min(NAMED_MAX)], "count": keys.len() }),
    };
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

impl Call<'_> {
    pub(super) fn hold(
        &self,
        acting: &mut Acting<'_>,
        keys: Option<&[String]>,
        until: Option<Option<Until>>,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Made, Fault> {
        self.may_hold(acting, keys)?;
        let n = pass.next();
        let mut scope = Scope {
            keys: keys.map(<[_]>::to_vec),
            ..Scope::default()
        };
        for key in names(keys) {
            let before = held(acting.connection, self.stream, key)?;
            let until = match (&before, until) {
                (Some(_), None) => continue,
                (Some(before), Some(until)) if before.until() == until => continue,
                (_, until) => until.flatten(),
            };
            let (lived, wall) = Until::columns(until);
            let (since, by) = match &before {
                Some(before) => (before.since, before.by.clone()),
                None => (Unix::now().ms(), self.by.name.to_string()),
            };
            acting.put_hold(
                self.stream,
                &Held {
                    key: key.to_owned(),
                    n: n.get(),
                    since,
                    by,
                    until_lived: lived,
                    until_wall: wall,
                },
            )?;
            scope.touched.push(key.to_owned());
            scope.before.extend(before);
        }
        let outcome = Outcome {
            changed_holds: Some(scope.touched.len() as u64),
            ..Outcome::default()
        };
        if scope.touched.is_empty() {
            return Ok(Made::nothing(outcome));
        }
        pass.count();
        let until = until.flatten().map(|until| clock::rfc3339(until.time()));
        Ok(Made {
            outcome,
            record: Some(Change {
                n,
                before: Value::Null,
                after: described(keys, json!({ "held": true, "until": until })),
                scope: scope.json(),
            }),
            seq: None,
        })
    }

    /// All keys are shown, and there are not too many.
    fn may_hold(&self, acting: &Acting<'_>, keys: Option<&[String]>) -> Result<(), Fault> {
        let Some(keys) = keys else {
            let items = self.items;
            return match items > ITEMS_MAX {
                true => Err(ActRefused::TooLargeToHold {
                    items,
                    max: ITEMS_MAX,
                }
                .into()),
                false => Ok(()),
            };
        };
        let (mut missing, mut new) = (Vec::new(), 0);
        for key in keys {
            let state = KeyState::of(acting.connection, self.stream, key)?;
            if state.shown().is_none() {
                missing.push(key.clone());
            }
            new += u64::from(held(acting.connection, self.stream, key)?.is_none());
        }
        if !missing.is_empty() {
            return Err(ActRefused::NoneToHold(missing).into());
        }
        let held: i64 = acting
            .connection
            .prepare_cached("SELECT count(*) FROM holds WHERE stream = ?1 AND key <> ''")?
            .query_row([&**self.stream], |row| row.get(0))?;
        let keys = held.unsigned_abs() + new;
        match new > 0 && keys > HELD_MAX {
            true => Err(ActRefused::TooManyHeld {
                keys,
                max: HELD_MAX,
            }
            .into()),
            false => Ok(()),
        }
    }

    pub(super) fn take(
        &self,
        acting: &mut Acting<'_>,
        keys: Option<&[String]>,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Made, Fault> {
        let n = pass.next();
        let waiting = acting.waiting(self.stream, keys)?;
        let outcome = Outcome {
            taken: Some(waiting.len() as u64),
            ..Outcome::default()
        };
        if waiting.is_empty() {
            return Ok(Made::nothing(outcome));
        }
        pass.count();
        for key in &waiting {
            acting.take(self.stream, key, Some(n), pass)?;
        }
        let scope = Scope {
            keys: keys.map(<[_]>::to_vec),
            ..Scope::default()
        };
        Ok(Made {
            record: Some(Change {
                n,
                before: Value::Null,
                after: described(keys, json!({ "taken": waiting.len() })),
                scope: scope.json(),
            }),
            outcome,
            seq: None,
        })
    }

    pub(super) fn resume(
        &self,
        acting: &mut Acting<'_>,
        keys: Option<&[String]>,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Made, Fault> {
        let n = pass.next();
        let mut before = Vec::new();
        for key in names(keys) {
            before.extend(held(acting.connection, self.stream, key)?);
        }
        let changed = before.len() as u64;
        if changed > 0 {
            pass.count();
            let ended: Vec<String> = before.iter().map(|held| held.key.clone()).collect();
            acting.end_holds(self.stream, &ended, Some(n), pass)?;
        }
        let still_held = match keys {
            None => held_keys(acting.connection, self.stream)?,
            Some(keys) => {
                let mut frozen = Vec::new();
                for key in keys {
                    if is_frozen(acting.connection, self.stream, key)? {
                        frozen.push(key.clone());
                    }
                }
                frozen
            }
        };
        let outcome = Outcome {
            changed_holds: Some(changed),
            still_held: Some(still_held),
            ..Outcome::default()
        };
        if changed == 0 {
            return Ok(Made::nothing(outcome));
        }
        let scope = Scope {
            keys: keys.map(<[_]>::to_vec),
            touched: before.iter().map(|held| held.key.clone()).collect(),
            before,
        };
        Ok(Made {
            outcome,
            record: Some(Change {
                n,
                before: described(keys, json!({ "held": true })),
                after: described(keys, json!({ "held": false })),
                scope: scope.json(),
            }),
            seq: None,
        })
    }
}

/// The keys of holds: those that are named, or the stream's.
fn names(keys: Option<&[String]>) -> Vec<&str> {
    match keys {
        None => vec![STREAM],
        Some(keys) => {
            let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        }
    }
}

impl Acting<'_> {
    pub(super) fn put_hold(
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
    fn waiting(
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
    pub(super) fn take(
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

    /// Ends these holds of a stream, that of the stream by [`STREAM`], and shows what waits and is not frozen any more.
    /// The keys whose changes are published to renderers.
    pub(super) fn end_holds(
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
