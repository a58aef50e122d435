//! What a tool means by its delivery: where its items are, what identifies them, what a repeat is, what is no event.
//!
//! The pipeline comes here with a body that somebody vouched for, and so does sending again.
//!
//! **Invariant**: what is not sent to the address of a connector means what its caller says, and nothing else.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::address::delivery;
use super::request::{Address, Known, Named};
use super::standing::Judge;
use super::{Ingest, headers};
use crate::catalog::{Rules, Signing};
use crate::config::Replay;
use crate::error::AcceptError;
use crate::item::{Items, ItemsWriter, field_name, members, merge, string_into, unescape};
use crate::sender::body::{self, DecodeError};
use crate::sender::handshake::{self, Answer as Greeting};
use crate::sender::{Headers, Preset, Source};

/// The item key of those whose deliveries are items of their own.
pub(super) const DELIVERY: &str = "@delivery";
/// The field for the name of an event that stands in a header only.
pub(super) const EVENT: &str = "_event";

/// Bytes of an event's name, and of a delivery's id, in the log.
const LOGGED_BYTES_MAX: usize = 255;

/// What is known of a delivery beside its body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) request_id: Uuid,
    /// None: it did not come to the address of a connector.
    pub(super) address: Option<Address<'a>>,
    /// The tool.
    pub(super) preset: Option<&'static Preset>,
    /// What verified it; none: it came with a key.
    pub(super) signing: Option<&'a Signing>,
    /// Where the connector says that the items are in a body.
    pub(super) items: Option<&'a str>,
    /// What is set of its items.
    pub(super) rules: &'a Rules,
}

/// What a delivery comes to.
#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) items: Items,
    /// Items that go, before those are there.
    pub(super) removed: Option<Items>,
    /// The field that identifies the items.
    pub(super) item_key: Option<Box<str>>,
    /// The name of its event, and its id, as the tool says them.
    pub(super) event: Option<Box<str>>,
    pub(super) id: Option<Box<str>>,
    pub(super) idempotency_key: Option<Box<str>>,
    /// What a repeat has in common with it.
    pub(super) repeats: Repeats,
    /// The status that the tool wants to hear.
    pub(super) status: u16,
    /// Whether a tool sent one object that nothing identifies.
    pub(super) without_item_key: bool,
    /// What is odd about it, for the log.
    pub(super) odd: Option<Box<str>>,
}

/// What a repeat has in common with a delivery: either is enough.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Its id, where that is not the idempotency key.
    pub(super) id: Option<Box<str>>,
    /// Its body, where that counts.
    pub(super) body: Option<Box<str>>,
}

/// What identifies items.
#[derive(Debug, Clone, Copy)]
enum By {
    /// The field that is named, or their places.
    Named,
    /// The other field of a preset.
    Other(&'static str),
    /// Their delivery.
    Delivery,
}

/// What was read.
pub(super) enum Reading {
    Delivery(Delivered),
    /// There is nothing to store: a greeting, or an event that the tool's preset leaves out; and what the log is to say.
    Greeting(Greeting, Option<String>),
}

impl Known<'_> {
    /// Whether the tool does so; some take any 4xx for the end.
    pub(super) fn tries_again_after_429(&self) -> bool {
        let preset = self.context().tool();
        preset.is_none_or(|preset| preset.retries_4xx)
    }

    pub(super) fn context(&self) -> Context<'_> {
        let key = &self.caller.key;
        Context {
            request_id: self.head.request_id,
            address: self.head.address,
            preset: key.preset,
            signing: key.signing.as_deref(),
            items: key.items.as_deref(),
            rules: &key.rules,
        }
    }
}

impl Context<'_> {
    /// The tool, where its conventions count.
    pub(super) fn tool(&self) -> Option<&'static Preset> {
        self.preset.filter(|_| self.address.is_some())
    }

    /// Where the items are in the body.
    fn items_path(&self) -> Option<&str> {
        self.address?;
        self.items.or_else(|| self.tool()?.items)
    }

    fn status(&self) -> u16 {
        let signed = self.signing.map(|signing| signing.verifier.answer());
        let usual = || self.tool().map(|preset| preset.answer);
        self.address
            .and_then(|_| signed.or_else(usual))
            .unwrap_or(202)
    }

    /// What stands where the tool says the id of its delivery.
    fn id(&self, field: impl Fn(&str) -> Option<String>) -> Option<String> {
        let headers = self.address?.headers;
        let signed = self.signing.and_then(|signing| signing.verifier.id());
        let said = match (signed, self.tool().and_then(|preset| preset.id)) {
            (Some(source), _) => source.find(headers, field),
            (None, Some(source)) => source.find(headers, field),
            (None, None) => None,
        };
        said.or_else(|| of_cloudevent(headers, "ce-id"))
    }

    fn event(&self, field: impl Fn(&str) -> Option<String>) -> Option<String> {
        let headers = self.address?.headers;
        let signed = self.signing.and_then(|signing| signing.verifier.event());
        let said = match (signed, self.tool().and_then(|preset| preset.event)) {
            (Some(source), _) => source.find(headers, field),
            (None, Some(source)) => source.find(headers, field),
            (None, None) => None,
        };
        said.or_else(|| of_cloudevent(headers, "ce-type"))
    }

    /// Whether the name of the event stands in a header, and nowhere in the items.
    fn names_event_in_header(&self) -> bool {
        let signed = self.signing.and_then(|signing| signing.verifier.event());
        match self.tool() {
            Some(preset) if preset.event.is_some() => preset.event_in_item,
            _ => matches!(signed, Some(Source::Header(_))),
        }
    }
}

impl Ingest {
    /// What a body means.
    ///
    /// # Errors
    /// What is wrong with it, for the caller.
    pub(super) fn read_delivery(
        &self,
        of: Context<'_>,
        named: &Named,
        body: &Bytes,
    ) -> Result<Reading, AcceptError> {
        let Some(address) = of.address else {
            let items = self.flatten(body, named)?;
            let id = named.idempotency_key.as_deref();
            let judge = Judge::of(&of, None);
            let (items, removed) =
                self.identified(items, &of, &judge, named.is_by_delivery(), id, "{}")?;
            return Ok(Reading::Delivery(Delivered {
                items,
                removed,
                item_key: named.item_key().map(Into::into),
                event: None,
                id: None,
                idempotency_key: named.idempotency_key.clone(),
                repeats: Repeats::default(),
                status: 202,
                without_item_key: named.item_key.is_none() && is_object(body),
                odd: None,
            }));
        };
        let whole = self.decoded(named, body)?;
        if of.signing.is_none() {
            let url = self.url(&address);
            let delivery = delivery(&address, &url, &whole);
            if let Some(greeting) = handshake::of_keyed(&delivery) {
                return Ok(Reading::Greeting(greeting, handshake::to_do(&delivery)));
            }
        }
        let json = match of.items_path() {
            Some(path) => body::at_path(&whole, path).map_err(AcceptError::invalid)?,
            None => whole.clone(),
        };
        let (items, by) = self.told_apart(&json, named, of.tool())?;
        let by_delivery = matches!(by, By::Delivery);
        let field = |path: &str| match of.items_path() {
            Some(_) => field_of_json(&whole, path),
            None => field_of_item(&items, path),
        };
        let event = of.event(field);
        if let (Some(preset), Some(event)) = (of.tool(), &event)
            && preset.ignore.contains(&event.as_str())
        {
            let greeting = Greeting {
                status: of.status(),
                content_type: None,
                body: String::new(),
                headers: Vec::new(),
            };
            return Ok(Reading::Greeting(
                greeting,
                Some(format!("the event {event} is not stored")),
            ));
        }
        let id = of.id(field);
        let idempotency_key = match &id {
            Some(id) => Some(idempotency_key(id)),
            None => named.idempotency_key.clone(),
        };
        // Headers that nobody signed say nothing of what somebody signed.
        let takes_headers = of.signing.is_none() || of.tool().is_none_or(|tool| tool.is_generic());
        let mut more = match takes_headers {
            true => body::cloudevent_fields(address.headers.0.iter().copied()),
            false => Vec::new(),
        };
        if let Some(event) = event.as_ref().filter(|_| of.names_event_in_header()) {
            more.push((EVENT.to_owned(), event.clone()));
        }
        let source =
            of_cloudevent(address.headers, "ce-source").or_else(|| field(of.tool()?.id_scope?));
        let without_item_key = named.item_key.is_none() && is_object(&json);
        let name = id.as_deref().or(named.idempotency_key.as_deref());
        let judge = Judge::of(&of, event.as_deref());
        let (items, removed) =
            self.identified(items, &of, &judge, by_delivery, name, &object(&more))?;
        let replay = of.signing.map(|signing| signing.verify.replay);
        Ok(Reading::Delivery(Delivered {
            items,
            removed,
            item_key: match by {
                By::Other(field) => Some(field.into()),
                By::Named | By::Delivery => named.item_key().map(Into::into),
            },
            event: event.as_deref().map(logged),
            id: id.as_deref().map(logged),
            idempotency_key,
            repeats: Repeats {
                // The id of a CloudEvent is one of its source.
                id: source.zip(id.as_deref()).map(|(source, id)| format!("{source} {id}").into()),
                body: (replay == Some(Replay::Body)).then(|| format!("body {}", hex(body)).into()),
            },
            status: of.status(),
            without_item_key,
            odd: (by_delivery && !named.is_by_delivery()).then(|| {
                let (field, named_by) = named.item_key.as_ref().map_or(("", ""), |(a, b)| (a, b));
                format!("there is no usable field {field:?}, which {named_by} names: the delivery is an item of its own; set item_key for the connector").into()
            }),
        }))
    }

    /// The items, and what identifies them: where what a preset names is not there, its other field does, or the delivery
    /// itself, for nobody chose that field.
    fn told_apart(
        &self,
        json: &[u8],
        named: &Named,
        tool: Option<&'static Preset>,
    ) -> Result<(Items, By), AcceptError> {
        let error = match self.flatten(json, named) {
            Ok(items) if named.is_by_delivery() => return Ok((items, By::Delivery)),
            Ok(items) => return Ok((items, By::Named)),
            Err(error) => error,
        };
        if !named.by_preset {
            return Err(error);
        }
        let by = |field: Option<&'static str>| Named {
            item_key: field.map(|field| (field.into(), "the preset".into())),
            by_preset: false,
            idempotency_key: None,
            form: named.form,
        };
        if let Some(other) = tool.and_then(|preset| preset.item_key_or)
            && let Ok(items) = self.flatten(json, &by(Some(other)))
        {
            return Ok((items, By::Other(other)));
        }
        match self.flatten(json, &by(None)) {
            Ok(items) => Ok((items, By::Delivery)),
            Err(_) => Err(error),
        }
    }

    /// The JSON that a body stands for.
    fn decoded(&self, named: &Named, body: &Bytes) -> Result<Bytes, AcceptError> {
        let limit = usize::try_from(self.limits.body_bytes_max).unwrap_or(usize::MAX);
        body::decode(named.form, body.clone(), limit).map_err(|error| match error {
            DecodeError::TooLarge => self.too_large(),
            DecodeError::Invalid(message) => AcceptError::invalid(message),
        })
    }

    /// The items with what the tool says of all of them, and, where each delivery is an item of its own, by its id; and
    /// those of them that go.
    fn identified(
        &self,
        items: Items,
        of: &Context<'_>,
        judge: &Judge<'_>,
        by_delivery: bool,
        id: Option<&str>,
        more: &str,
    ) -> Result<(Items, Option<Items>), AcceptError> {
        let omit = of.tool().map_or(&[][..], |preset| preset.omit);
        if !by_delivery && more.len() <= "{}".len() && omit.is_empty() && judge.has_no_say() {
            return Ok((items, None));
        }
        let id = id.map_or_else(|| of.request_id.to_string(), shortened);
        let bytes = items.byte_len() + items.len() * (more.len() + id.len());
        let mut whole = ItemsWriter::new(self.limits.flattened_bytes_max, bytes);
        let mut removed: Option<ItemsWriter> = None;
        // Where each upsert stood, and each key's last removal.
        let mut places = Vec::new();
        let mut gone: HashMap<String, usize> = HashMap::new();
        for (position, item) in items.iter().enumerate() {
            let key: Cow<'_, str> = match (by_delivery, items.len()) {
                (false, _) => item.key.into(),
                (true, 1) => id.as_str().into(),
                (true, _) => format!("{id}-{position}").into(),
            };
            let fields = merge(&without(item.fields, omit), more);
            let pushed = match judge.removes(&fields) {
                true => {
                    gone.insert(key.to_string(), position);
                    let writer = || ItemsWriter::new(self.limits.flattened_bytes_max, 0);
                    let removed = removed.get_or_insert_with(writer);
                    removed.push_with(&key, "{}", judge.standing_of_removal(&fields))
                }
                false => {
                    places.push(position);
                    whole.push_with(&key, &fields, judge.standing(&fields))
                }
            };
            pushed.map_err(|full| AcceptError::invalid(full.to_string()))?;
        }
        let whole = whole.into_items();
        let Some(removed) = removed.map(ItemsWriter::into_items) else {
            return Ok((whole, None));
        };
        // Removals come first: of each key the last word counts.
        let mut rest = ItemsWriter::new(usize::MAX, whole.byte_len());
        for (item, position) in whole.iter().zip(places) {
            if gone.get(item.key).is_none_or(|removal| *removal < position) {
                let pushed = rest.push_with(item.key, item.fields, item.standing);
                pushed.map_err(|full| AcceptError::invalid(full.to_string()))?;
            }
        }
        Ok((rest.into_items(), Some(removed)))
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

/// What a header of a CloudEvent says.
fn of_cloudevent(headers: Headers<'_>, name: &str) -> Option<String> {
    let said = headers.get(name).filter(|said| !said.is_empty());
    said.map(str::to_owned)
}

/// What a tool says, as long as the log keeps it.
fn logged(said: &str) -> Box<str> {
    said[..said.floor_char_boundary(LOGGED_BYTES_MAX)].into()
}

/// Whether a body is one object.
fn is_object(json: &[u8]) -> bool {
    let text = json.strip_prefix("\u{feff}".as_bytes()).unwrap_or(json);
    text.trim_ascii_start().first() == Some(&b'{')
}

/// The text of a field of the one item that there is.
fn field_of_item(items: &Items, path: &str) -> Option<String> {
    let mut all = items.iter();
    let (Some(item), None) = (all.next(), all.next()) else {
        return None;
    };
    field_of(item.fields, path)
}

/// The text of a field that is a text, a number or a boolean.
pub(super) fn field_of(fields: &str, path: &str) -> Option<String> {
    let (_, value) = members(fields).find(|(name, _)| field_name(name) == path)?;
    match value.as_bytes().first()? {
        b'"' => Some(unescape(value.get(1..value.len() - 1)?).into_owned()),
        b'{' | b'[' | b'n' => None,
        _ => Some(value.to_owned()),
    }
}

/// The same in a body that holds more than items.
fn field_of_json(json: &[u8], path: &str) -> Option<String> {
    let whole: Value = serde_json::from_slice(json).ok()?;
    match path.split('.').try_fold(&whole, |at, part| at.get(part))? {
        Value::String(text) => Some(text.clone()),
        scalar @ (Value::Number(_) | Value::Bool(_)) => Some(scalar.to_string()),
        _ => None,
    }
}

/// A flat object of texts.
fn object(fields: &[(String, String)]) -> String {
    let mut json = String::from("{");
    for (name, value) in fields {
        if json.len() > 1 {
            json.push(',');
        }
        string_into(name, &mut json);
        json.push(':');
        string_into(value, &mut json);
    }
    json.push('}');
    json
}

/// The id of a delivery in the form of an idempotency key: one that cannot be one is told by its digest.
fn idempotency_key(id: &str) -> Box<str> {
    match headers::idempotency_key(Some(id.as_bytes())) {
        Ok(Some(key)) => key,
        _ => hex(id.as_bytes()).into(),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// An id as an item's key.
fn shortened(id: &str) -> String {
    match id.len() > super::flatten::ITEM_KEY_BYTES_MAX - "-4294967295".len() {
        true => hex(id.as_bytes()),
        false => id.to_owned(),
    }
}
