//! Signatures and tokens compared with what a delivery has, in headers, in the URL, in the body or in each item.
//!
//! The [`Verifier`](super::Verifier) calls these.
//!
//! **Invariant**: of items with their own signatures all must match, and one at least must be there.

use std::borrow::Cow;

use super::key::{Key, Token, decode};
use super::layout::{ITEMS_MAX, Layout, Outside};
use super::path::Path;
use super::place::Place;
use super::{Delivery, Refused};

pub(super) fn matching(matches: bool, name: &str) -> Result<(), Refused> {
    match matches {
        true => Ok(()),
        false => {
            let message = format!("the signature in {name} does not match");
            Err(Refused::signature(message))
        }
    }
}

/// The signatures of the body are read only if none came in a header, because reading it costs more.
pub(super) fn check_signature(
    layout: &Layout,
    key: &Key,
    delivery: &Delivery<'_>,
    url: &str,
) -> Result<(), Refused> {
    let mut head = layout.head(key, Outside::of(delivery))?;
    if layout.verify.is_of_items() {
        return each_item(layout, delivery, |item| {
            let mut offered = head.offered.clone();
            for place in &layout.verify.signature {
                if let Place::Item(path) = place {
                    offered.extend(decoded(layout, key, path.find_all(item.as_bytes())));
                }
            }
            let message = layout.message(key, &head, delivery, url, Some(item))?;
            matching(key.matches(&message, &offered), "an item of the body")
        });
    }
    let mut offered = std::mem::take(&mut head.offered);
    let mut name = std::mem::take(&mut head.name);
    if offered.is_empty() {
        "the body".clone_into(&mut name);
        offered = of_body(layout, key, delivery)?;
    }
    let message = layout.message(key, &head, delivery, url, None)?;
    matching(key.matches(&message, &offered), &name)
}

/// The signatures that stand in the body.
fn of_body(layout: &Layout, key: &Key, delivery: &Delivery<'_>) -> Result<Vec<Vec<u8>>, Refused> {
    let mut paths = layout
        .verify
        .signature
        .iter()
        .filter_map(|place| match place {
            Place::Body(path) => Some(path),
            _ => None,
        });
    let first = paths.clone().next();
    let found: Vec<String> = paths
        .by_ref()
        .flat_map(|path| path.find_all(&delivery.json()))
        .filter(|text| !text.is_empty())
        .collect();
    match (found.is_empty(), first) {
        (true, Some(path)) => Err(Refused::body(format!("the body has no `{path}`"))),
        _ => Ok(decoded(layout, key, found)),
    }
}

fn decoded(layout: &Layout, key: &Key, given: Vec<String>) -> Vec<Vec<u8>> {
    let bytes = |text: &String| {
        let text = layout.without_prefix(text)?;
        decode(text, layout.verify.encoding).filter(|bytes| key.fits(bytes))
    };
    given.iter().take(8).filter_map(bytes).collect()
}

/// Hands over each item; at least one must be there. Otherwise a body without items would pass without any signature.
fn each_item(
    layout: &Layout,
    delivery: &Delivery<'_>,
    mut then: impl FnMut(&str) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let (mut count, mut result) = (0_usize, Ok(()));
    super::body::each_item(&delivery.json(), layout.items.as_ref(), &mut |item| {
        count += 1;
        result = match count > ITEMS_MAX {
            true => Err(Refused::body(format!(
                "the body has more than {ITEMS_MAX} items with their own signatures; send fewer items per request"
            ))),
            false => then(item),
        };
        result.is_ok()
    });
    if count == 0 {
        let at = layout.items.as_ref().map_or("", Path::text);
        return Err(Refused::body(format!("the body has no items at `{at}`")));
    }
    result
}

pub(super) fn check_token(
    layout: &Layout,
    token: &Token,
    delivery: &Delivery<'_>,
) -> Result<(), Refused> {
    let places = &layout.verify.signature;
    let matches = |text: &str| {
        layout
            .without_prefix(text)
            .is_some_and(|text| token.matches(text))
    };
    if let Some(path) = places.iter().find_map(|place| match place {
        Place::Item(path) => Some(path),
        _ => None,
    }) {
        return each_item(layout, delivery, |item| {
            match path
                .find(item.as_bytes())
                .is_some_and(|text| matches(&text))
            {
                true => Ok(()),
                false => {
                    let message = format!("`{path}` of an item is missing or is not the secret");
                    Err(Refused::signature(message))
                }
            }
        });
    }
    let mut name = String::new();
    let given = layout.given(Outside::of(delivery), places, &mut name)?;
    let of_body = places.iter().filter_map(|place| match place {
        Place::Body(path) => Some(path),
        _ => None,
    });
    let mut found: Vec<String> = given.into_iter().map(Cow::into_owned).collect();
    for path in of_body {
        if name.is_empty() {
            name = format!("`{path}` of the body");
        }
        found.extend(delivery.field(path));
    }
    match found.iter().any(|text| matches(text)) {
        true => Ok(()),
        false => {
            let message = format!("the token in {name} is not the secret");
            Err(Refused::signature(message))
        }
    }
}
