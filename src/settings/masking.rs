//! What is hidden of values whose shape does not say that they are secrets: settings of plugins, and URLs.
//!
//! Whatever shows such values asks here: `config show`, the pages, messages about what is wrong with them, and what
//! plugins say.
//!
//! **Invariant**: a text below a name that looks like a secret's is shown as [`MASK`], and so are the password in a URL
//! and the values in its query that have such names.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::MASK;

/// What stands in the names of secrets, without what is between words.
const NAMES: [&str; 13] = [
    "accesskey",
    "apikey",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "jwt",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "token",
];

/// Whether what has this name is a secret, as far as a name can say.
pub fn names_secret(name: &str) -> bool {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    let plain: String = letters.flat_map(char::to_lowercase).collect();
    plain == "auth" || NAMES.iter().any(|part| plain.contains(part))
}

/// The text as it may be shown: if it is a URL, without the secrets in it.
pub fn shown_url(text: &str) -> Cow<'_, str> {
    let parts = secrets_of_url(text);
    if parts.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut shown = text.to_owned();
    for part in parts.into_iter().rev() {
        shown.replace_range(part, MASK);
    }
    Cow::Owned(shown)
}

/// The texts in the settings of a plugin that must not be shown, and those in its URLs.
pub fn hidden(settings: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    for Text { text, named, .. } in texts(settings) {
        match named {
            true => found.push(text),
            false => found.extend(secrets_of_url(text).into_iter().map(|part| &text[part])),
        }
    }
    found
}

/// The places of texts whose names look like those of secrets, as in `headers.x-api-key`.
pub(super) fn named_secrets(settings: &Value) -> Vec<String> {
    let named = texts(settings).into_iter().filter(|text| text.named);
    named.map(|text| text.path).collect()
}

/// Covers what is hidden of the settings of a plugin.
pub(super) fn mask(settings: &mut Value) {
    cover(settings, names_secret, false);
}

/// Covers what is hidden of URLs alone.
pub(super) fn mask_urls(setting: &mut Value) {
    cover(setting, |_| false, false);
}

fn cover(value: &mut Value, names_secret: fn(&str) -> bool, named: bool) {
    match value {
        Value::String(text) if named => MASK.clone_into(text),
        Value::String(text) => *text = shown_url(text).into_owned(),
        Value::Array(values) => {
            for value in values {
                cover(value, names_secret, named);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                cover(value, names_secret, named || names_secret(name));
            }
        }
        _ => {}
    }
}

/// A text of settings.
struct Text<'a> {
    path: String,
    text: &'a str,
    /// Its name, or one above it, looks like a secret's.
    named: bool,
}

fn texts(settings: &Value) -> Vec<Text<'_>> {
    let mut found = Vec::new();
    let mut waiting = vec![(String::new(), settings, false)];
    while let Some((path, value, named)) = waiting.pop() {
        match value {
            Value::String(text) if !text.is_empty() => found.push(Text { path, text, named }),
            Value::Array(values) => {
                let inside = values.iter().enumerate();
                waiting.extend(inside.map(|(at, value)| (format!("{path}[{at}]"), value, named)));
            }
            Value::Object(members) => {
                waiting.extend(members.iter().map(|(name, value)| {
                    let path = super::problem::join(&path, name);
                    (path, value, named || names_secret(name))
                }));
            }
            _ => {}
        }
    }
    found
}

/// Where the secrets in a URL stand, in their order.
fn secrets_of_url(text: &str) -> Vec<Range<usize>> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Vec::new();
    };
    let begin = scheme.len() + "://".len();
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let user = match (authority.rfind('@'), authority.split_once(':')) {
        (Some(end), _) => &rest[..end],
        // A password that is not encoded as it should be.
        (None, Some((_, port))) if !port.bytes().all(|byte| byte.is_ascii_digit()) => {
            &rest[..rest.rfind('@').unwrap_or(0)]
        }
        _ => "",
    };
    let mut found = Vec::new();
    if let Some((name, password)) = user.split_once(':')
        && !password.is_empty()
    {
        let start = begin + name.len() + ":".len();
        found.push(start..start + password.len());
    }
    let after_user = begin + user.len();
    let Some(query) = text[after_user..].find('?') else {
        return found;
    };
    let mut start = after_user + query + "?".len();
    let end = text[start..].find('#').map_or(text.len(), |at| start + at);
    for pair in text[start..end].split('&') {
        if let Some((name, value)) = pair.split_once('=')
            && names_secret(name)
            && !value.is_empty()
        {
            let value_at = start + name.len() + "=".len();
            found.push(value_at..value_at + value.len());
        }
        start += pair.len() + "&".len();
    }
    found
}

#[cfg(test)]
mod tests;
