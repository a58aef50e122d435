//! What the headers of an ingest request may say.
//!
//! **Invariant**: a header that cannot be understood is refused, never ignored.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::error::AcceptError;
use crate::repeated::repeated;
use webhook::body::{Form, FormError};

const ITEM_KEY_BYTES_MAX: usize = 1_024;
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

thread_local! {
    /// The field that the last request named, because a program names the same one each time.
    static FIELD: Cell<Option<Arc<str>>> = const { Cell::new(None) };
}

/// The secret of `Authorization: Bearer <secret>`, or of `Basic`: its password, or the name where there is no
/// password. The scheme may be in any case (RFC 9110). Tools that can send nothing but a user and a password use
/// that.
pub fn secret(authorization: Option<&[u8]>) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(authorization?).ok()?;
    let (scheme, secret) = text.trim().split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Cow::Borrowed(secret.trim()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let both = String::from_utf8(BASE64.decode(secret.trim()).ok()?).ok()?;
    let (name, password) = both.split_once(':').unwrap_or((&both, ""));
    let secret = if password.is_empty() { name } else { password };
    Some(Cow::Owned(secret.to_owned()))
}

/// How the body is written. At the address of a connector tools send what they are used to; elsewhere it is JSON.
pub fn form(
    content_type: Option<&[u8]>,
    content_encoding: Option<&[u8]>,
    at_address: bool,
) -> Result<Form, AcceptError> {
    let form = match at_address {
        true => Form::of(content_type, content_encoding),
        false => Form::json(content_type, content_encoding),
    };
    form.map_err(|error| match error {
        FormError::Media(message) => AcceptError::invalid(message),
        FormError::Encoding(message) => AcceptError::UnknownEncoding { message },
    })
}

/// `X-Item-Key`: the name of a field.
pub fn item_key(value: Option<&[u8]>) -> Result<Option<Arc<str>>, AcceptError> {
    let Some(value) = value else { return Ok(None) };
    let name = std::str::from_utf8(value).map_or("", str::trim);
    if name.is_empty() || name.len() > ITEM_KEY_BYTES_MAX {
        return Err(AcceptError::invalid(format!(
            "the header X-Item-Key must hold the name of a field in UTF-8, 1 to {ITEM_KEY_BYTES_MAX} bytes; correct it or leave it out"
        )));
    }
    Ok(Some(field(name)))
}

/// The name of a field: nearly always the same as before.
pub(super) fn field(name: &str) -> Arc<str> {
    repeated(&FIELD, |last| last == name, || name.into())
}

/// `Idempotency-Key`: any value of 1 to 255 bytes, without the blanks around it. Two values give the same text only
/// if they have the same bytes. Its caller chooses it freely, so no character is refused.
pub fn idempotency_key(value: Option<&[u8]>) -> Result<Option<Arc<str>>, AcceptError> {
    let Some(value) = value.map(<[u8]>::trim_ascii) else {
        return Ok(None);
    };
    if !(1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&value.len()) {
        return Err(AcceptError::invalid(format!(
            "the header Idempotency-Key has {} bytes; send 1 to {IDEMPOTENCY_KEY_BYTES_MAX}, for example a UUID, or leave the header out",
            value.len()
        )));
    }
    Ok(Some(match std::str::from_utf8(value) {
        Ok(text) => text.into(),
        // Read as Latin-1. No header value ends in a blank: it keeps this apart from the same text in UTF-8.
        Err(_) => {
            let text: String = value.iter().copied().map(char::from).collect();
            format!("{text} ").into()
        }
    }))
}

#[cfg(test)]
mod tests;
