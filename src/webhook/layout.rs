//! How signatures, timestamp and id stand in a request, and which bytes are signed.
//!
//! A [`Verifier`](super::Verifier) makes one [`Layout`] of its preset, or of the settings of `hmac`.
//!
//! **Invariant**: what is signed is what came: no timestamp, id or body is decoded and written again.

use std::borrow::Cow;

use super::key::{Key, decode};
use super::preset::{Encoding, Part, Place, Preset, Source, Time};
use super::special::decoded_url;
use super::{Because, Delivery, Headers, Refused, clock, field};
use base::clock::Unix;

/// The most signatures that one header may offer.
const SIGNATURES_MAX: usize = 8;

/// How signatures, timestamp and id stand in a request, and which bytes are signed.
#[derive(Clone)]
pub(super) struct Layout {
    pub(super) signature: Source,
    pub(super) separator: Option<char>,
    pub(super) prefix: String,
    pub(super) encoding: Encoding,
    pub(super) message: Vec<Part>,
    pub(super) timestamp: Option<Time>,
    pub(super) tolerance_seconds: u64,
    pub(super) id: Option<Source>,
}

/// What the headers say.
pub(super) struct Head<'a> {
    /// The name of the header with the signatures.
    pub(super) header: String,
    /// The signatures, decoded; at least one.
    pub(super) offered: Vec<Vec<u8>>,
    pub(super) timestamp: Option<Cow<'a, str>>,
    pub(super) id: Option<Cow<'a, str>>,
}

impl Layout {
    /// The layout of a preset, its tolerance replaced where the settings say so.
    pub(super) fn of(preset: &Preset, tolerance_seconds: Option<u64>) -> Layout {
        Layout {
            signature: preset.signature.owned(),
            separator: preset.separator,
            prefix: preset.prefix.to_owned(),
            encoding: preset.encoding,
            message: preset.message.iter().map(|part| part.owned()).collect(),
            timestamp: preset.timestamp.map(Time::owned),
            tolerance_seconds: tolerance_seconds.unwrap_or(preset.tolerance_seconds),
            id: preset.id.map(Source::owned),
        }
    }

    /// Whether the timestamp is part of what is signed.
    pub(super) fn signs_time(&self) -> bool {
        match self.timestamp.as_ref().map(|time| &time.place) {
            None => false,
            Some(Place::Source(source)) if self.signs(source) => true,
            Some(_) => self.message.contains(&Part::Timestamp),
        }
    }

    /// Whether what stands there is part of what is signed: in the body, or as the id.
    pub(super) fn signs(&self, source: &Source) -> bool {
        match source {
            Source::Body(_) | Source::EitherBody(..) => self.message.contains(&Part::Body),
            Source::Header(_) | Source::EitherHeader(..) => {
                self.message.contains(&Part::Id) && self.id.as_ref() == Some(source)
            }
        }
    }

    /// Reads the headers and checks what can be checked without the body.
    pub(super) fn head<'a>(
        &self,
        key: &Key,
        headers: Headers<'a>,
        now: Unix,
    ) -> Result<Head<'a>, Refused> {
        let renamed = self.is_renamed(headers);
        // A signature that stands in no header has a special case of its own.
        let header = self.signature.header(renamed).unwrap_or_default();
        let value = headers.needed(header)?;
        let parts = || {
            let split = move |at: char| Some(at) == self.separator;
            value.split(split).map(str::trim)
        };
        let id = match self.signed_id().and_then(|id| id.header(renamed)) {
            Some(name) => Some(headers.needed(name)?.into()),
            None => None,
        };
        let timestamp = match &self.timestamp {
            Some(time) => Self::head_timestamp(time, headers, (header, renamed), parts())?,
            None => None,
        };
        if let (Some(text), Some(time)) = (timestamp, &self.timestamp) {
            clock::check(text, time.unit, self.tolerance_seconds, now)?;
        }
        Ok(Head {
            header: header.to_owned(),
            offered: self.offered(key, header, parts())?,
            timestamp: timestamp.map(Cow::Borrowed),
            id,
        })
    }

    /// The timestamp, unless it stands in the body.
    fn head_timestamp<'a>(
        time: &Time,
        headers: Headers<'a>,
        (header, renamed): (&str, bool),
        mut parts: impl Iterator<Item = &'a str>,
    ) -> Result<Option<&'a str>, Refused> {
        let prefix = match &time.place {
            Place::Part(prefix) => prefix,
            Place::Source(source) => {
                let name = source.header(renamed);
                return name.map(|name| headers.needed(name)).transpose();
            }
        };
        match parts.find_map(|part| part.strip_prefix(prefix.as_str())) {
            Some(text) if !text.is_empty() => Ok(Some(text)),
            _ => Err(Refused::header(format!(
                "the header {header} has no timestamp, a part that begins with `{prefix}`"
            ))),
        }
    }

    /// The signatures of the header that could be one. What is none of this scheme is ignored, as newer schemes are.
    fn offered<'a>(
        &self,
        key: &Key,
        header: &str,
        parts: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<Vec<u8>>, Refused> {
        let given: Vec<&str> = parts
            .filter_map(|part| part.strip_prefix(self.prefix.as_str()))
            .take(SIGNATURES_MAX + 1)
            .collect();
        if given.is_empty() {
            return Err(Refused::header(format!(
                "the header {header} has no signature that begins with `{}`",
                self.prefix
            )));
        }
        if given.len() > SIGNATURES_MAX {
            return Err(Refused::header(format!(
                "the header {header} has more than {SIGNATURES_MAX} signatures"
            )));
        }
        let decoded = given.iter().filter_map(|text| decode(text, self.encoding));
        let offered: Vec<Vec<u8>> = decoded.filter(|bytes| key.fits(bytes)).collect();
        if offered.is_empty() {
            let wanted = match self.encoding {
                Encoding::Hex => "hexadecimal digits",
                Encoding::Base64 => "padded Base64",
            };
            return Err(Refused::signature(format!(
                "the signature in {header} is not {wanted} of the right length"
            )));
        }
        Ok(offered)
    }

    /// The bytes that are signed, in parts. Reads the body's fields only if they are signed or the clock is checked.
    pub(super) fn message<'b>(
        &'b self,
        head: Head<'b>,
        delivery: &'b Delivery<'b>,
        url: &'b str,
    ) -> Result<Vec<Cow<'b, [u8]>>, Refused> {
        let Head { timestamp, id, .. } = head;
        let timestamp = match timestamp {
            None => self.body_timestamp(delivery)?.map(Cow::Owned),
            found => found,
        };
        let id = match (id, self.signed_id()) {
            (None, Some(Source::Body(path))) => {
                let missing =
                    || Refused::body(format!("the body has no `{path}`, which is signed"));
                Some(field::of(delivery.body, path).ok_or_else(missing)?.into())
            }
            (found, _) => found,
        };
        let bytes = |text: &Option<Cow<'b, str>>| match text {
            Some(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
            Some(Cow::Owned(text)) => Cow::Owned(text.clone().into_bytes()),
            None => Cow::Borrowed(&b""[..]),
        };
        let part = |part: &'b Part| match part {
            Part::Body => Cow::Borrowed(delivery.body),
            Part::Timestamp => bytes(&timestamp),
            Part::Id => bytes(&id),
            Part::Url => Cow::Borrowed(url.as_bytes()),
            Part::DecodedUrl => Cow::Owned(decoded_url(url).into_bytes()),
            Part::Method => Cow::Borrowed(delivery.method.as_bytes()),
            Part::Text(text) => Cow::Borrowed(text.as_bytes()),
        };
        Ok(self.message.iter().map(part).collect())
    }

    fn body_timestamp(&self, delivery: &Delivery<'_>) -> Result<Option<String>, Refused> {
        let Some(time) = &self.timestamp else {
            return Ok(None);
        };
        let Place::Source(Source::Body(path)) = &time.place else {
            return Ok(None);
        };
        if self.tolerance_seconds == 0 && !self.message.contains(&Part::Timestamp) {
            return Ok(None);
        }
        let Some(text) = field::of(delivery.body, path) else {
            let message = format!("the body has no timestamp at `{path}`");
            return Err(Refused::new(Because::Timestamp, message));
        };
        clock::check(&text, time.unit, self.tolerance_seconds, delivery.now)?;
        Ok(Some(text))
    }

    /// Where the id stands, if it is signed.
    fn signed_id(&self) -> Option<&Source> {
        self.id
            .as_ref()
            .filter(|_| self.message.contains(&Part::Id))
    }

    /// Whether the sender uses the second names of its headers. One header of the first names is enough for the first:
    /// an id that was added to a delivery then needs a signature under the first names too.
    fn is_renamed(&self, headers: Headers<'_>) -> bool {
        let time = self.timestamp.as_ref().and_then(|time| match &time.place {
            Place::Source(source) => Some(source),
            Place::Part(_) => None,
        });
        let signed = [Some(&self.signature), time, self.signed_id()];
        let any = |renamed: bool| {
            let names = signed
                .iter()
                .flatten()
                .filter_map(|source| source.header(renamed));
            let mut found = names.filter(|name| headers.has(name));
            found.next().is_some()
        };
        !any(false) && any(true)
    }
}
