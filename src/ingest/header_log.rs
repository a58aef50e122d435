//! Headers worth knowing: what the request log keeps of the headers of a request.
//!
//! `http` asks for them; pages and the admin API show them.
//!
//! **Invariant**: a value is kept only of a header that is listed here and is not named or written like a secret. Of
//! any other header of a webhook request the name alone is kept. All of it together is bounded.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use crate::repeated::repeated;
use journal::log::Endpoint;

thread_local! {
    /// What was made of the headers of the last request: a program sends the same ones each time, so its requests
    /// share the lines.
    static LINES: Cell<Option<Arc<str>>> = const { Cell::new(None) };
}

/// Bytes of all lines together, because each entry of the log has them.
const BYTES_MAX: usize = 512;
/// Bytes of a value, and of a name. One long header would leave no space for the others.
const VALUE_BYTES_MAX: usize = 120;
const NAME_BYTES_MAX: usize = 64;

/// What every endpoint notes.
const ALWAYS: [&str; 2] = ["user-agent", "content-type"];
/// What senders of webhooks say beside that.
const OF_WEBHOOKS: [&str; 5] = [
    "content-encoding",
    "origin",
    // Where the certificate is that people have to set.
    "paypal-cert-url",
    "webhook-id",
    "webhook-timestamp",
];
const OF_WEBHOOKS_ENDINGS: [&str; 3] = ["-event", "-topic", "-delivery"];
/// Names of nothing that the log does not have anyway.
const UNSAID: [&str; 5] = [
    "authorization",
    "content-length",
    "host",
    "idempotency-key",
    "x-item-key",
];
/// What stands in the names of secrets.
const SECRET_NAMES: [&str; 12] = [
    "auth",
    "cookie",
    "credential",
    "hmac",
    "jwt",
    "key",
    "pass",
    "secret",
    "session",
    "sign",
    "sig-",
    "token",
];
/// How secrets begin, or look. A secret may be in a header whose name says nothing, so values are searched too.
const SECRET_VALUES: [&str; 5] = ["ik_", "rk_", "whsec_", "bearer ", "basic "];

/// A line for each header worth knowing, `name: value`, or `name` where the value is not kept; none if there is no
/// such header. Names are lower case.
pub fn loggable_headers<'a, I>(endpoint: Endpoint, headers: impl Fn() -> I) -> Option<Arc<str>>
where
    I: Iterator<Item = (&'a str, &'a [u8])>,
{
    let with_value = || headers().filter(|(name, _)| has_value(endpoint, name));
    let lines = || lines_of(with_value());
    let lines = match endpoint {
        Endpoint::Webhook => {
            let mut lines = lines();
            let unsaid = |name: &str| UNSAID.contains(&name) || has_value(endpoint, name);
            for (name, _) in headers().filter(|(name, _)| !unsaid(name)) {
                push(&mut lines, name, None);
            }
            lines.into()
        }
        _ => repeated(&LINES, |last| is_of(last, with_value()), || lines().into()),
    };
    (!lines.is_empty()).then_some(lines)
}

/// A line with the value of each of these headers.
fn lines_of<'a>(headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut lines = String::new();
    for (name, value) in headers {
        push(&mut lines, name, text(value).as_deref());
    }
    lines
}

/// Whether lines are of these headers and their whole values: then they are what is made of them. No value has an end of a
/// line in it. Comparing costs less than searching each value for secrets again.
fn is_of<'a>(lines: &str, mut headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> bool {
    let mut rest = lines.as_bytes();
    let mut is_next = |part: &[u8]| {
        let after = rest.strip_prefix(part);
        rest = after.unwrap_or(rest);
        after.is_some()
    };
    headers.all(|(name, value)| {
        [name.as_bytes(), b": ", value, b"\n"]
            .into_iter()
            .all(&mut is_next)
    }) && rest.is_empty()
}

fn has_value(endpoint: Endpoint, name: &str) -> bool {
    if ALWAYS.contains(&name) {
        return true;
    }
    endpoint == Endpoint::Webhook
        && (OF_WEBHOOKS.contains(&name)
            || OF_WEBHOOKS_ENDINGS.iter().any(|end| name.ends_with(end)))
        && !SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// The beginning of a value, unless it looks like a secret.
fn text(value: &[u8]) -> Option<Cow<'_, str>> {
    let looks_secret = |begin: &&str| {
        let begin = begin.as_bytes();
        let mut places = value.windows(begin.len());
        // Most places are none by their first letter.
        places.any(|place| {
            place[0].to_ascii_lowercase() == begin[0] && place.eq_ignore_ascii_case(begin)
        })
    };
    if SECRET_VALUES.iter().any(looks_secret) {
        return None;
    }
    match String::from_utf8_lossy(value) {
        text if text.len() <= VALUE_BYTES_MAX => Some(text),
        text => {
            let cut = text.floor_char_boundary(VALUE_BYTES_MAX - '…'.len_utf8());
            Some(Cow::Owned(format!("{}…", &text[..cut])))
        }
    }
}

/// Adds a line, if there is room for it.
fn push(lines: &mut String, name: &str, value: Option<&str>) {
    let bytes = name.len() + value.map_or(0, |value| ": ".len() + value.len()) + "\n".len();
    if name.len() > NAME_BYTES_MAX || lines.len() + bytes > BYTES_MAX {
        return;
    }
    if lines.is_empty() {
        // Nearly always all there is: two short lines.
        lines.reserve(96.max(bytes));
    }
    lines.push_str(name);
    if let Some(value) = value {
        lines.push_str(": ");
        lines.push_str(value);
    }
    lines.push('\n');
}

#[cfg(test)]
mod tests;
