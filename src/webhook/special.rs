//! What no preset can say: Twilio's message, HubSpot's URL, and a body that a question would have signed.
//!
//! The [`Verifier`](super::Verifier) calls these in place of, or as part of, the general check, and to sign.
//!
//! **Invariant**: each function is about one tool and knows no other.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;
use ring::digest;

use super::{Delivery, Refused, handshake};
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

pub(super) fn is_form(delivery: &Delivery<'_>) -> bool {
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
            "the body is not a form, and the URL has no bodySHA256 to verify it",
        ));
    };
    // No secret: the URL that holds it is what is signed.
    let digest = hex(digest::digest(&digest::SHA256, body).as_ref());
    if wanted.eq_ignore_ascii_case(&digest) {
        return Ok(());
    }
    Err(Refused::body(
        "the digest of the body is not bodySHA256 of the URL; a proxy must forward the body unchanged",
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

/// Refuses a body that a question has signed for anybody: `abc` is a form with one field.
pub(super) fn refuse_challenge(body: &[u8]) -> Result<(), Refused> {
    if std::str::from_utf8(body).is_ok_and(handshake::is_plain_token) {
        return Err(Refused::body(
            "the body could be the signed token of a challenge",
        ));
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
