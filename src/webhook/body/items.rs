//! The items of a body, through arrays, with what stands around them: `items`, `with` and `base64` of presets.
//!
//! Called after `decode` by the pipeline, and by checks of items with their own signatures.
//!
//! **Invariant**: every hit is an item, in the order of the body, and its values are written as they came. What comes out
//! is at most `bytes_max` long.

use std::borrow::Cow;
use std::ops::ControlFlow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;

use super::output::Output;
use super::{DecodeError, at_path};
use crate::path::{Path, Step, elements, inner, member, text_of, walk};

/// Where the items of a body are.
#[derive(Clone, Copy, Debug, Default)]
pub struct ItemSource<'a> {
    pub items: Option<&'a Path>,
    /// Fields that each item gets of what stands around it. An item would otherwise lose what its body says once for
    /// all of them.
    pub with: &'a [(String, Path)],
}

impl ItemSource<'_> {
    /// The items as an array or an object. A simple path shares the bytes of the body instead of copying them.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn take(&self, json: &Bytes, bytes_max: usize) -> Result<Bytes, DecodeError> {
        let Some(path) = self.items else {
            return match self.with {
                [] => Ok(json.clone()),
                with => collected(json, &[], with, bytes_max).map(|(bytes, _)| bytes),
            };
        };
        let plain = !path.walks_arrays() && !path.text().contains('"');
        let simple = match plain && self.with.is_empty() {
            true => match at_path(json, path.text()) {
                Ok(found) => return Ok(found),
                Err(message) => Some(message),
            },
            false => None,
        };
        let (bytes, count) = collected(json, path.steps(), self.with, bytes_max)?;
        match (count, simple) {
            (0, Some(message)) => Err(DecodeError::Invalid(message)),
            (0, None) if !path.walks_arrays() => {
                let message = format!(
                    "the body has nothing at `{path}`; the connector expects its items there"
                );
                Err(DecodeError::Invalid(message))
            }
            _ => Ok(bytes),
        }
    }
}

/// Hands over the text of each item of a body, until it is told to stop. They are handed over one by one, so that a
/// check can end at the first that fails.
pub(crate) fn each_item(body: &[u8], items: Option<&Path>, then: &mut dyn FnMut(&str) -> bool) {
    let Some(text) = text_of(body) else {
        return;
    };
    let steps = items.map_or(&[][..], Path::steps);
    let _ = walk(text, steps, 2, &mut |found| each_element(found, then));
}

/// The elements of an array, or what is none.
fn each_element(found: &str, then: &mut dyn FnMut(&str) -> bool) -> ControlFlow<()> {
    let mut flow = ControlFlow::Continue(());
    let mut one = |text: &str| {
        flow = match then(text) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        flow
    };
    match found.as_bytes().first() {
        Some(b'[') => elements(found, &mut one),
        Some(b'{') => drop(one(found)),
        _ => {}
    }
    flow
}

/// The same of a value: the elements of an array, or what is none.
pub(crate) fn each_value(value: &mut Value, then: &mut dyn FnMut(&mut Value)) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(then),
        other => then(other),
    }
}

/// A field of `with`: its name, and the way to it from where the walk is.
type Beside<'a> = (&'a str, &'a [Step]);

/// What is written of the items. It writes text instead of a tree of values, so that numbers stay as they came.
struct Collector {
    out: Output,
    count: usize,
    failed: bool,
}

/// The items at the end of the steps as an array, and how many there are.
fn collected(
    json: &[u8],
    steps: &[Step],
    with: &[(String, Path)],
    bytes_max: usize,
) -> Result<(Bytes, usize), DecodeError> {
    let Some(text) = text_of(json) else {
        let message = "the body is not UTF-8; send JSON in UTF-8".to_owned();
        return Err(DecodeError::Invalid(message));
    };
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let message = format!("the body is not JSON: {error}");
        return Err(DecodeError::Invalid(message));
    }
    let mut to = Collector {
        out: Output::new(bytes_max),
        count: 0,
        failed: false,
    };
    let beside: Vec<Beside<'_>> = (with.iter())
        .map(|(name, path)| (name.as_str(), path.steps()))
        .collect();
    to.push("[");
    to.walk(text, steps, &beside, &mut Vec::new());
    to.push("]");
    match to.failed {
        true => Err(DecodeError::TooLarge),
        false => Ok((to.out.into_bytes(), to.count)),
    }
}

impl Collector {
    fn push(&mut self, text: &str) {
        self.failed |= self.out.push(text.as_bytes()).is_err();
    }

    /// Goes on to the items. Ways of fields that are those of the items go along; others end here, in `known`. A field
    /// is looked up from the place where its way leaves that of the items, so that each item gets what belongs to it.
    fn walk(
        &mut self,
        text: &str,
        steps: &[Step],
        beside: &[Beside<'_>],
        known: &mut Vec<(String, String)>,
    ) {
        let text = text.trim_ascii();
        if self.failed {
            return;
        }
        if text.starts_with('"') {
            if let Some(inner) = inner(text) {
                self.walk(&inner, steps, beside, known);
            }
            return;
        }
        let Some((step, rest)) = steps.split_first() else {
            return self.end(text, beside, known);
        };
        let before = known.len();
        let mut along: Vec<Beside<'_>> = Vec::new();
        for (name, way) in beside {
            match way.split_first() {
                Some((own, after)) if own == step => along.push((name, after)),
                _ => known.extend(found(text, way).map(|value| ((*name).to_owned(), value))),
            }
        }
        match step {
            Step::Name(name) => {
                if let Some(value) = member(text, name) {
                    self.walk(value, rest, &along, known);
                }
            }
            Step::Each if text.starts_with('[') => elements(text, &mut |element| {
                self.walk(element, rest, &along, known);
                match self.failed {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            }),
            Step::Each => {}
        }
        known.truncate(before);
    }

    fn end(&mut self, text: &str, beside: &[Beside<'_>], known: &[(String, String)]) {
        let _ = each_element(text, &mut |element| {
            let own = (beside.iter())
                .filter_map(|(name, way)| Some(((*name).to_owned(), found(element, way)?)));
            let own: Vec<(String, String)> = own.collect();
            self.item(element, known.iter().chain(&own));
            !self.failed
        });
    }

    fn item<'k>(&mut self, element: &str, fields: impl Iterator<Item = &'k (String, String)>) {
        if self.count > 0 {
            self.push(",");
        }
        self.count += 1;
        let Some(members) = element.strip_prefix('{') else {
            return self.push(element);
        };
        self.push("{");
        let is_empty = members.trim_ascii_start().starts_with('}');
        let mut is_first = true;
        for (name, value) in fields {
            // What the item says itself goes before.
            if member(element, name).is_some() {
                continue;
            }
            if !is_first {
                self.push(",");
            }
            is_first = false;
            self.push(&Value::from(name.as_str()).to_string());
            self.push(":");
            self.push(value);
        }
        if !is_first && !is_empty {
            self.push(",");
        }
        self.push(members);
    }
}

/// What stands at the end of a way: one value, an array of several, or nothing.
fn found(text: &str, way: &[Step]) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    let _ = walk(text, way, 2, &mut |raw| {
        all.push(raw.to_owned());
        ControlFlow::Continue(())
    });
    match all.len() {
        0 => None,
        1 => all.pop(),
        _ => Some(format!("[{}]", all.join(","))),
    }
}

/// A body whose fields at these paths are what their Base64 holds: JSON, or text. Others stay. The rest of the body is
/// copied as it is, so that no number changes.
///
/// # Errors
/// [`DecodeError::TooLarge`] over `bytes_max`.
pub fn without_base64(
    json: &Bytes,
    paths: &[Path],
    bytes_max: usize,
) -> Result<Bytes, DecodeError> {
    let Some(text) = text_of(json) else {
        return Ok(json.clone());
    };
    let mut changes: Vec<(usize, usize, String)> = Vec::new();
    for path in paths {
        let _ = walk(text, path.steps(), 0, &mut |raw| {
            let start = (raw.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
            if let (Some(start), Some(decoded)) = (start, decoded(raw)) {
                changes.push((start, start + raw.len(), decoded.into_owned()));
            }
            ControlFlow::Continue(())
        });
    }
    changes.sort_unstable();
    let mut out = Output::new(bytes_max);
    let mut at = 0;
    for (start, end, with) in changes {
        if start >= at && end <= text.len() {
            out.push(&text.as_bytes()[at..start])?;
            out.push(with.as_bytes())?;
            at = end;
        }
    }
    out.push(&text.as_bytes()[at..])?;
    Ok(out.into_bytes())
}

fn decoded(raw: &str) -> Option<Cow<'_, str>> {
    let encoded: String = serde_json::from_str(raw).ok()?;
    let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let is_json = text.trim_ascii_start().starts_with(['{', '['])
        && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
    Some(match is_json {
        true => text.into(),
        false => Value::from(text).to_string().into(),
    })
}
