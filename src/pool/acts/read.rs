//! What operators see of acts: of an item, of a stream, of all.
//!
//! **Invariant**: names of operators are for operators; renderers see only which fields are overridden.

use std::sync::Arc;

use rusqlite::{Connection, Row, params};

use super::key::{KeyState, is_frozen};
use super::{Pool, PoolError, STREAM, hold};
use crate::history;
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
    pub held_keys: Vec<HeldSince>,
    /// Keys of which a change of the source waits.
    pub waiting: u64,
    /// The items with overrides, and how many fields each has.
    pub overridden: Vec<(String, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActCounts {
    pub stream: Arc<str>,
    /// The hold of the whole stream.
    pub held: Option<HeldSince>,
    /// Keys that are held by themselves.
    pub held_keys: u64,
    /// Keys of which a change of the source waits.
    pub waiting: u64,
    pub overridden: u64,
    pub fields: u64,
    /// The hold of the whole stream was made before this file was restored from a backup.
    pub restored: bool,
    /// Keys of whose holds the same is true.
    pub restored_keys: u64,
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
        let (state, held) = self.read(|connection| {
            let state = KeyState::of(connection, stream, key)?;
            let held = match hold::held(connection, stream, key)? {
                Some(own) => Some(own),
                None => hold::held(connection, stream, STREAM)?,
            };
            Ok((state, held))
        })?;
        if state.overrides.is_empty() && state.kept.is_none() && held.is_none() {
            return Ok(ItemActs::default());
        }
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
        let sql = "SELECT EXISTS (SELECT 1 FROM items WHERE stream = ?1 AND key = ?2 AND request_id = ?3)";
        self.read(|connection| {
            let mut ask = connection.prepare_cached(sql)?;
            ask.query_row([stream, key, request_id], |row| row.get(0))
        })
    }

    /// The fields of the row of `items`, whatever is shown. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn source_fields(&self, stream: &str, key: &str) -> Result<Option<String>, PoolError> {
        let state = self.read(|connection| KeyState::of(connection, stream, key))?;
        Ok(state.source.map(|(form, _)| form.fields))
    }

    /// What acts do to a stream: of held keys and overridden items at most `max` each. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn stream_acts(&self, stream: &str, max: u32) -> Result<StreamActs, PoolError> {
        self.read(|connection| of_stream(connection, stream, max))
    }

    /// What acts do, of all streams where they do something. The streams come from the index of what is shown,
    /// because each status would load the keys of all acts otherwise. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn act_counts(&self) -> Result<Vec<ActCounts>, PoolError> {
        let seq = self.position().seq;
        let acted = "SELECT stream FROM holds UNION SELECT stream FROM shown WHERE overridden <> '' ORDER BY stream";
        self.read(|connection| {
            let mut select = connection.prepare_cached(acted)?;
            let streams = select.query_map([], |row| row.get(0))?;
            let streams: Vec<Arc<str>> = streams.collect::<Result<_, _>>()?;
            let mut all = Vec::new();
            for stream in streams {
                let counts = counts_of(connection, &stream, seq)?;
                if counts.held.is_some() || counts.held_keys + counts.overridden > 0 {
                    all.push(counts);
                }
            }
            Ok(all)
        })
    }

    /// Whether a hold covers the key now. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn is_held(&self, stream: &str, key: &str) -> Result<bool, PoolError> {
        self.read(|connection| is_frozen(connection, stream, key))
    }

    /// Number of the last change that is shown of a key. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn shown_seq(&self, stream: &str, key: &str) -> Result<ChangeSeq, PoolError> {
        let state = self.read(|connection| KeyState::of(connection, stream, key))?;
        Ok(state.shown_seq())
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
        waiting: waiting(connection, stream)?,
        overridden,
    })
}

fn waiting(connection: &Connection, stream: &str) -> Result<u64, rusqlite::Error> {
    let sql = "SELECT count(*) FROM kept WHERE stream = ?1";
    connection
        .prepare_cached(sql)?
        .query_row([stream], |row| column(row, 0))
}

fn column(row: &Row<'_>, place: usize) -> Result<u64, rusqlite::Error> {
    Ok(row.get::<_, i64>(place)?.unsigned_abs())
}

fn counts_of(
    connection: &Connection,
    stream: &Arc<str>,
    seq: ChangeSeq,
) -> Result<ActCounts, rusqlite::Error> {
    let of_before = history::last_of_before(seq);
    let held = hold::held(connection, stream, STREAM)?;
    let (held_keys, restored_keys) = connection
        .prepare_cached(
            "SELECT count(*), count(*) FILTER (WHERE n <= ?2) FROM holds WHERE stream = ?1 AND key <> ''",
        )?
        .query_row(params![stream, of_before.to_column()], |row| {
            Ok((column(row, 0)?, column(row, 1)?))
        })?;
    let (overridden, fields) = connection
        .prepare_cached(
            "SELECT count(*), coalesce(sum(json_array_length(overridden)), 0) FROM shown WHERE stream = ?1 AND overridden <> ''",
        )?
        .query_row([stream], |row| Ok((column(row, 0)?, column(row, 1)?)))?;
    Ok(ActCounts {
        stream: Arc::clone(stream),
        restored: held.as_ref().is_some_and(|held| held.n <= of_before.get()),
        held: held.map(HeldSince::from),
        held_keys,
        waiting: waiting(connection, stream)?,
        overridden,
        fields,
        restored_keys,
    })
}
