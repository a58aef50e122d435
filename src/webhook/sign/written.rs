//! Puts signatures, timestamps and ids where a tool has them: into headers, the query or the body.
//!
//! **Invariant**: a header that is written is plain text without blanks around it.

use serde_json::Value;

use super::{CannotSign, Draft, Signed};
use crate::edit::{Body, each};
use crate::layout::Layout;
use crate::path::Step;
use crate::place::Place;
use crate::{body, text};

/// A signature with its prefix, and the timestamp where it belongs.
pub(super) fn place_signature(
    layout: &Layout,
    signature: &str,
    time: Option<(&Place, &str)>,
    draft: &Draft<'_>,
    signed: &mut Signed,
) -> Result<(), CannotSign> {
    signature.clone_into(&mut signed.signature);
    let mut text = format!("{}{signature}", layout.verify.prefix);
    match time {
        Some((Place::Part(prefix), time)) => {
            let separator = layout
                .verify
                .separator
                .map(String::from)
                .unwrap_or_default();
            text = format!("{prefix}{time}{separator}{text}");
        }
        Some((Place::Header(name), time)) => put(&mut signed.headers, name, time)?,
        Some((Place::Query(name), time)) => signed.add_parameter(name, time),
        _ => {}
    }
    place_text(layout, &text, draft, signed)
}

/// Puts a text where signatures stand.
pub(super) fn place_text(
    layout: &Layout,
    text: &str,
    draft: &Draft<'_>,
    signed: &mut Signed,
) -> Result<(), CannotSign> {
    let is_form = draft.is_form();
    match layout.verify.signature.first() {
        Some(Place::Header(name)) => put(&mut signed.headers, name, text),
        Some(Place::Query(name)) => {
            signed.add_parameter(name, text);
            Ok(())
        }
        Some(Place::Body(path)) => edit(
            &mut signed.body,
            is_form,
            (path.steps(), true),
            &mut |value| {
                *value = text.into();
            },
        ),
        Some(Place::Item(path)) => {
            let items = layout.items.as_ref().map_or(&[][..], |items| items.steps());
            edit(&mut signed.body, is_form, (items, false), &mut |item| {
                body::each_value(item, &mut |item| {
                    each(item, path.steps(), true, &mut |value| *value = text.into());
                });
            })
        }
        Some(Place::Part(_)) | None => Err(CannotSign::new("there is no place for a signature")),
    }
}

/// Adds a header; one without a value is left out.
pub(super) fn put(
    headers: &mut Vec<(String, String)>,
    name: &str,
    value: &str,
) -> Result<(), CannotSign> {
    if text(value.as_bytes()).is_none() || value.trim() != value {
        return Err(CannotSign::new(format!(
            "the value for the header {name} has control characters, or spaces around it"
        )));
    }
    if !value.is_empty() {
        headers.push((name.to_owned(), value.to_owned()));
    }
    Ok(())
}

/// Where the body is not signed, its time and its id are those of this delivery.
pub(super) fn write_into_body(
    layout: &Layout,
    draft: &Draft<'_>,
    time: &str,
    body: &mut Vec<u8>,
) -> Result<(), CannotSign> {
    let of_id = layout.id.as_ref().and_then(|id| id.singles().next()?);
    let written = [(layout.verify.timestamp.first(), time), (of_id, draft.id)];
    for (place, text) in written {
        if let Some(Place::Body(path)) = place {
            let at = (path.steps(), true);
            edit(body, draft.is_form(), at, &mut |value| *value = text.into())?;
        }
    }
    Ok(())
}

/// Changes fields of a body.
pub(super) fn edit(
    body: &mut Vec<u8>,
    is_form: bool,
    (steps, makes): (&[Step], bool),
    then: &mut dyn FnMut(&mut Value),
) -> Result<(), CannotSign> {
    let Some(mut parsed) = Body::read(body, is_form) else {
        return Err(no_object());
    };
    let mut is_there = false;
    parsed.each(steps, makes, &mut |value| {
        is_there = true;
        then(value);
    });
    if !is_there {
        return Err(no_object());
    }
    *body = parsed.written();
    Ok(())
}

fn no_object() -> CannotSign {
    CannotSign::new(
        "the signature belongs in the body, but this body is not a JSON object with a place for it",
    )
}
