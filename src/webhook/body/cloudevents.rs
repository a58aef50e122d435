//! CloudEvents in binary mode: the event's attributes come as headers (HTTP binding 1.0.2, section 3.1.3). Called by
//! the webhook pipeline, which adds the fields to those of the body.
//!
//! **Invariant**: a request without `ce-specversion` is no CloudEvent and has no such fields. Each name occurs once.

use super::percent;

/// Fields of CloudEvents' binary mode: `ce-id: 1` becomes `("ce.id", "1")`, in the order of the headers. Empty if
/// there is no `ce-specversion`.
///
/// Names are in lower case. Values lose quotes around them and are percent-decoded once; one that is not UTF-8 then
/// stays as it was sent. Of a header that came twice, the first counts.
pub fn cloudevent_fields<'a>(
    headers: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for (header, value) in headers {
        let header = header.to_ascii_lowercase();
        let Some(attribute) = header.strip_prefix("ce-").filter(|name| !name.is_empty()) else {
            continue;
        };
        let name = format!("ce.{attribute}");
        if fields.iter().all(|(known, _)| *known != name) {
            fields.push((name, decoded(value)));
        }
    }
    if fields.iter().all(|(name, _)| name != "ce.specversion") {
        fields.clear();
    }
    fields
}

fn decoded(value: &[u8]) -> String {
    let value = value.trim_ascii();
    let text = match value {
        [b'"', inner @ .., b'"'] => percent::decode(&unescaped(inner)),
        _ => percent::decode(value),
    };
    String::from_utf8(text).unwrap_or_else(|_| String::from_utf8_lossy(value).into_owned())
}

/// The inside of a quoted string (RFC 9110, section 5.6.4): a backslash makes the next byte literal.
fn unescaped(quoted: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter().copied();
    while let Some(byte) = bytes.next() {
        let literal = if byte == b'\\' { bytes.next() } else { None };
        text.push(literal.unwrap_or(byte));
    }
    text
}
