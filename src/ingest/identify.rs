//! The items of a delivery as they are stored: with what the tool says of all of them, under the keys that they get, each
//! an update or a removal.
//!
//! **Invariant**: operations keep the order in which they were sent, and none is left out.

use std::borrow::Cow;

use super::Ingest;
use super::context::Context;
use super::interpret::digest;
use super::item_policy::{ItemPolicy, Versions};
use crate::error::AcceptError;
use item::{Items, ItemsWriter, field_name, members, merge};

impl Ingest {
    /// The items with what the tool says of all of them, and, where each delivery is an item of its own, by its id; and
    /// what the log is to say of their versions.
    pub(super) fn identified(
        &self,
        items: Items,
        of: &Context<'_>,
        policy: &ItemPolicy<'_>,
        by_delivery: bool,
        id: Option<&str>,
        more: &str,
    ) -> Result<(Items, Option<Box<str>>), AcceptError> {
        let omit = of.tool().map_or(&[][..], |preset| preset.omit);
        if !by_delivery && more.len() <= "{}".len() && omit.is_empty() && policy.has_no_say() {
            return Ok((items, None));
        }
        let id = id.map_or_else(|| of.request_id.to_string(), shortened);
        let bytes = items.byte_len() + items.len() * (more.len() + id.len());
        let mut identified = ItemsWriter::new(self.limits.flattened_bytes_max, bytes);
        let mut versions = Versions::default();
        for (position, item) in items.iter().enumerate() {
            let key: Cow<'_, str> = match (by_delivery, items.len()) {
                (false, _) => item.key.into(),
                (true, 1) => id.as_str().into(),
                (true, _) => format!("{id}-{position}").into(),
            };
            let fields = merge(&without(item.fields, omit), more);
            let operation = policy.operation(position, &key, &fields, &mut versions);
            let pushed = identified.push_item(&operation);
            pushed.map_err(|full| AcceptError::invalid(full.to_string()))?;
        }
        Ok((identified.into_items(), versions.unreadable()))
    }
}

/// An item without fields of these names.
fn without<'a>(fields: &'a str, names: &[&str]) -> Cow<'a, str> {
    let is_named = |name: &str| names.iter().any(|other| field_name(name) == *other);
    if !members(fields).any(|(name, _)| is_named(name)) {
        return fields.into();
    }
    let kept = members(fields).filter(|(name, _)| !is_named(name));
    let kept: Vec<String> = kept
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    format!("{{{}}}", kept.join(",")).into()
}

/// An id as an item's key.
fn shortened(id: &str) -> String {
    match id.len() > super::flatten::ITEM_KEY_BYTES_MAX - "-4294967295".len() {
        true => digest(id.as_bytes()),
        false => id.to_owned(),
    }
}
