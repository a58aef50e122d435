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
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password_and_its_tokens() {
        let check = |text: &str, expected: &str| assert_eq!(shown_url(text), expected, "{text}");
        check(
            "https://me:hush@a.example/x",
            "https://me:********@a.example/x",
        );
        check("ftp://me:p:w@rd@db/x", "ftp://me:********@db/x");
        check("postgres://me:p/a?s#s@db/x", "postgres://me:********@db/x");
        check(
            "https://a.example:8443/@me:x",
            "https://a.example:8443/@me:x",
        );
        check("https://me@a.example/x:y@z", "https://me@a.example/x:y@z");
        check("https://me:@a.example", "https://me:@a.example");
        check(
            "https://a.example/?a=1&token=hush&b=2&api_key=hush#token=x",
            "https://a.example/?a=1&token=********&b=2&api_key=********#token=x",
        );
        check(
            "https://me:hush@a.example/?access_token=hush",
            "https://me:********@a.example/?access_token=********",
        );
        check("me:hush@a.example", "me:hush@a.example");
        check("token=hush", "token=hush");
    }

    #[test]
    fn settings_are_shown_without_what_is_named_like_a_secret() {
        let settings = json!({
            "url": "https://me:hush-1@a.example",
            "headers": {"X-Api-Key": "hush-2", "x-team": "blue", "Cookie": "hush-3"},
            "auth": {"user": "hush-4", "ttl": 3},
            "tokens": ["hush-5", "", {"any": "hush-6"}],
            "key": ["id"],
            "author": "Ada",
        });
        let mut hidden = hidden(&settings);
        hidden.sort_unstable();
        assert_eq!(
            hidden,
            ["hush-1", "hush-2", "hush-3", "hush-4", "hush-5", "hush-6"]
        );
        let mut masked = settings.clone();
        mask(&mut masked);
        assert_eq!(
            masked,
            json!({
                "url": "https://me:********@a.example",
                "headers": {"X-Api-Key": MASK, "x-team": "blue", "Cookie": MASK},
                "auth": {"user": MASK, "ttl": 3},
                "tokens": [MASK, MASK, {"any": MASK}],
                "key": ["id"],
                "author": "Ada",
            })
        );
        let mut places = named_secrets(&settings);
        places.sort_unstable();
        assert_eq!(
            places,
            [
                "auth.user",
                "headers.Cookie",
                "headers.X-Api-Key",
                "tokens[0]",
                "tokens[2].any"
            ]
        );
    }
}
