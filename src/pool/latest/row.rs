//! One item of which a sink with the newest state gets the latest version.
//!
//! **Invariant**: each attempt hands on the same item with the same content.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::Row;
use uuid::Uuid;

use crate::change_log::ChangedRow;
use crate::resends::{Letter, slices_of};
use base::clock::{Unix, parse_rfc3339};
use base::order::{ChangeSeq, ItemPosition, Seq};
use item::ItemMeta;
use item::batch::{Action, Slice};
use select::Record;

#[derive(Debug, Clone)]
pub struct LatestItem {
    pub stream: Arc<str>,
    pub key: String,
    /// Number of its last change.
    pub seq: ChangeSeq,
    /// The flat JSON object; none: the item is gone.
    pub fields: Option<String>,
    /// RFC 3339; empty if it is gone.
    pub updated_at: String,
    /// Empty: no source wrote it.
    pub request_id: String,
    /// The sink may know it. If it is gone, only a sink that may know it needs the removal.
    pub is_sent: bool,
}

impl LatestItem {
    /// What conditions look at.
    pub fn record(&self) -> Record<'_> {
        Record {
            key: &self.key,
            stream: &self.stream,
            updated_at: &self.updated_at,
            received_at: &self.updated_at,
            request_id: &self.request_id,
            fields: self.fields.as_deref().unwrap_or("{}"),
            ..Record::default()
        }
    }

    /// The item as a sink is handed it: what is there, or that it is to go.
    pub fn slice(&self, action: Action) -> Option<Slice> {
        let fields = self.fields.clone().filter(|_| action == Action::Upsert);
        let letter = Letter {
            seq: Seq::new(self.seq.get()),
            request_id: Uuid::try_parse(&self.request_id).unwrap_or_default(),
            stream: Arc::clone(&self.stream),
            // Of what is gone no time is kept, and each attempt must say the same.
            received_at: parse_rfc3339(&self.updated_at).unwrap_or(Unix::MIN),
            position: ItemPosition::default(),
            key: self.key.clone(),
            action,
            fields: fields.unwrap_or_else(|| "{}".to_owned()),
            meta: ItemMeta::default(),
        };
        slices_of(std::slice::from_ref(&letter)).pop()
    }

    pub(super) fn read(row: &Row<'_>, stream: &Arc<str>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            stream: Arc::clone(stream),
            key: row.get(0)?,
            fields: row.get(1)?,
            updated_at: row.get(2)?,
            seq: ChangeSeq::from_column(row.get(3)?),
            request_id: row.get(4)?,
            is_sent: row.get(5)?,
        })
    }

    pub(super) fn of(row: ChangedRow, stream: &Arc<str>, sent: &HashSet<String>) -> Self {
        Self {
            stream: Arc::clone(stream),
            is_sent: sent.contains(&row.key),
            key: row.key,
            seq: row.seq,
            fields: row.fields,
            updated_at: row.updated_at,
            request_id: row.request_id,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.key.len() + self.fields.as_ref().map_or(0, String::len)
    }
}
