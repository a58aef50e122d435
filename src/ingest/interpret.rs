//! What a tool means by its delivery: where its items are, what identifies them, what a repeat is, what is no event.
//!
//! The pipeline comes here with a body that somebody vouched for, and so does sending again.
//!
//! **Invariant**: what is not sent to the address of a connector means what its caller says, and nothing else.

mod fields;
mod items;

use std::sync::Arc;

use bytes::Bytes;

use super::Ingest;
use super::address::delivery;
use super::context::{Context, of_cloudevent};
use super::identify::Identity;
use super::request::{Address, Named};
use crate::error::AcceptError;
use base::text::hex;
use catalog::Signing;
pub(super) use fields::{digest, field_of};
use fields::{field_of_item, fields_of_headers, idempotency_key, is_object, logged, object};
use item::Items;
use items::By;
use settings::Replay;
use webhook::body::{self, DecodeError, Form};
use webhook::handshake::{self, Challenge};
use webhook::{Path, Preset};

/// The item key of those whose deliveries are items of their own.
pub(super) const DELIVERY: &str = "@delivery";
/// The field for the name of an event that stands in a header only.
pub(super) const EVENT: &str = "_event";

/// What a delivery comes to.
#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) items: Items,
    /// The field that identifies the items.
    pub(super) item_key: Option<Arc<str>>,
    /// The name of its event, and its id, as the tool says them.
    pub(super) event: Option<Box<str>>,
    pub(super) id: Option<Box<str>>,
    pub(super) idempotency_key: Option<Arc<str>>,
    /// What a repeat has in common with it.
    pub(super) repeats: Repeats,
    /// The status that the tool wants to hear, and the text of its own kind.
    pub(super) status: u16,
    pub(super) answer: Option<(&'static str, &'static str)>,
    /// Whether a tool sent one object that nothing identifies.
    pub(super) without_item_key: bool,
    /// What is odd about it, for the log. It is logged and not refused, because the items can be stored all the same.
    pub(super) odd: Option<Box<str>>,
}

/// What a repeat has in common with a delivery: either is enough.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Its id, where that is not the idempotency key.
    pub(super) id: Option<Box<str>>,
    /// What was signed, where that counts: its body, or its body with its time.
    pub(super) signed: Option<Box<str>>,
}

/// A body in its forms.
struct Sent<'a> {
    /// As it came. The signature and the claims are over these bytes, so they are kept beside what was decoded.
    body: &'a [u8],
    /// As JSON.
    whole: Bytes,
    /// The items of it.
    json: Bytes,
}

/// What was read.
pub(super) enum Reading {
    Delivery(Delivered),
    /// There is nothing to store: a greeting, or an event that the tool's preset leaves out; and what the log is to say.
    Challenge(Challenge, Option<String>),
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
            let delivered = self.read_without_tool(&of, named, body)?;
            return Ok(Reading::Delivery(delivered));
        };
        let whole = self.decoded(named.form, body)?;
        if of.signing.is_none() {
            let url = self.url(&address);
            let delivery = delivery(&address, &url, &whole);
            if let Some(challenge) = handshake::of_keyed(of.preset, &delivery) {
                return Ok(Reading::Challenge(challenge, handshake::to_do(&delivery)));
            }
        }
        if let Some(tool) = of
            .tool()
            .filter(|tool| !named.form.is_of(&tool.content_types))
        {
            return Err(AcceptError::invalid(other_type(tool)));
        }
        let whole = self.of_fields(&of, whole)?;
        let json = (of.items(&whole, self.limits.decoded_bytes_max()))
            .map_err(|error| self.not_decoded(error))?;
        if of.takes_items() && json.as_ref() == b"[]" {
            return Ok(nothing(
                &of,
                format!("the body has no items at `{}`", of.items_text()),
            ));
        }
        self.read_items(&of, &address, named, &Sent { body, whole, json })
    }

    /// What the items of a body mean.
    fn read_items(
        &self,
        of: &Context<'_>,
        address: &Address<'_>,
        named: &Named,
        sent: &Sent<'_>,
    ) -> Result<Reading, AcceptError> {
        let Sent { body, whole, json } = sent;
        let (items, by) = self.distinguished(json, named)?;
        let by_delivery = matches!(by, By::Delivery);
        let takes_items = of.takes_items();
        let field = |path: &Path| match takes_items || path.walks_arrays() {
            true => path.find(whole),
            false => field_of_item(&items, &path.flat()),
        };
        let event = of.event(field).or_else(|| {
            let mut paths = of.event_source()?.item_paths();
            paths.find_map(|path| field_of_item(&items, &path.flat()))
        });
        if let Some(event) = event.as_deref().filter(|event| of.ignores(event)) {
            return Ok(nothing(of, format!("the event {event} is not stored")));
        }
        let own_id = of.own_id(field);
        let signed =
            (of.signing).and_then(|signing| self.signed(signing, address, body, own_id.is_some()));
        let id = own_id.or_else(|| of_cloudevent(address.headers, "ce-id"));
        let idempotency_key = match &id {
            Some(id) => Some(idempotency_key(id)),
            None => named.idempotency_key.clone(),
        };
        let more = fields_of_headers(of, address, event.as_deref());
        let source = of_cloudevent(address.headers, "ce-source").or_else(|| {
            let scope = of.tool()?.id_scope.as_ref()?;
            scope.find(address.headers, address.target, field)
        });
        let without_item_key = named.item_key.is_none() && is_object(json);
        let name = id.as_deref().or(named.idempotency_key.as_deref());
        let more = object(&more);
        let items_were_none = items.is_empty();
        let identity = Identity {
            by_delivery,
            composed: match by {
                By::Composed(key) => Some(key),
                By::Named | By::Delivery => None,
            },
            required: named.required(),
            id: name,
            event: event.as_deref(),
            more: &more,
        };
        let identified = self.identified(items, of, &identity)?;
        if identified.items.is_empty() && !items_were_none {
            return Ok(nothing(
                of,
                "the events of its items are not stored".to_owned(),
            ));
        }
        let is_odd = (by_delivery && !named.is_by_delivery()) || identified.lacks_key;
        Ok(Reading::Delivery(Delivered {
            items: identified.items,
            item_key: match identified.by {
                Some(field) => Some(field.into()),
                None => named.item_key().cloned(),
            },
            event: event.as_deref().map(logged),
            id: id.as_deref().map(logged),
            idempotency_key,
            repeats: Repeats {
                // The id of a CloudEvent is one of its source.
                id: source
                    .zip(id.as_deref())
                    .map(|(source, id)| format!("{source} {id}").into()),
                signed,
            },
            status: of.status(),
            answer: of.answer_body(),
            without_item_key,
            odd: match is_odd {
                true => Some(without_field(named)),
                false => identified.unreadable,
            },
        }))
    }

    /// What a delivery that is sent again has in common with the first, whatever its headers say.
    fn signed(
        &self,
        signing: &Signing,
        address: &Address<'_>,
        body: &[u8],
        has_id: bool,
    ) -> Option<Box<str>> {
        let by_body = match signing.verify.replay {
            Some(replay) => replay == Replay::Body,
            None => signing.verifier.preset().replay_body,
        };
        match by_body {
            true => Some(format!("body {}", digest(body)).into()),
            false => {
                let url = self.url(address);
                let delivery = delivery(address, &url, body);
                let digest = signing.verifier.signed_digest(&delivery, has_id)?;
                Some(format!("signed {}", hex(digest.as_ref())).into())
            }
        }
    }

    /// What a body means that was not sent to the address of a connector.
    fn read_without_tool(
        &self,
        of: &Context<'_>,
        named: &Named,
        body: &Bytes,
    ) -> Result<Delivered, AcceptError> {
        let json = self.decoded(named.form, body)?;
        let items = self.flatten(&json, named)?;
        let id = named.idempotency_key.as_deref();
        let identity = Identity {
            by_delivery: named.is_by_delivery(),
            composed: named.composed.as_deref(),
            required: named.required(),
            id,
            event: None,
            more: "{}",
        };
        let identified = self.identified(items, of, &identity)?;
        Ok(Delivered {
            items: identified.items,
            item_key: named.item_key().cloned(),
            event: None,
            id: None,
            idempotency_key: named.idempotency_key.clone(),
            repeats: Repeats::default(),
            status: 202,
            answer: None,
            without_item_key: named.item_key.is_none() && is_object(&json),
            odd: identified.unreadable,
        })
    }

    /// The body with the fields that its tool writes in Base64 as they are.
    fn of_fields(&self, of: &Context<'_>, whole: Bytes) -> Result<Bytes, AcceptError> {
        match of.tool().map(|tool| tool.base64.as_slice()) {
            None | Some([]) => Ok(whole),
            Some(paths) => body::without_base64(&whole, paths, self.limits.decoded_bytes_max())
                .map_err(|error| self.not_decoded(error)),
        }
    }

    /// The JSON that a body stands for.
    pub(super) fn decoded(&self, form: Form, body: &Bytes) -> Result<Bytes, AcceptError> {
        body::decode(form, body.clone(), self.limits.decoded_bytes_max())
            .map_err(|error| self.not_decoded(error))
    }

    fn not_decoded(&self, error: DecodeError) -> AcceptError {
        match error {
            DecodeError::TooLarge => self.too_large(),
            DecodeError::Invalid(message) => AcceptError::invalid(message),
        }
    }
}

/// The answer to a delivery of which nothing is stored, and why.
fn nothing(of: &Context<'_>, why: String) -> Reading {
    let (content_type, body) = of.answer_body().unzip();
    let challenge = Challenge {
        status: of.status(),
        content_type: content_type.map(Into::into),
        body: body.unwrap_or_default().to_owned(),
        headers: Vec::new(),
    };
    Reading::Challenge(challenge, Some(why))
}

/// What is said of a content type that a tool does not send.
fn other_type(tool: &Preset) -> String {
    format!(
        "the header Content-Type is none that {} sends: {}; set the preset's content_types if the tool has others",
        tool.title,
        tool.content_types.join(", ")
    )
}

/// What the log says where the field that identifies items is in none.
fn without_field(named: &Named) -> Box<str> {
    let (field, named_by) = named.item_key.as_ref().map_or(("", ""), |(a, b)| (a, b));
    format!("there is no usable field {field:?}, which {named_by} names: the delivery is a separate item; set item_key for the connector").into()
}
