//! One item, as the pool holds it and as it is seen.
//!
//! **Invariant**: an item that is seen lists as overridden only fields that it shows.

use std::collections::HashSet;

use futures_util::{Stream, TryStreamExt};
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::PageLimit;
use crate::PoolError;
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

    pub(super) fn read(row: &SqliteRow) -> Result<Self, PoolError> {
        Ok(Self {
            key: row.try_get("key")?,
            fields: row.try_get("fields")?,
            updated_at: row.try_get("updated_at")?,
            seq: ChangeSeq::from_column(row.try_get("seq")?),
            request_id: row.try_get("request_id")?,
            overridden: row.try_get("overridden")?,
        })
    }
}

/// Items until they have the bytes of the limit.
pub(super) async fn read_items(
    mut rows: impl Stream<Item = Result<SqliteRow, sqlx::Error>> + Unpin,
    limit: PageLimit,
) -> Result<Vec<Item>, PoolError> {
    let mut items = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.try_next().await? {
        let item = Item::read(&row)?;
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
