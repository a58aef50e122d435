//! What operators see of acts: of an item, of a stream, of all.
//!
//! **Invariant**: names of operators are for operators; renderers see only which fields are overridden.

use std::sync::Arc;

use rusqlite::{Connection, params};

use super::key::{KeyState, is_frozen};
use super::{Pool, PoolError, STREAM, hold};
use base::clock::Unix;
use base::order::ChangeSeq;
use item::field_name;

/// A field that is overridden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverrideNow {
    pub field: String,
    /// As JSON.
    pub value: String,
    /// What the source says now; none: it has no such field.
    pub source: Option<String>,
    /// While it is held: what a release would show now.
    pub kept: Option<String>,
    pub by: String,
    pub at: Unix,
    pub until: Option<Unix>,
}

/// A hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSince {
    /// Empty: the whole stream.
    pub key: String,
    pub since: Unix,
    pub by: String,
    pub until: Option<Unix>,
}

/// What acts do to an item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemActs {
    pub overrides: Vec<OverrideNow>,
    /// The hold of the key, or else of the stream.
    pub held: Option<HeldSince>,
    /// A change of its source waits.
    pub waits: bool,
    /// The source's fields, where they are not what is shown; none: it has no such item.
    pub source: Option<String>,
}

/// What acts do to a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamActs {
    /// The hold of the whole stream.
    pub held: Option<HeldSince>,
    /// Those of single keys.
    pub held_keys: Vec<HeldSince>,
    /// Keys of which a change of the source waits.
    pub waiting: u64,
    /// The items with overrides, and how many fields each has.
    pub overridden: Vec<(String, u64)>,
}

impl StreamActs {
    /// Whether nothing of it is held or overridden.
    pub fn is_empty(&self) -> bool {
        self.held.is_none() && self.held_keys.is_empty() && self.overridden.is_empty()
    }

    /// How many fields are overridden.
    pub fn fields(&self) -> u64 {
        self.overridden.iter().map(|(_, fields)| fields).sum()
    }
}

impl From<hold::Held> for HeldSince {
    fn from(held: hold::Held) -> Self {
        Self {
            until: held.until().map(super::Until::time),
            key: held.key,
            since: Unix::from_ms(held.since),
            by: held.by,
        }
    }
}

impl Pool {
    /// What acts do to an item. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn item_acts(&self, stream: &str, key: &str) -> Result<ItemActs, PoolError> {
        let writer = self.lock();
        if !writer.acts.concern(stream, key) {
            return Ok(ItemActs::default());
        }
        let connection = &writer.connection;
        let state = KeyState::of(connection, stream, key)?;
        let source = state.source.as_ref().map(|(form, _)| form);
        let kept = state.kept.as_ref().map(|kept| kept.form.as_ref());
        let text = |value: Option<&str>| value.map(str::to_owned);
        let overrides = state.overrides.iter().map(|(field, own)| OverrideNow {
            field: field_name(field).into_owned(),
            value: own.value.clone(),
            source: text(source.and_then(|form| form.value(field))),
            kept: text(kept.flatten().and_then(|form| form.value(field))),
            by: own.by.clone(),
            at: own.at,
            until: own.until.map(super::Until::time),
        });
        let own = hold::held(connection, stream, key)?;
        let held = match own {
            Some(own) => Some(own),
            None => hold::held(connection, stream, STREAM)?,
        };
        Ok(ItemActs {
            overrides: overrides.collect(),
            held: held.map(HeldSince::from),
            waits: kept.is_some(),
            source: source.map(|form| form.fields.clone()),
        })
    }

    /// Whether an item is shown that its source changed by this request, or would be if it were not held. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn has_applied(
        &self,
        stream: &str,
        key: &str,
        request_id: &str,
    ) -> Result<bool, PoolError> {
        let writer = self.lock();
        let sql = "SELECT EXISTS (SELECT 1 FROM items WHERE stream = ?1 AND key = ?2 AND request_id = ?3)";
        let mut ask = writer.connection.prepare_cached(sql)?;
        Ok(ask.query_row([stream, key, request_id], |row| row.get(0))?)
    }

    /// The fields of the row of `items`, whatever is shown. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn source_fields(&self, stream: &str, key: &str) -> Result<Option<String>, PoolError> {
        let writer = self.lock();
        let state = KeyState::of(&writer.connection, stream, key)?;
        Ok(state.source.map(|(form, _)| form.fields))
    }

    /// What acts do to a stream: of held keys and overridden items at most `max` each. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn stream_acts(&self, stream: &str, max: u32) -> Result<StreamActs, PoolError> {
        let writer = self.lock();
        Ok(of_stream(&writer.connection, stream, max)?)
    }

    /// The same of all streams that have any. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn all_acts(&self, max: u32) -> Result<Vec<(Arc<str>, StreamActs)>, PoolError> {
        let writer = self.lock();
        let mut streams: Vec<Arc<str>> = writer.acts.streams().cloned().collect();
        streams.sort_unstable();
        let mut all = Vec::new();
        for stream in streams {
            let acts = of_stream(&writer.connection, &stream, max)?;
            if !acts.is_empty() {
                all.push((stream, acts));
            }
        }
        Ok(all)
    }

    /// Whether a hold covers the key now. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn is_held(&self, stream: &str, key: &str) -> Result<bool, PoolError> {
        Ok(is_frozen(&self.lock().connection, stream, key)?)
    }

    /// Number of the last change that is shown of a key. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn shown_seq(&self, stream: &str, key: &str) -> Result<ChangeSeq, PoolError> {
        Ok(KeyState::of(&self.lock().connection, stream, key)?.shown_seq())
    }
}

fn of_stream(
    connection: &Connection,
    stream: &str,
    max: u32,
) -> Result<StreamActs, rusqlite::Error> {
    let keys: Vec<String> = connection
        .prepare_cached(
            "SELECT key FROM holds WHERE stream = ?1 AND key <> '' ORDER BY key LIMIT ?2",
        )?
        .query_map(params![stream, max], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut held_keys = Vec::new();
    for key in keys {
        held_keys.extend(hold::held(connection, stream, &key)?.map(HeldSince::from));
    }
    let waiting: i64 = connection
        .prepare_cached("SELECT count(*) FROM kept WHERE stream = ?1")?
        .query_row([stream], |row| row.get(0))?;
    let overridden = connection
        .prepare_cached(
            "SELECT key, json_array_length(overridden) FROM shown WHERE stream = ?1 AND overridden <> '' ORDER BY key LIMIT ?2",
        )?
        .query_map(params![stream, max], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
        })?
        .collect::<Result<_, _>>()?;
    Ok(StreamActs {
        held: hold::held(connection, stream, STREAM)?.map(HeldSince::from),
        held_keys,
        waiting: waiting.unsigned_abs(),
        overridden,
    })
}
