//! How signatures, timestamp and id stand in a request, and which bytes are signed.
//!
//! A [`Verifier`](super::Verifier) makes one [`Layout`] of its preset and the settings of its key.
//!
//! **Invariant**: what is signed is what came: no timestamp, id or body is decoded and written again.

use std::borrow::Cow;

use super::key::{Key, decode, encode, hashed};
use super::path::Path;
use super::place::{Place, Source, parameter};
use super::preset::{Digest, Encoding, Verification};
use super::special::decoded_url;
use super::template::Piece;
use super::{Because, Delivery, Headers, Refused, clock};
use base::clock::Unix;

/// The most signatures that one delivery may offer.
const SIGNATURES_MAX: usize = 8;
/// The most items with their own signatures.
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

/// What can be known without the body.
#[derive(Default)]
pub(super) struct Head<'a> {
    /// Where the signatures stand, for messages.
    pub(super) name: String,
    /// The signatures, decoded; none if they stand in the body.
    pub(super) offered: Vec<Vec<u8>>,
    pub(super) timestamp: Option<Cow<'a, str>>,
    pub(super) id: Option<Cow<'a, str>>,
}

/// A request without its body. Without the URL nothing is looked up in its query.
#[derive(Clone, Copy)]
pub(super) struct Outside<'a> {
    pub(super) headers: Headers<'a>,
    pub(super) url: Option<&'a str>,
    pub(super) now: Unix,
}

impl<'a> Outside<'a> {
    pub(super) fn of(delivery: &Delivery<'a>) -> Outside<'a> {
        Outside {
            headers: delivery.headers,
            url: Some(delivery.url),
            now: delivery.now,
        }
    }

    fn query(&self, name: &str) -> Option<String> {
        parameter(self.url?, name).filter(|text| !text.is_empty())
    }
}

impl Layout {
    /// Whether the timestamp is part of what is signed.
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

    /// Reads what stands outside the body, and checks what can be checked without it.
    pub(super) fn head<'a>(&self, key: &Key, of: Outside<'a>) -> Result<Head<'a>, Refused> {
        let step = self.step(of);
        let mut head = Head::default();
        let given = self.given(of, self.signature_places(step), &mut head.name)?;
        let separator = self.verify.separator;
        let parts: Vec<&str> = (given.iter())
            .flat_map(|text| text.split(move |at: char| Some(at) == separator))
            .map(str::trim)
            .collect();
        head.id = self.head_id(of, step)?.map(Cow::Owned);
        head.timestamp = self.head_timestamp(of, step, &head.name, &parts)?;
        if let Some(text) = &head.timestamp {
            let verify = &self.verify;
            clock::check(text, verify.unit, verify.tolerance_seconds, of.now)?;
        }
        if !given.is_empty() {
            head.offered = self.offered(key, &head.name, &parts)?;
        }
        Ok(head)
    }

    /// What stands at places outside the body: one at least, unless a place is in the body or the URL is not known yet.
    pub(super) fn given<'a>(
        &self,
        of: Outside<'a>,
        places: &[Place],
        name: &mut String,
    ) -> Result<Vec<Cow<'a, str>>, Refused> {
        let mut given = Vec::new();
        let mut is_open = false;
        for place in places {
            let found = match place {
                Place::Header(header) if places.len() == 1 => {
                    Some(Cow::Borrowed(of.headers.needed(header)?))
                }
                Place::Header(header) => (of.headers.once(header)?)
                    .filter(|text| !text.is_empty())
                    .map(Cow::Borrowed),
                Place::Query(parameter) => {
                    is_open |= of.url.is_none();
                    of.query(parameter).map(Cow::Owned)
                }
                Place::Body(_) | Place::Item(_) => {
                    is_open = true;
                    None
                }
                Place::Part(_) => None,
            };
            if let Some(found) = found {
                if name.is_empty() {
                    *name = shown(place);
                }
                given.push(found);
            }
        }
        if given.is_empty() && !is_open {
            return Err(match places.first() {
                Some(Place::Query(parameter)) => {
                    Refused::header(format!("the URL has no parameter {parameter}"))
                }
                Some(Place::Header(header)) => match of.headers.needed(header) {
                    Err(refused) => refused,
                    Ok(_) => Refused::header(format!("the header {header} cannot be read")),
                },
                _ => Refused::header("there is no place for a signature"),
            });
        }
        Ok(given)
    }

    /// Which of the names the sender uses, if it renames all at once: the first of which one header is there.
    fn step(&self, of: Outside<'_>) -> Option<usize> {
        if !self.verify.in_step {
            return None;
        }
        let is_there = |place: &Place| (place.header()).is_some_and(|name| of.headers.has(name));
        let any = |step: usize| {
            let verify = &self.verify;
            let id = self.signed_id().and_then(|id| id.singles().nth(step)?);
            let places = [verify.signature.get(step), verify.timestamp.get(step), id];
            places.into_iter().flatten().any(is_there)
        };
        let steps = 0..self.verify.signature.len();
        Some(steps.into_iter().find(|step| any(*step)).unwrap_or(0))
    }

    fn head_id(&self, of: Outside<'_>, step: Option<usize>) -> Result<Option<String>, Refused> {
        let Some(id) = self.signed_id() else {
            return Ok(None);
        };
        if let Some(step) = step {
            let place = id.singles().nth(step).flatten();
            return Ok(match place.and_then(Place::header) {
                Some(name) => Some(of.headers.needed(name)?.to_owned()),
                None => None,
            });
        }
        if !id.is_in_headers() {
            return Ok(None);
        }
        let found = id.find(of.headers, "", |_| None);
        match (found, id.singles().next().flatten().and_then(Place::header)) {
            // A header that stands there twice, or is empty, is said to be so.
            (_, Some(name)) if id.0.len() == 1 => Ok(Some(of.headers.needed(name)?.to_owned())),
            (Some(found), _) => Ok(Some(found)),
            (None, name) => of.headers.needed(name.unwrap_or_default()).map(|_| None),
        }
    }

    /// The timestamp, unless it stands in the body.
    fn head_timestamp<'a>(
        &self,
        of: Outside<'a>,
        step: Option<usize>,
        name: &str,
        parts: &[&str],
    ) -> Result<Option<Cow<'a, str>>, Refused> {
        let places = &self.verify.timestamp;
        let place = match step {
            Some(step) => places.get(step),
            None => {
                let is_there =
                    |place: &&Place| place.header().is_none_or(|name| of.headers.has(name));
                places.iter().find(is_there).or_else(|| places.first())
            }
        };
        match place {
            Some(Place::Header(name)) => of
                .headers
                .needed(name)
                .map(|text| Some(Cow::Borrowed(text))),
            Some(Place::Query(parameter)) => match (of.query(parameter), of.url) {
                (None, Some(_)) => Err(Refused::header(format!(
                    "the URL has no parameter {parameter}"
                ))),
                (found, _) => Ok(found.map(Cow::Owned)),
            },
            Some(Place::Part(prefix)) => {
                let found = match prefix.is_empty() {
                    true => parts.first().copied(),
                    false => parts
                        .iter()
                        .find_map(|part| part.strip_prefix(prefix.as_str())),
                };
                match found {
                    Some(text) if !text.is_empty() => Ok(Some(Cow::Owned(text.to_owned()))),
                    _ => Err(Refused::header(format!(
                        "the header {name} has no timestamp, a part that begins with `{prefix}`"
                    ))),
                }
            }
            Some(Place::Body(_) | Place::Item(_)) | None => Ok(None),
        }
    }

    /// The signatures among the parts. What is none of this scheme is ignored, as newer schemes are.
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

    /// What follows the prefix. That of an authorization scheme, which ends with a blank, is of either case.
    pub(super) fn without_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        let prefix = self.verify.prefix.as_str();
        if !prefix.ends_with(' ') {
            return text.strip_prefix(prefix);
        }
        let (given, rest) = text.split_at_checked(prefix.len())?;
        given.eq_ignore_ascii_case(prefix).then_some(rest)
    }

    /// The bytes that are signed, in parts, of a whole delivery or of one of its items. Reads the body's fields only if
    /// they are signed or the clock is checked.
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
