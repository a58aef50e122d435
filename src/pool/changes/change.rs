//! One change of one item, as renderers see it.
//!
//! **Invariant**: its text is JSON on one line, and its parts are where the change says.

use std::ops::Range;

use bytes::Bytes;

use base::order::ChangeSeq;

/// What a change takes beside its texts.
const CHANGE_BYTES: usize = 200;

/// One change of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its number in the one sequence over all streams.
    pub seq: ChangeSeq,
    pub key: Box<str>,
    /// Whether the item is gone.
    pub removed: bool,
    /// The item as renderers see it, `{"key":…,"fields":…,"updated_at":…,"seq":…}`, with `overridden` behind
    /// `fields` where operators have overridden some; of a removed item
    /// the key as a JSON string. It is written once for all renderers, because each of them would write the same text.
    pub json: Bytes,
    /// Where its fields stand in that.
    fields: Range<usize>,
    /// Where the names of its overridden fields stand in that, as a JSON array; nowhere if there are none.
    overridden: Range<usize>,
    /// Where its time stands in that.
    updated_at: Range<usize>,
}

impl Change {
    /// An item's new value. `fields` is the JSON text of the flat object, `updated_at` RFC 3339.
    pub fn updated(seq: ChangeSeq, key: &str, fields: &str, updated_at: &str) -> Self {
        Self::shown(seq, key, fields, "", updated_at)
    }

    /// The same of an item with fields that operators have overridden: the JSON array of their names, or nothing.
    pub fn shown(
        seq: ChangeSeq,
        key: &str,
        fields: &str,
        overridden: &str,
        updated_at: &str,
    ) -> Self {
        let mut json = String::with_capacity(fields.len() + key.len() + 80);
        json.push_str(r#"{"key":"#);
        item::string_into(key, &mut json);
        json.push_str(r#","fields":"#);
        let fields_at = json.len()..json.len() + fields.len();
        json.push_str(fields);
        let mut overridden_at = 0..0;
        if !overridden.is_empty() {
            json.push_str(r#","overridden":"#);
            overridden_at = json.len()..json.len() + overridden.len();
            json.push_str(overridden);
        }
        json.push_str(r#","updated_at":""#);
        let updated_at_at = json.len()..json.len() + updated_at.len();
        json.push_str(updated_at);
        json.push_str(r#"","seq":"#);
        json.push_str(&seq.to_string());
        json.push('}');
        Self {
            seq,
            key: key.into(),
            removed: false,
            json: json.into(),
            fields: fields_at,
            overridden: overridden_at,
            updated_at: updated_at_at,
        }
    }

    pub fn removed(seq: ChangeSeq, key: &str) -> Self {
        let mut json = String::with_capacity(key.len() + 2);
        item::string_into(key, &mut json);
        Self {
            seq,
            key: key.into(),
            removed: true,
            json: json.into(),
            fields: 0..0,
            overridden: 0..0,
            updated_at: 0..0,
        }
    }

    /// The JSON text of its fields; empty of a removed item.
    pub fn fields(&self) -> &str {
        std::str::from_utf8(&self.json[self.fields.clone()]).unwrap_or_default()
    }

    /// The names of its overridden fields, as a JSON array; empty if there are none.
    pub fn overridden(&self) -> &str {
        std::str::from_utf8(&self.json[self.overridden.clone()]).unwrap_or_default()
    }

    /// When its data arrived, RFC 3339; empty of a removed item.
    pub fn updated_at(&self) -> &str {
        std::str::from_utf8(&self.json[self.updated_at.clone()]).unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> usize {
        CHANGE_BYTES + 2 * self.key.len() + self.json.len()
    }
}
