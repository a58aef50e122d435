//! The items of a delivery as they are stored: with what the tool says of all of them, under the keys that they get, each
//! an update or a removal.
//!
//! **Invariant**: operations keep the order in which they were sent, and none is left out.

use std::borrow::Cow;

use super::Ingest;
use super::context::Context;
use super::interpret::{digest, field_of};
use super::item_policy::{ItemPolicy, Versions};
use crate::error::AcceptError;
use item::{Action, ItemRef, Items, ItemsWriter, field_name, members, merge, string_into};
use webhook::{ItemKey, KeyFields, Path, Preset, Source, joined_key};

/// What is known of the items of a delivery beside their fields.
pub(super) struct Identity<'a> {
    /// Each delivery is an item of its own.
    pub(super) by_delivery: bool,
    /// The fields that are the key together, or the first of several.
    pub(super) composed: Option<&'a ItemKey>,
    /// These fields, where each item must have them. An operator has named them, so an item without them is a mistake
    /// and not another kind of item.
    pub(super) required: Option<&'a str>,
    /// What the delivery is known by.
    pub(super) id: Option<&'a str>,
    pub(super) event: Option<&'a str>,
    /// Fields of all items, as an object.
    pub(super) more: &'a str,
}

/// The items of a delivery as they are stored.
pub(super) struct Identified {
    pub(super) items: Items,
    /// What the log is to say of their versions.
    pub(super) unreadable: Option<Box<str>>,
    /// The fields that identify the first of them, where there was a choice.
    pub(super) by: Option<Box<str>>,
    /// An item has no key of its own, though one is named. The log says so, because the items then overwrite each other
    /// by place.
    pub(super) lacks_key: bool,
}

impl Ingest {
    /// The items with what the tool says of all of them, and, where each delivery is a separate item, by its id.
    pub(super) fn identified(
        &self,
        items: Items,
        of: &Context<'_>,
        identity: &Identity<'_>,
    ) -> Result<Identified, AcceptError> {
        let tool = of.tool();
        let policy = ItemPolicy::of(of, identity.event);
        let of_items = of.event_source().filter(|source| source.is_of_items());
        let is_stored_whole =
            tool.is_none_or(|tool| tool.omit.is_empty() && tool.content.is_none());
        let mut done = Identified {
            items,
            unreadable: None,
            by: None,
            lacks_key: false,
        };
        let is_known = !identity.by_delivery && identity.composed.is_none();
        let more = identity.more;
        if is_known
            && more.len() <= "{}".len()
            && is_stored_whole
            && of_items.is_none()
            && policy.has_no_say()
        {
            return Ok(done);
        }
        let items = &done.items;
        let mut keys = Keys::new(identity, of, items.len());
        let bytes = items.byte_len() + items.len() * (more.len() + keys.id.len());
        let mut identified = ItemsWriter::new(self.limits.flattened_bytes_max, bytes);
        let mut versions = Versions::default();
        for (position, item) in items.iter().enumerate() {
            let key = keys.checked(&item, position)?;
            let whole = merge(item.fields, more);
            let own_event = of_items.and_then(|source| own_event(source, item.fields));
            let policy_of_item;
            let policy = match own_event.as_deref() {
                Some(event) if of.ignores(event) => continue,
                Some(event) => {
                    policy_of_item = ItemPolicy::of(of, Some(event));
                    &policy_of_item
                }
                None => &policy,
            };
            let mut operation = policy.operation(position, &key, &whole, &mut versions);
            let part;
            if !is_stored_whole && operation.action == Action::Upsert {
                part = merge(&stored(item.fields, tool), more);
                operation.fields = &part;
            }
            let pushed = identified.push_item(&operation);
            pushed.map_err(|full| AcceptError::invalid(full.to_string()))?;
        }
        (done.by, done.lacks_key) = (keys.by, keys.lack);
        done.unreadable = versions.unreadable();
        done.items = identified.into_items();
        Ok(done)
    }
}

fn lacks_one_of(fields: &str, position: usize) -> AcceptError {
    AcceptError::invalid(format!(
        "item {position}: the connector's item_key names the fields {fields:?}, which identify an item together: each must be there, as text or a number"
    ))
}

/// The event of an item, where each has one of its own.
fn own_event(source: &Source, fields: &str) -> Option<String> {
    let mut paths = source.item_paths();
    paths.find_map(|path| field_of(fields, &path.flat()))
}

/// The keys that items get.
struct Keys<'a> {
    identity: &'a Identity<'a>,
    /// Of the delivery.
    id: String,
    count: usize,
    /// The fields that identify the first of them, where there was a choice.
    by: Option<Box<str>>,
    /// An item has no key of its own, though one is named.
    lack: bool,
}

impl<'a> Keys<'a> {
    fn new(identity: &'a Identity<'a>, of: &Context<'_>, count: usize) -> Self {
        let of_request = || of.request_id.to_string();
        Self {
            identity,
            id: identity.id.map_or_else(of_request, shortened),
            count,
            by: None,
            lack: false,
        }
    }

    /// The key of an item, unless it lacks fields that it must have.
    fn checked<'i>(
        &mut self,
        item: &ItemRef<'i>,
        position: usize,
    ) -> Result<Cow<'i, str>, AcceptError> {
        let key = self.of(item, position);
        match self.identity.required.filter(|_| self.lack) {
            Some(fields) => Err(lacks_one_of(fields, position)),
            None => Ok(key),
        }
    }

    fn of<'i>(&mut self, item: &ItemRef<'i>, position: usize) -> Cow<'i, str> {
        let composed = self.identity.composed;
        match composed.map(|key| composed_key(item.fields, key)) {
            Some(Some((key, by))) => {
                self.by.get_or_insert(by);
                key.into()
            }
            None if !self.identity.by_delivery => item.key.into(),
            unnamed => {
                self.lack |= unnamed.is_some() && !self.identity.ends_with_delivery();
                match self.count {
                    1 => self.id.clone().into(),
                    _ => format!("{}-{position}", self.id).into(),
                }
            }
        }
    }
}

impl Identity<'_> {
    fn ends_with_delivery(&self) -> bool {
        self.composed
            .is_some_and(|key| key.0.contains(&KeyFields::Delivery))
    }
}

/// The key of an item, and the fields that it is made of.
fn composed_key(fields: &str, key: &ItemKey) -> Option<(String, Box<str>)> {
    key.0.iter().find_map(|way| {
        let KeyFields::Fields(paths) = way else {
            return None;
        };
        let texts = paths.iter().map(|path| field_of(fields, &path.flat()));
        let texts: Vec<String> = texts.collect::<Option<_>>()?;
        let key = match texts.as_slice() {
            [one] => one.clone(),
            several => joined_key(several.iter().map(String::as_str)),
        };
        let by: Vec<_> = paths.iter().map(Path::text).collect();
        let fits = (1..=super::flatten::ITEM_KEY_BYTES_MAX).contains(&key.len())
            && texts.iter().any(|text| !text.is_empty());
        fits.then(|| (key, by.join(",").into()))
    })
}

/// What of an item its tool has stored.
fn stored<'a>(fields: &'a str, tool: Option<&Preset>) -> Cow<'a, str> {
    let Some(tool) = tool else {
        return fields.into();
    };
    let omit: Vec<_> = tool.omit.iter().map(Path::flat).collect();
    let content = tool.content.as_ref().map(Path::flat);
    let is_within = |name: &str, other: &str| {
        (name.strip_prefix(other)).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut kept = String::from("{");
    for (quoted, value) in members(fields) {
        let name = field_name(quoted);
        if omit.iter().any(|other| is_within(&name, other)) {
            continue;
        }
        let inner = match &content {
            None => None,
            Some(content) if name == *content => match value {
                // Of an empty object nothing is stored.
                "{}" => continue,
                _ => Some(name.rsplit('.').next().unwrap_or(&name)),
            },
            Some(content) => {
                let inner = name
                    .strip_prefix(&**content)
                    .and_then(|rest| rest.strip_prefix('.'));
                match inner {
                    Some(inner) => Some(inner),
                    None => continue,
                }
            }
        };
        if kept.len() > 1 {
            kept.push(',');
        }
        match inner {
            Some(inner) => string_into(inner, &mut kept),
            None => kept.push_str(quoted),
        }
        kept.push(':');
        kept.push_str(value);
    }
    kept.push('}');
    kept.into()
}

/// An id as an item's key. It is digested where the place of an item would not fit behind it. Keys have a maximum
/// length, and the place must not be cut off.
fn shortened(id: &str) -> String {
    match id.len() > super::flatten::ITEM_KEY_BYTES_MAX - "-4294967295".len() {
        true => digest(id.as_bytes()),
        false => id.to_owned(),
    }
}
