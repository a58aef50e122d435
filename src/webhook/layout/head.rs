//! What stands outside the body of a delivery: its signatures, its timestamp and its id.
//!
//! **Invariant**: nothing of it depends on the body, so that a delivery can be refused before its body is read.

use std::borrow::Cow;

use super::{Layout, shown};
use crate::key::Key;
use crate::place::{Place, parameter};
use crate::{Delivery, Headers, Refused, clock};
use base::clock::Unix;

/// What can be known without the body.
#[derive(Default)]
pub(crate) struct Head<'a> {
    /// Where the signatures stand, for messages.
    pub(crate) name: String,
    /// The signatures, decoded; none if they stand in the body.
    pub(crate) offered: Vec<Vec<u8>>,
    pub(crate) timestamp: Option<Cow<'a, str>>,
    pub(crate) id: Option<Cow<'a, str>>,
}

/// A request without its body. Without the URL nothing is looked up in its query.
#[derive(Clone, Copy)]
pub(crate) struct Outside<'a> {
    pub(crate) headers: Headers<'a>,
    pub(crate) url: Option<&'a str>,
    pub(crate) now: Unix,
}

impl<'a> Outside<'a> {
    pub(crate) fn of(delivery: &Delivery<'a>) -> Outside<'a> {
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
    /// Reads what stands outside the body, and checks what can be checked without it.
    pub(crate) fn head<'a>(&self, key: &Key, of: Outside<'a>) -> Result<Head<'a>, Refused> {
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
    pub(crate) fn given<'a>(
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
    /// Signature, time and id of different names would otherwise be mixed.
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
}
