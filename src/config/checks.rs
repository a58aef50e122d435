//! What the text of one setting may look like: names, patterns, filters, digests, keys.
//!
//! Named by the schema; each check sees one value and nothing else.
//!
//! **Invariant**: a check's message never shows the value of a setting that may hold a secret.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::networks;
use super::problem::{self, quoted};
use crate::sender;

/// Longest name of a stream, in characters (contract: 1 to 128).
const STREAM_NAME_CHARS_MAX: usize = 128;
const NAME_BYTES_MAX: usize = 64;
/// Longest description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 200;
const ITEM_KEY_BYTES_MAX: usize = 1024;
const KEY_BYTES_MIN: usize = 24;
const KEY_BYTES_MAX: usize = 512;
const HEADER_BYTES_MAX: usize = 8192;
/// Headers of the connection and of the message's form, which are nobody's to set.
const OWN_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

/// A check of one text: the message says what is wrong with it.
pub(super) type Check = fn(&str) -> Result<(), String>;

/// Checks the name of a stream.
///
/// # Errors
/// What is wrong with it.
pub fn stream_name(text: &str) -> Result<(), String> {
    let count = text.chars().count();
    if !(1..=STREAM_NAME_CHARS_MAX).contains(&count) {
        return Err(format!(
            "the name of a stream has 1 to {STREAM_NAME_CHARS_MAX} characters; this one has {count}"
        ));
    }
    if text.chars().any(char::is_control) {
        return Err("the name of a stream has no control characters".to_owned());
    }
    Ok(())
}

/// Checks the name of a connector, key or sink.
///
/// # Errors
/// What it wants.
pub fn name(text: &str) -> Result<(), String> {
    let fits = (1..=NAME_BYTES_MAX).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
    if fits {
        Ok(())
    } else {
        Err(format!(
            "wants 1 to {NAME_BYTES_MAX} letters, digits, \"_\", \".\" or \"-\""
        ))
    }
}

/// Checks a description.
///
/// # Errors
/// What it wants.
pub fn description(text: &str) -> Result<(), String> {
    let fits = (1..=DESCRIPTION_CHARS_MAX).contains(&text.chars().count());
    if fits && !text.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(format!(
            "wants 1 to {DESCRIPTION_CHARS_MAX} characters on one line; leave it out to have none"
        ))
    }
}

/// Checks the name of the field that identifies an item.
///
/// # Errors
/// What it wants.
pub(super) fn item_key(text: &str) -> Result<(), String> {
    if (1..=ITEM_KEY_BYTES_MAX).contains(&text.len()) {
        Ok(())
    } else {
        Err(format!(
            "wants the name of a field, 1 to {ITEM_KEY_BYTES_MAX} bytes; leave it out to identify items by position"
        ))
    }
}

/// The name of a tool that is known.
pub(super) fn preset(text: &str) -> Result<(), String> {
    if sender::preset(text).is_some() {
        return Ok(());
    }
    let names = sender::presets().iter().map(|preset| preset.name);
    let meant = match problem::nearest(text, names) {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => "`headgate connector presets` lists those that are known".to_owned(),
    };
    Err(format!("unknown preset {}; {meant}", quoted(text)))
}

/// The path of what holds the items of a body.
pub(super) fn items_path(text: &str) -> Result<(), String> {
    if (1..=ITEM_KEY_BYTES_MAX).contains(&text.len()) {
        Ok(())
    } else {
        Err(format!(
            "wants the path of an array or an object such as \"value\", 1 to {ITEM_KEY_BYTES_MAX} bytes; leave it out to take the whole body"
        ))
    }
}

/// A text that a scheme is made of.
pub(super) fn any(text: &str) -> Result<(), String> {
    let fits = text.len() <= NAME_BYTES_MAX * 4 && !text.chars().any(char::is_control);
    match fits {
        true => Ok(()),
        false => Err("wants at most 256 bytes without control characters".to_owned()),
    }
}

/// A URL that a tool was given.
pub(super) fn url(text: &str) -> Result<(), String> {
    let rest = (text.strip_prefix("https://")).or_else(|| text.strip_prefix("http://"));
    let fits = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && text.len() <= HEADER_BYTES_MAX
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#');
    match fits {
        true => Ok(()),
        false => Err(format!(
            "wants a URL such as \"https://hooks.example.com\"; this is {}",
            quoted(text)
        )),
    }
}

/// What stands before the path in every URL of ours.
pub(super) fn public_url(text: &str) -> Result<(), String> {
    url(text)?;
    match text.ends_with('/') || text.contains('?') || text.contains("/api/") {
        false => Ok(()),
        true => Err(format!(
            "wants what stands before \"/api/webhook\" in the URL, without a slash at the end; this is {}",
            quoted(text)
        )),
    }
}

/// A pattern of stream names: a name, or a prefix followed by `*`.
pub(super) fn pattern(text: &str) -> Result<(), String> {
    let literal = text.strip_suffix('*').unwrap_or(text);
    if literal.contains('*') {
        return Err(format!(
            "bad pattern {}: \"*\" may only stand at the end",
            quoted(text)
        ));
    }
    if text == "*" {
        return Ok(());
    }
    stream_name(literal).map_err(|message| format!("bad pattern {}: {message}", quoted(text)))
}

/// An origin as browsers send it: scheme, host and port, or `null`, or `*` for any.
pub(super) fn origin(text: &str) -> Result<(), String> {
    let plain = matches!(text, "*" | "null")
        || text.split_once("://").is_some_and(|(scheme, host)| {
            let scheme_fits = !scheme.is_empty()
                && scheme
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            scheme_fits
                && !host.is_empty()
                && !host.bytes().any(|byte| {
                    byte.is_ascii_uppercase() || !byte.is_ascii_graphic() || b"/?#@".contains(&byte)
                })
        });
    if plain {
        Ok(())
    } else {
        Err(format!(
            "wants an origin in lower case such as \"https://signage.example.com\" (no path, no slash at the end), \"null\" for pages that were opened from files, or \"*\"; this is {}",
            quoted(text)
        ))
    }
}

/// A name that the admin pages may be opened by.
pub(super) fn admin_host(text: &str) -> Result<(), String> {
    let named = !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte)
        });
    if named {
        Ok(())
    } else {
        Err(format!(
            "wants a host name in lower case such as \"headgate.example.com\" (no scheme, no port; addresses need not be listed); this is {}",
            quoted(text)
        ))
    }
}

/// A host that a sink may call.
pub(super) fn host(text: &str) -> Result<(), String> {
    text.parse::<super::Host>().map(|_| ())
}

/// A network that a sink may call.
pub(super) fn network(text: &str) -> Result<(), String> {
    text.parse::<super::Network>().map(|_| ())
}

/// A network whose connections are taken or believed.
pub(super) fn place(text: &str) -> Result<(), String> {
    networks::check(text)
}

/// The name of a header that requests of a sink get.
pub(super) fn header_name(text: &str) -> Result<(), String> {
    let is_name = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    if !is_name {
        return Err("is not the name of a header".to_owned());
    }
    let own = OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(text));
    if own {
        return Err("this header is made from the request itself".to_owned());
    }
    Ok(())
}

/// The value of such a header.
pub(super) fn header_value(secret: &str) -> Result<(), String> {
    let fits = secret
        .bytes()
        .all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if fits && secret.len() <= HEADER_BYTES_MAX {
        Ok(())
    } else {
        Err(format!(
            "the value of a header consists of visible ASCII characters and spaces, at most {HEADER_BYTES_MAX}"
        ))
    }
}

/// The address of a PostgreSQL database, with all that is needed to connect. Told without a word of it.
pub(super) fn postgres_url(secret: &str) -> Result<(), String> {
    let rest = secret
        .strip_prefix("postgresql://")
        .or_else(|| secret.strip_prefix("postgres://"));
    match rest {
        Some(rest) if !rest.is_empty() => Ok(()),
        _ => Err("wants postgresql://user:password@host:5432/database".to_owned()),
    }
}

/// Where to listen.
pub(super) fn listen(text: &str) -> Result<(), String> {
    text.parse::<super::Listen>().map(|_| ())
}

/// The path of a file or folder.
pub(super) fn path(text: &str) -> Result<(), String> {
    if text.is_empty() || text.contains('\0') {
        Err("wants a path".to_owned())
    } else {
        Ok(())
    }
}

/// The path of a folder that does not depend on where the program runs.
pub(super) fn absolute_path(text: &str) -> Result<(), String> {
    path(text)?;
    match text.starts_with('/') {
        true => Ok(()),
        false => Err(format!(
            "wants a path that begins with \"/\"; this is {}",
            quoted(text)
        )),
    }
}

/// The mode of `pool.db`.
pub(super) fn pool_mode(text: &str) -> Result<(), String> {
    match text {
        "0600" | "0640" | "0644" => Ok(()),
        _ => Err(format!(
            "wants \"0600\", \"0640\" (its group may read it) or \"0644\" (every user may), for nobody else writes it; this is {}",
            quoted(text)
        )),
    }
}

/// A tracing filter: `level` or `target=level`, separated by commas.
pub(super) fn log_filter(text: &str) -> Result<(), String> {
    // A filter library would take a misspelt level for the name of a target and silently log everything of it.
    for part in text.split(',') {
        let (target, level) = match part.trim().split_once('=') {
            Some((target, level)) => (Some(target), level),
            None => (None, part.trim()),
        };
        if !LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
            return Err(format!(
                "unknown log level {}{}",
                quoted(level),
                problem::hint(level, LEVELS)
            ));
        }
        let target_fits = target.is_none_or(|target| {
            !target.is_empty()
                && target
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-'))
        });
        if !target_fits {
            return Err(format!(
                "bad filter {}; wants a level, or target=level as in \"info,headgate=debug\"",
                quoted(part)
            ));
        }
    }
    Ok(())
}

/// The SHA-256 of a key.
pub(super) fn sha256_of_key(text: &str) -> Result<(), String> {
    match digest_of_hex(text) {
        Some(_) => Ok(()),
        None => Err(
            "wants the SHA-256 of the key as 64 hex digits, as `headgate key new` prints it; the key itself goes into `secret`"
                .to_owned(),
        ),
    }
}

/// The SHA-256 of an admin token.
pub(super) fn sha256_of_token(text: &str) -> Result<(), String> {
    match digest_of_hex(text) {
        Some(_) => Ok(()),
        None => Err(
            "wants the SHA-256 of the token as 64 hex digits, as `printf %s \"$TOKEN\" | sha256sum` prints it; the token itself goes into `secret`"
                .to_owned(),
        ),
    }
}

/// The SHA-256 of a component.
pub(super) fn sha256_of_file(text: &str) -> Result<(), String> {
    match digest_of_hex(text) {
        Some(_) => Ok(()),
        None => Err(
            "wants the SHA-256 of the component as 64 hex digits, as `headgate plugin check` prints it"
                .to_owned(),
        ),
    }
}

/// 64 hex digits as bytes.
pub fn digest_of_hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(digest)
}

/// The SHA-256 of a certificate.
pub(super) fn fingerprint(text: &str) -> Result<(), String> {
    match digest_of_fingerprint(text) {
        Some(_) => Ok(()),
        None => Err(
            "wants the SHA-256 fingerprint of a certificate, 64 hex digits with colons or without: `openssl x509 -noout -fingerprint -sha256 -in client.pem` prints it"
                .to_owned(),
        ),
    }
}

/// A fingerprint as bytes.
pub fn digest_of_fingerprint(text: &str) -> Option<[u8; 32]> {
    digest_of_hex(&text.replace(':', ""))
}

/// A time with its offset.
pub(super) fn rfc3339(text: &str) -> Result<(), String> {
    OffsetDateTime::parse(text, &Rfc3339)
        .map(|_| ())
        .map_err(|_| {
            format!(
                "{} is not an RFC 3339 time such as \"2030-01-31T00:00:00Z\"",
                quoted(text)
            )
        })
}

/// An ingest key that is given in a file.
pub(super) fn ingest_key(secret: &str) -> Result<(), String> {
    key(secret, "an ingest key", "ik_")
}

/// A read key that is given in a file.
pub(super) fn read_key(secret: &str) -> Result<(), String> {
    key(secret, "a read key", "rk_")
}

/// The admin token.
pub(super) fn admin_token(secret: &str) -> Result<(), String> {
    if secret.len() < KEY_BYTES_MIN {
        return Err(format!(
            "the admin token has at least {KEY_BYTES_MIN} characters, so that it cannot be guessed: `openssl rand -hex 24` makes one"
        ));
    }
    visible("the admin token", secret)
}

fn key(secret: &str, what: &str, prefix: &str) -> Result<(), String> {
    if !secret.starts_with(prefix) || secret.len() < KEY_BYTES_MIN {
        return Err(format!(
            "{what} begins with \"{prefix}\" and has at least {KEY_BYTES_MIN} characters"
        ));
    }
    visible(what, secret)
}

/// A bearer secret travels in a header, which takes visible ASCII only.
fn visible(what: &str, secret: &str) -> Result<(), String> {
    if secret.len() > KEY_BYTES_MAX {
        return Err(format!("{what} has at most {KEY_BYTES_MAX} characters"));
    }
    if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "{what} consists of visible ASCII characters without spaces"
        ));
    }
    Ok(())
}
