//! What the text of one setting may look like: names, patterns, paths, filters; addresses, headers and keys in `checks/`.
//!
//! Named by the schema; each check sees one value and nothing else.
//!
//! **Invariant**: a check's message never shows the value of a setting that may hold a secret.

mod addresses;
mod credentials;
mod headers;
pub(super) mod kinds;

use select::{Fields, Scope, SyntaxError, Where};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::problem::{self, quoted};
use super::run_time::looks_secret;
pub use addresses::origin;
pub(super) use addresses::{
    admin_host, collector, endpoint, folder, host, listen, network, node_name, place, postgres_url,
    postgres_urls, public_url, schema_name, url,
};
pub(super) use credentials::{
    admin_token, fingerprint, ingest_key, read_key, sha256_of_file, sha256_of_key, sha256_of_token,
};
pub use credentials::{digest_of_fingerprint, digest_of_hex};
pub(super) use headers::{header_name, header_value};

/// Longest name of a stream, in characters (contract: 1 to 128).
const STREAM_NAME_CHARS_MAX: usize = 128;
const NAME_BYTES_MAX: usize = 64;
/// Connectors that are always there, without keys: the daemon, and whoever operates it. No other has their names.
pub const BUILT_IN_CONNECTORS: [&str; 2] = ["headgate", "operator"];
/// Longest description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 200;
const ITEM_KEY_BYTES_MAX: usize = 1024;
const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

/// Longest page of a screen, in characters.
const PAGE_CHARS_MAX: usize = 500;

/// Text without control characters.
const LINE: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";

/// Checks the name of a stream.
///
/// # Errors
/// What is wrong with it.
pub(super) fn stream_name(text: &str) -> Result<(), String> {
    let count = text.chars().count();
    if !(1..=STREAM_NAME_CHARS_MAX).contains(&count) {
        return Err(format!(
            "expected 1 to {STREAM_NAME_CHARS_MAX} characters; this one has {count}"
        ));
    }
    if text.chars().any(char::is_control) {
        return Err("expected a name without control characters".to_owned());
    }
    Ok(())
}

/// Checks the name of a stream that somebody makes: those that begin with `_` are the daemon's.
///
/// # Errors
/// What is wrong with it.
pub fn new_stream_name(text: &str) -> Result<(), String> {
    match is_daemons(text) {
        true => {
            Err("expected a name that does not begin with \"_\"; such names are reserved for the daemon".to_owned())
        }
        false => stream_name(text),
    }
}

/// Whether a stream of this name is the daemon's, or would be.
pub fn is_daemons(stream: &str) -> bool {
    stream.starts_with('_')
}

/// Checks the name of a stream that the daemon fills.
fn problem_stream(text: &str) -> Result<(), String> {
    match text {
        "" => Ok(()),
        _ if is_daemons(text) => stream_name(text),
        _ => Err("expected a name that begins with \"_\", or \"\" for no stream".to_owned()),
    }
}

/// Checks the name of a connector, which is none of [`BUILT_IN_CONNECTORS`].
///
/// # Errors
/// What it wants.
pub fn connector_name(text: &str) -> Result<(), String> {
    if BUILT_IN_CONNECTORS.contains(&text) {
        return Err(format!(
            "the name {text:?} is reserved for requests of the daemon and of operators; choose another name"
        ));
    }
    name(text)
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
            "expected 1 to {NAME_BYTES_MAX} letters, digits, \"_\", \".\" or \"-\""
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
            "expected 1 to {DESCRIPTION_CHARS_MAX} characters on one line; omit it to have none"
        ))
    }
}

/// Checks the name of the field that identifies an item.
///
/// # Errors
/// What it wants.
pub(super) fn item_key(text: &str) -> Result<(), String> {
    if credentials::is_key(text) {
        // The name of a field is shown, logged and kept in the audit log.
        Err("expected the name of a field, found text that looks like a key".to_owned())
    } else if (1..=ITEM_KEY_BYTES_MAX).contains(&text.len()) {
        Ok(())
    } else {
        Err(format!(
            "expected the name of a field, 1 to {ITEM_KEY_BYTES_MAX} bytes; omit it to identify items by position"
        ))
    }
}

/// The name of a tool that is known.
pub(super) fn preset(text: &str) -> Result<(), String> {
    if webhook::preset(text).is_some() {
        return Ok(());
    }
    let names = webhook::presets()
        .into_iter()
        .map(|preset| preset.name.as_str());
    let meant = match problem::nearest(text, names) {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => "`headgate preset list` lists the presets".to_owned(),
    };
    Err(format!("unknown preset {}; {meant}", quoted(text)))
}

/// The path of what holds the items of a body.
pub(super) fn items_path(text: &str) -> Result<(), String> {
    if (1..=ITEM_KEY_BYTES_MAX).contains(&text.len()) {
        Ok(())
    } else {
        Err(format!(
            "expected the path of an array or an object such as \"value\", 1 to {ITEM_KEY_BYTES_MAX} bytes; omit it to use the whole body"
        ))
    }
}

/// A text that a scheme is made of.
pub(super) fn any(text: &str) -> Result<(), String> {
    let fits = text.len() <= NAME_BYTES_MAX * 4 && !text.chars().any(char::is_control);
    match fits {
        true => Ok(()),
        false => Err("expected at most 256 bytes without control characters".to_owned()),
    }
}

/// A pattern of stream names: a name, or a prefix followed by `*`.
pub(super) fn pattern(text: &str) -> Result<(), String> {
    let literal = text.strip_suffix('*').unwrap_or(text);
    if literal.contains('*') {
        return Err(format!(
            "bad pattern {}: \"*\" is only allowed at the end",
            quoted(text)
        ));
    }
    if text == "*" {
        return Ok(());
    }
    stream_name(literal).map_err(|message| format!("bad pattern {}: {message}", quoted(text)))
}

/// Conditions on items.
pub(super) fn conditions(text: &str) -> Result<(), String> {
    selection(text, Where::parse(text, Scope::SINK))
}

/// Fields of items.
pub(super) fn fields(text: &str) -> Result<(), String> {
    selection(text, Fields::parse(text, Scope::SINK))
}

/// Conditions that limit a key.
pub(super) fn key_conditions(text: &str) -> Result<(), String> {
    selection(text, Where::parse(text, Scope::LIVE))
}

/// Fields that limit a key.
pub(super) fn key_fields(text: &str) -> Result<(), String> {
    selection(text, Fields::parse_limit(text, Scope::LIVE))
}

/// What is wrong with conditions or fields. A key that was put in their place is not repeated.
fn selection<T>(text: &str, read: Result<T, SyntaxError>) -> Result<(), String> {
    read.map(drop).map_err(|error| match looks_secret(text) {
        true => format!(
            "{}, character {}: expected a condition or a field, found text that looks like a key",
            error.setting, error.character
        ),
        false => error.to_string(),
    })
}

/// The path of a file or folder.
pub(super) fn path(text: &str) -> Result<(), String> {
    if text.is_empty() || text.contains('\0') {
        Err("expected a path".to_owned())
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
            "expected a path that begins with \"/\", found {}",
            quoted(text)
        )),
    }
}

/// What a screen shows. The key of its URL stands behind a `#`.
fn page(text: &str) -> Result<(), String> {
    let fits = (1..=PAGE_CHARS_MAX).contains(&text.chars().count());
    match fits && !text.contains('#') && !text.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(format!(
            "expected a path or a URL of 1 to {PAGE_CHARS_MAX} characters, without the key after \"#\""
        )),
    }
}

/// The mode of `pool.db`.
pub(super) fn pool_mode(text: &str) -> Result<(), String> {
    match text {
        "0600" | "0640" | "0644" => Ok(()),
        _ => Err(format!(
            "expected \"0600\", \"0640\" (its group can read it) or \"0644\" (every user can), found {}",
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
                "bad filter {}; expected a level, or target=level as in \"info,headgate=debug\"",
                quoted(part)
            ));
        }
    }
    Ok(())
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
