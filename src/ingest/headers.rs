//! What the headers of an ingest request may say.
//!
//! **Invariant**: a header that cannot be understood is refused, never ignored.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::error::AcceptError;
use webhook::Headers;
use webhook::body::Form;

const ITEM_KEY_BYTES_MAX: usize = 1_024;
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// The secret of `Authorization: Bearer <secret>`, or of `Basic`: its password, or the name where there is no password.
/// The scheme may be in any case (RFC 9110).
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

/// How the body is written. At the address of a connector tools send what they are used to; elsewhere it is JSON, as it
/// is.
pub fn form(
    content_type: Option<&[u8]>,
    of_address: Option<Headers<'_>>,
) -> Result<Form, AcceptError> {
    match of_address {
        None => check_content_type(content_type).map(|()| Form::JSON),
        Some(headers) => {
            let encoding = headers.get("content-encoding");
            Form::of(content_type, encoding.map(str::as_bytes)).map_err(AcceptError::invalid)
        }
    }
}

/// `application/json`, with or without parameters, or any type whose name ends in `+json`.
fn check_content_type(content_type: Option<&[u8]>) -> Result<(), AcceptError> {
    let Some(value) = content_type else {
        return Err(AcceptError::invalid(
            "the header Content-Type is missing; send `Content-Type: application/json`",
        ));
    };
    let text = String::from_utf8_lossy(value);
    let essence = text.split(';').next().unwrap_or_default().trim();
    let (kind, subtype) = essence.split_once('/').unwrap_or_default();
    let ends_in_json = subtype
        .len()
        .checked_sub("+json".len())
        .and_then(|start| subtype.get(start..))
        .is_some_and(|suffix| suffix.eq_ignore_ascii_case("+json"));
    if essence.eq_ignore_ascii_case("application/json")
        || (!kind.is_empty() && subtype.len() > "+json".len() && ends_in_json)
    {
        return Ok(());
    }
    let shown: String = essence.chars().take(100).collect();
    Err(AcceptError::invalid(format!(
        "the header Content-Type is `{}`; send `Content-Type: application/json`",
        shown.escape_debug()
    )))
}

/// `X-Item-Key`: the name of a field.
pub fn item_key(value: Option<&[u8]>) -> Result<Option<Box<str>>, AcceptError> {
    let Some(value) = value else { return Ok(None) };
    let name = std::str::from_utf8(value).map_or("", str::trim);
    if name.is_empty() || name.len() > ITEM_KEY_BYTES_MAX {
        return Err(AcceptError::invalid(format!(
            "the header X-Item-Key must hold the name of a field in UTF-8, 1 to {ITEM_KEY_BYTES_MAX} bytes; correct it or leave it out"
        )));
    }
    Ok(Some(name.into()))
}

/// `Idempotency-Key`: 1 to 255 visible ASCII characters.
pub fn idempotency_key(value: Option<&[u8]>) -> Result<Option<Box<str>>, AcceptError> {
    let Some(value) = value else { return Ok(None) };
    let visible = value.iter().all(u8::is_ascii_graphic);
    match std::str::from_utf8(value) {
        Ok(key) if visible && (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) => {
            Ok(Some(key.into()))
        }
        _ => Err(AcceptError::invalid(
            "the header Idempotency-Key must hold 1 to 255 visible ASCII characters without spaces, for example a UUID",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{check_content_type, idempotency_key, item_key, secret};

    #[test]
    fn json_media_types_pass_and_others_name_what_is_wanted() {
        for good in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/vnd.api+json",
            "application/cloudevents+JSON;x=y",
        ] {
            assert_eq!(check_content_type(Some(good.as_bytes())), Ok(()), "{good}");
        }
        for bad in [
            "",
            "text/plain",
            "json",
            "application/jsonp",
            "/+json",
            "a/+json",
            "é+json",
        ] {
            let error = check_content_type(Some(bad.as_bytes())).expect_err(bad);
            assert!(error.to_string().contains("application/json"), "{bad}");
        }
        assert!(check_content_type(None).is_err());
    }

    #[test]
    fn a_secret_is_the_bearer_s_or_the_password_of_basic() {
        for good in [
            &b"Bearer ik_x"[..],
            b"bearer  ik_x ",
            b"Basic OmlrX3g=",
            b"basic bmFtZTppa194",
            b"Basic aWtfeA==",
            b"Basic aWtfeDo=",
        ] {
            assert_eq!(secret(Some(good)).as_deref(), Some("ik_x"), "{good:?}");
        }
        for bad in [
            &b"ik_x"[..],
            b"Basic ik_x",
            b"Digest ik_x",
            b"",
            b"Bearer",
            b"\xff",
            b"Basic /w==",
        ] {
            assert_eq!(secret(Some(bad)), None, "{bad:?}");
        }
        assert_eq!(secret(None), None);
    }

    #[test]
    fn idempotency_keys_are_visible_ascii_of_bounded_length() {
        assert_eq!(idempotency_key(None), Ok(None));
        assert_eq!(idempotency_key(Some(b"a")), Ok(Some("a".into())));
        assert!(idempotency_key(Some(&[b'k'; 255])).is_ok());
        for bad in [&b""[..], &[b'k'; 256], b"a b", b"\xc3\xa9", b"a\x7f"] {
            assert!(idempotency_key(Some(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn item_keys_are_names() {
        assert_eq!(item_key(Some("größe".as_bytes())), Ok(Some("größe".into())));
        for bad in [&b""[..], b"  ", b"\xff", &[b'k'; 1_025]] {
            assert!(item_key(Some(bad)).is_err(), "{bad:?}");
        }
    }
}
