//! Percent-encoding (RFC 3986, section 2.1). Called for forms and for the headers of CloudEvents.
//!
//! **Invariant**: the output is no longer than the input. A `%` without two hex digits stands for itself, as in the
//! URL Standard.

/// The bytes that `text` stands for.
pub(super) fn decode(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        (rest, _) = match escaped {
            Some((high, low)) => (&after[2..], decoded.push(high << 4 | low)),
            None => (after, decoded.push(*first)),
        };
    }
    decoded
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
