//! One item, as the pool holds it and as it is seen.
//!
//! **Invariant**: an item that is seen lists as overridden only fields that it shows.

use std::collections::HashSet;

use rusqlite::{Connection, Params, Row};
use serde_json::value::RawValue;

use super::PageLimit;
use crate::change_log::ChangedRow;
use crate::changes::Change;
use base::order::ChangeSeq;
use item::members;
use select::{ItemFilter, Record};

/// An item as the pool holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Identifies it in its stream.
    pub key: String,
    /// JSON text of the flat object.
    pub fields: String,
    /// When the request that wrote it arrived, RFC 3339.
    pub updated_at: String,
    /// Number of its last change.
    pub seq: ChangeSeq,
    /// The request that wrote it; empty: no source did.
    pub request_id: String,
    /// The names of the fields that operators have overridden, as a JSON array; empty: none.
    pub overridden: String,
}

impl Item {
    /// The item as it is seen, if it is.
    pub fn seen(self, stream: &str, filter: &ItemFilter) -> Option<Self> {
        if filter.is_empty() {
            return Some(self);
        }
        let fields = filter.shown(&Record {
            key: &self.key,
            stream,
            updated_at: &self.updated_at,
            fields: &self.fields,
            ..Record::default()
        })?;
        let overridden = overridden_in(&self.overridden, &fields);
        Some(Self {
            fields,
            overridden,
            ..self
        })
    }

    /// What renderers are told of it.
    pub(super) fn as_change(&self) -> Change {
        Change::shown(
            self.seq,
            &self.key,
            &self.fields,
            &self.overridden,
            &self.updated_at,
        )
    }

    /// The item of a row of [`shown_items`](super::shown_items).
    pub(super) fn read(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            key: row.get(0)?,
            fields: row.get(1)?,
            updated_at: row.get(2)?,
            seq: ChangeSeq::from_column(row.get(3)?),
            request_id: row.get(4)?,
            overridden: row.get(5)?,
        })
    }
}

/// Items until they have the bytes of the limit.
pub(super) fn read_items(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    limit: PageLimit,
) -> Result<Vec<Item>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let item = Item::read(row)?;
        bytes += item.fields.len();
        items.push(item);
        if bytes >= limit.bytes {
            break;
        }
    }
    Ok(items)
}

/// Those of the overridden fields, a JSON array of their names or nothing, that `fields` has. A filter may leave out a
/// field, and its name must not be listed then.
pub fn overridden_in(overridden: &str, fields: &str) -> String {
    if overridden.is_empty() {
        return String::new();
    }
    let names: Vec<Box<RawValue>> = serde_json::from_str(overridden).unwrap_or_default();
    let there: HashSet<&str> = members(fields).map(|(name, _)| name).collect();
    let seen = names.iter().map(|name| name.get());
    let seen: Vec<&str> = seen.filter(|name| there.contains(name)).collect();
    match seen.is_empty() {
        true => String::new(),
        false => format!("[{}]", seen.join(",")),
    }
}

impl From<ChangedRow> for Item {
    fn from(row: ChangedRow) -> Self {
        Self {
            key: row.key,
            fields: row.fields.unwrap_or_default(),
            updated_at: row.updated_at,
            seq: row.seq,
            request_id: row.request_id,
            overridden: row.overridden,
        }
    }
}

impl ChangedRow {
    /// What renderers are told of it.
    pub(super) fn into_change(self) -> Change {
        match self.fields {
            Some(_) => Item::from(self).as_change(),
            None => Change::removed(self.seq, &self.key),
        }
    }
}
