//! What no row of the table can say: Twilio's message, the signature in Mailgun's body, Microsoft Graph's
//! `clientState`, HubSpot's URL, and a body that X's greeting would have signed.
//!
//! The [`Verifier`](super::Verifier) calls these in place of, or as part of, the general check, and to sign.
//!
//! **Invariant**: each function is about one tool and knows no other.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;
use ring::digest;
use serde_json::{Value, json};

use super::key::{Key, Token, decode};
use super::preset::{Encoding, Unit};
use super::sign::{CannotSign, Draft};
use super::{Delivery, Refused, clock, field, handshake};
use base::text::hex;

/// The escapes that HubSpot undoes in the URL; all others stay.
const HUBSPOT_DECODED: [&str; 12] = [
    "%3A", "%2F", "%3F", "%40", "%21", "%24", "%27", "%28", "%29", "%2A", "%2C", "%3B",
];

/// What Twilio may have signed: the URL without its port and with it, each followed by the form's distinct fields in
/// order, name and value without anything between. Another body is signed by its SHA-256 in the query.
pub(super) fn twilio_messages(delivery: &Delivery<'_>, url: &str) -> Result<Vec<String>, Refused> {
    let mut fields = String::new();
    if is_form(delivery) {
        let pairs: BTreeSet<_> = form_urlencoded::parse(delivery.body).collect();
        for (name, value) in &pairs {
            fields.push_str(name);
            fields.push_str(value);
        }
    } else {
        check_body_digest(url, delivery.body)?;
    }
    Ok(with_and_without_port(url)
        .into_iter()
        .map(|url| url + &fields)
        .collect())
}

fn is_form(delivery: &Delivery<'_>) -> bool {
    const FORM: &str = "application/x-www-form-urlencoded";
    let given = delivery.headers.get("content-type").unwrap_or_default();
    let start = given.get(..FORM.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(FORM))
}

fn check_body_digest(url: &str, body: &[u8]) -> Result<(), Refused> {
    let query = url.split_once('?').map(|(_, query)| query);
    let query = query.and_then(|query| query.split('#').next());
    let wanted = form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .find(|(name, _)| name == "bodySHA256");
    let Some((_, wanted)) = wanted else {
        return Err(Refused::body(
            "the body is no form, and the URL has no bodySHA256 to check it with",
        ));
    };
    // No secret: the URL that holds it is what is signed.
    let digest = hex(digest::digest(&digest::SHA256, body).as_ref());
    if wanted.eq_ignore_ascii_case(&digest) {
        return Ok(());
    }
    Err(Refused::body(
        "the body is not the one that bodySHA256 in the URL names",
    ))
}

/// The URL with a port and without one: proxies and Twilio do not agree on it.
fn with_and_without_port(url: &str) -> Vec<String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return vec![url.to_owned()];
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let host_at = authority.rfind('@').map_or(0, |at| at + 1);
    let (user, host) = authority.split_at(host_at);
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => (name, port),
        _ if scheme.eq_ignore_ascii_case("https") => (host, "443"),
        _ => (host, "80"),
    };
    vec![
        format!("{scheme}://{user}{name}{rest}"),
        format!("{scheme}://{user}{name}:{port}{rest}"),
    ]
}

/// Mailgun signs a timestamp and a token beside the event.
pub(super) fn check_mailgun(
    key: &Key,
    tolerance_seconds: u64,
    delivery: &Delivery<'_>,
) -> Result<(), Refused> {
    let body = field::parse(delivery.body);
    let of = |path: &str| {
        let text = body.as_ref().and_then(|body| field::at(body, path));
        let missing = || Refused::body(format!("the body has no `{path}`"));
        text.filter(|text| !text.is_empty()).ok_or_else(missing)
    };
    let (timestamp, token) = (of("signature.timestamp")?, of("signature.token")?);
    let given = of("signature.signature")?;
    clock::check(&timestamp, Unit::Seconds, tolerance_seconds, delivery.now)?;
    let given = decode(&given, Encoding::Hex).unwrap_or_default();
    let message = [timestamp.into_bytes().into(), token.into_bytes().into()];
    if key.matches(&message, &[given]) {
        return Ok(());
    }
    Err(Refused::signature(
        "the signature in the body does not match",
    ))
}

/// The body with Mailgun's signature, whose token is the draft's id.
pub(super) fn sign_mailgun(key: &Key, draft: &Draft<'_>) -> Result<Vec<u8>, CannotSign> {
    let mut body = field::parse(draft.body);
    let Some(fields) = body.as_mut().and_then(Value::as_object_mut) else {
        return Err(CannotSign::new(
            "the signature of Mailgun stands in the body, and this one is no JSON object",
        ));
    };
    let timestamp = clock::written(Unit::Seconds, draft.now);
    let message = [timestamp.as_bytes().into(), draft.id.as_bytes().into()];
    let tag = key.tag(&message).ok_or_else(CannotSign::public_key)?;
    fields.insert(
        "signature".to_owned(),
        json!({"timestamp": timestamp, "token": draft.id, "signature": hex(tag.as_ref())}),
    );
    Ok(json!(fields).to_string().into_bytes())
}

/// Microsoft Graph repeats the secret in every notification of the body.
pub(super) fn check_graph(token: &Token, body: &[u8]) -> Result<(), Refused> {
    let body = field::parse(body);
    let items = body.as_ref().and_then(|body| body.get("value")?.as_array());
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return Err(Refused::body("the body has no notifications at `value`"));
    };
    let state = |item: &Value| {
        let given = item.get("clientState").and_then(Value::as_str);
        given.is_some_and(|given| token.matches(given))
    };
    if items.iter().all(state) {
        return Ok(());
    }
    Err(Refused::signature(
        "a notification has no clientState that is the secret",
    ))
}

/// The body with the secret in every notification, as Microsoft Graph sends it.
pub(super) fn sign_graph(token: &Token, body: &[u8]) -> Vec<u8> {
    let mut body = field::parse(body).unwrap_or_default();
    let items = body.get_mut("value").and_then(Value::as_array_mut);
    for item in items.into_iter().flatten() {
        if let Some(fields) = item.as_object_mut() {
            fields.insert("clientState".to_owned(), token.text().into());
        }
    }
    body.to_string().into_bytes()
}

/// Refuses a body that X's greeting signs for anybody: `abc` is a form with one field.
pub(super) fn refuse_challenge(body: &[u8]) -> Result<(), Refused> {
    if std::str::from_utf8(body).is_ok_and(handshake::is_plain_token) {
        return Err(Refused::body("the body could be a token of the handshake"));
    }
    Ok(())
}

/// The URL as HubSpot signs it.
pub(super) fn decoded_url(url: &str) -> String {
    let mut decoded = String::with_capacity(url.len());
    let mut rest = url;
    while let Some(at) = rest.find('%') {
        let (before, after) = rest.split_at(at);
        decoded.push_str(before);
        let escape = after.get(..3).unwrap_or("%");
        let known = HUBSPOT_DECODED
            .iter()
            .any(|known| known.eq_ignore_ascii_case(escape));
        if known {
            decoded.extend(percent_decode_str(escape).map(char::from));
        } else {
            decoded.push('%');
        }
        rest = &after[if known { 3 } else { 1 }..];
    }
    decoded.push_str(rest);
    decoded
}
