//! How signatures, timestamp and id stand in a request, and which bytes are signed.
//!
//! A [`Verifier`](super::Verifier) makes one [`Layout`] of its preset and the settings of its key.
//!
//! **Invariant**: what is signed is what came: no timestamp, id or body is decoded and written again.

mod head;

use std::borrow::Cow;

use super::key::{Key, decode, encode, hashed};
use super::path::Path;
use super::place::{Place, Source, parameter};
use super::preset::{Digest, Encoding, Verification};
use super::special::decoded_url;
use super::template::Piece;
use super::{Because, Delivery, Refused, clock};
pub(super) use head::{Head, Outside};

/// The most signatures that one delivery may offer. Each of them costs a comparison, and with a public key much time.
const SIGNATURES_MAX: usize = 8;
/// The most items with their own signatures. A request could otherwise make the daemon verify any number of signatures.
pub(super) const ITEMS_MAX: usize = 1_000;

/// How signatures, timestamp and id stand in a request, and which bytes are signed.
#[derive(Clone)]
pub(super) struct Layout {
    pub(super) verify: Verification,
    pub(super) id: Option<Source>,
    /// Where the items are, for those with signatures of their own.
    pub(super) items: Option<Path>,
    /// What is set of the options of the preset.
    pub(super) options: Vec<(String, String)>,
}

impl Layout {
    /// Whether the timestamp is part of what is signed. A time that is not signed says nothing about a repetition.
    pub(super) fn signs_time(&self) -> bool {
        let verify = &self.verify;
        let of_body = |place: &Place| matches!(place, Place::Body(_));
        !verify.timestamp.is_empty()
            && (verify.signed.has(&Piece::Time)
                || (verify.signed.covers_body() && verify.timestamp.iter().all(of_body)))
    }

    /// Whether what stands there is part of what is signed: in the body, or as the id.
    pub(super) fn signs(&self, source: &Source) -> bool {
        let in_body = |place: &Place| matches!(place, Place::Body(_) | Place::Item(_));
        let all_in_body = source.0.iter().flatten().all(in_body);
        (all_in_body && self.verify.signed.covers_body())
            || (self.verify.signed.has(&Piece::Id) && self.id.as_ref() == Some(source))
    }

    /// The places of signatures: those in step, or all.
    fn signature_places(&self, step: Option<usize>) -> &[Place] {
        let all = self.verify.signature.as_slice();
        match step {
            Some(step) => all.get(step..=step).unwrap_or(all),
            None => all,
        }
    }

    /// The signatures among the parts. What is none of this scheme is ignored, as newer schemes are. A tool can add a
    /// new scheme beside the old one so.
    fn offered(&self, key: &Key, name: &str, parts: &[&str]) -> Result<Vec<Vec<u8>>, Refused> {
        let has_time_first = self.verify.timestamp.contains(&Place::Part(String::new()));
        let given: Vec<&str> = (parts.iter())
            .skip(usize::from(has_time_first))
            .filter_map(|part| self.without_prefix(part))
            .take(SIGNATURES_MAX + 1)
            .collect();
        if given.is_empty() {
            return Err(Refused::header(format!(
                "the header {name} has no signature that begins with `{}`",
                self.verify.prefix
            )));
        }
        if given.len() > SIGNATURES_MAX {
            return Err(Refused::header(format!(
                "the header {name} has more than {SIGNATURES_MAX} signatures"
            )));
        }
        let decoded = given
            .iter()
            .filter_map(|text| decode(text, self.verify.encoding));
        let offered: Vec<Vec<u8>> = decoded.filter(|bytes| key.fits(bytes)).collect();
        if offered.is_empty() {
            let wanted = match self.verify.encoding {
                Encoding::Hex => "hexadecimal digits",
                Encoding::Base64 => "padded Base64",
                Encoding::Base64Url => "Base64 for URLs",
            };
            return Err(Refused::signature(format!(
                "the signature in {name} is not {wanted} of the right length"
            )));
        }
        Ok(offered)
    }

    /// What follows the prefix. That of an authorization scheme, which ends with a blank, is of either case. RFC 9110
    /// says so of the names of schemes.
    pub(super) fn without_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        let prefix = self.verify.prefix.as_str();
        if !prefix.ends_with(' ') {
            return text.strip_prefix(prefix);
        }
        let (given, rest) = text.split_at_checked(prefix.len())?;
        given.eq_ignore_ascii_case(prefix).then_some(rest)
    }

    /// The bytes that are signed, in parts, of a whole delivery or of one of its items. Reads the body's fields only if
    /// they are signed or the clock is checked. Parts instead of one text, so that the body is not copied.
    pub(super) fn message<'b>(
        &'b self,
        key: &'b Key,
        head: &Head<'b>,
        delivery: &Delivery<'b>,
        url: &'b str,
        item: Option<&str>,
    ) -> Result<Vec<Cow<'b, [u8]>>, Refused> {
        let timestamp = match &head.timestamp {
            None => self.body_timestamp(delivery)?.map(Cow::Owned),
            found => found.clone(),
        };
        let id = match &head.id {
            None => self.body_id(delivery)?.map(Cow::Owned),
            found => found.clone(),
        };
        let text = |text: Cow<'b, str>| match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
        let piece = |piece: &'b Piece| -> Result<Cow<'b, [u8]>, Refused> {
            Ok(match piece {
                Piece::Text(text) => Cow::Borrowed(text.as_bytes()),
                Piece::Body => Cow::Borrowed(delivery.body),
                Piece::Time => text(timestamp.clone().unwrap_or_default()),
                Piece::Id => text(id.clone().unwrap_or_default()),
                Piece::Url => Cow::Borrowed(url.as_bytes()),
                Piece::UrlUnescaped => Cow::Owned(decoded_url(url).into_bytes()),
                Piece::UrlPath => Cow::Borrowed(path_of(url).as_bytes()),
                Piece::Method => Cow::Borrowed(delivery.method.as_bytes()),
                Piece::Secret => Cow::Borrowed(key.secret()),
                Piece::BodyDigest(encoding) => {
                    let digest = hashed(Digest::Sha256, &[Cow::Borrowed(delivery.body)]);
                    Cow::Owned(encode(digest.as_ref(), *encoding).into_bytes())
                }
                Piece::At(place) => Cow::Owned(at(place, delivery, item)?.into_bytes()),
                Piece::Option(name) => Cow::Borrowed(self.option(name).as_bytes()),
                Piece::Signed(..) => Cow::Borrowed(&[]),
            })
        };
        self.verify.signed.pieces.iter().map(piece).collect()
    }

    pub(super) fn option(&self, name: &str) -> &str {
        let mut options = self.options.iter();
        options
            .find(|(own, _)| own == name)
            .map_or("", |(_, text)| text)
    }

    fn body_timestamp(&self, delivery: &Delivery<'_>) -> Result<Option<String>, Refused> {
        let verify = &self.verify;
        let Some(Place::Body(path)) = verify.timestamp.first() else {
            return Ok(None);
        };
        if verify.tolerance_seconds == 0 && !verify.signed.has(&Piece::Time) {
            return Ok(None);
        }
        let Some(text) = delivery.field(path).filter(|text| !text.is_empty()) else {
            let message = format!("the body has no timestamp at `{path}`");
            return Err(Refused::new(Because::Timestamp, message));
        };
        clock::check(&text, verify.unit, verify.tolerance_seconds, delivery.now)?;
        Ok(Some(text))
    }

    fn body_id(&self, delivery: &Delivery<'_>) -> Result<Option<String>, Refused> {
        let Some(id) = self.signed_id().filter(|id| !id.is_in_headers()) else {
            return Ok(None);
        };
        let found = id.find(delivery.headers, delivery.url, |path| delivery.field(path));
        match found {
            Some(found) => Ok(Some(found)),
            None => {
                let place = id
                    .singles()
                    .next()
                    .flatten()
                    .map_or_else(String::new, shown);
                Err(Refused::body(format!(
                    "{place} is missing, but the signature covers it"
                )))
            }
        }
    }

    /// Where the id stands, if it is signed.
    fn signed_id(&self) -> Option<&Source> {
        (self.id.as_ref()).filter(|_| self.verify.signed.has(&Piece::Id))
    }
}

/// A place in messages.
pub(super) fn shown(place: &Place) -> String {
    match place {
        Place::Header(name) => name.clone(),
        Place::Query(name) => format!("the parameter {name}"),
        Place::Body(path) => format!("`{path}` of the body"),
        Place::Item(path) => format!("`{path}` of an item"),
        Place::Part(prefix) => format!("the part `{prefix}`"),
    }
}

/// A word of the message: a header or parameter must be there, a field of the body need not.
fn at(place: &Place, delivery: &Delivery<'_>, item: Option<&str>) -> Result<String, Refused> {
    Ok(match place {
        Place::Header(name) => delivery.headers.needed(name)?.to_owned(),
        Place::Query(name) => parameter(delivery.url, name)
            .ok_or_else(|| Refused::header(format!("the URL has no parameter {name}")))?,
        Place::Body(path) => delivery.field(path).unwrap_or_default(),
        Place::Item(path) => (item.and_then(|item| path.find(item.as_bytes()))).unwrap_or_default(),
        Place::Part(_) => String::new(),
    })
}

/// The path of a URL, with its query.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("", |at| &rest[at..])
}
