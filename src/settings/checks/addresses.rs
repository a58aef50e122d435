//! What addresses may look like: where to listen, who may come, what is called.
//!
//! **Invariant**: what may hold a password is told without a word of it.

use crate::networks;
use crate::problem::quoted;
use crate::{Endpoint, Host, Listen, Network};

const URL_BYTES_MAX: usize = 8192;

/// A URL that a tool was given.
pub(in super::super) fn url(text: &str) -> Result<(), String> {
    let rest = (text.strip_prefix("https://")).or_else(|| text.strip_prefix("http://"));
    let fits = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && text.len() <= URL_BYTES_MAX
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#');
    match fits {
        true => Ok(()),
        false => Err(format!(
            "expected a URL such as \"https://hooks.example.com\", found {}",
            quoted(text)
        )),
    }
}

/// What stands before the path in every URL of ours.
pub(in super::super) fn public_url(text: &str) -> Result<(), String> {
    url(text)?;
    match text.ends_with('/') || text.contains('?') || text.contains("/api/") {
        false => Ok(()),
        true => Err(format!(
            "expected the part before \"/api/webhook\" in the URL, without a trailing slash; found {}",
            quoted(text)
        )),
    }
}

/// Where a collector of traces listens: what stands before `/v1/traces`.
pub(in super::super) fn collector(text: &str) -> Result<(), String> {
    url(text)?;
    match text.ends_with('/') || text.contains(['?', '#', '@']) || text.contains("/v1/") {
        false => Ok(()),
        true => Err(format!(
            "expected the part before \"/v1/traces\" in the URL, without a trailing slash, a user or a query; found {}",
            quoted(text)
        )),
    }
}

/// An origin as browsers send it: scheme, host and port, or `null`, or `*` for any.
///
/// # Errors
/// What is wrong with it.
pub fn origin(text: &str) -> Result<(), String> {
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
            "expected an origin in lower case such as \"https://signage.example.com\" (no path, no trailing slash), \"null\" for pages opened from files, or \"*\"; found {}",
            quoted(text)
        ))
    }
}

/// A name that the admin pages may be opened by.
pub(in super::super) fn admin_host(text: &str) -> Result<(), String> {
    let named = !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte)
        });
    if named {
        Ok(())
    } else {
        Err(format!(
            "expected a host name in lower case such as \"headgate.example.com\" (no scheme, no port; IP addresses need no entry); found {}",
            quoted(text)
        ))
    }
}

/// A host that a sink may call.
pub(in super::super) fn host(text: &str) -> Result<(), String> {
    text.parse::<Host>().map(|_| ())
}

/// A network that a sink may call.
pub(in super::super) fn network(text: &str) -> Result<(), String> {
    text.parse::<Network>().map(|_| ())
}

/// A network whose connections are taken or believed.
pub(in super::super) fn place(text: &str) -> Result<(), String> {
    networks::check(text)
}

/// The address of a PostgreSQL database, with all that is needed to connect. Told without a word of it.
pub(in super::super) fn postgres_url(secret: &str) -> Result<(), String> {
    let rest = secret
        .strip_prefix("postgresql://")
        .or_else(|| secret.strip_prefix("postgres://"));
    match rest {
        Some(rest) if !rest.is_empty() => Ok(()),
        _ => Err("expected postgresql://user:password@host:5432/database".to_owned()),
    }
}

/// Such addresses, separated by white space.
pub(in super::super) fn postgres_urls(secret: &str) -> Result<(), String> {
    secret.split_whitespace().try_for_each(postgres_url)
}

/// Longest name of a schema: it leaves room for what is appended to it.
const SCHEMA_NAME_MAX: usize = 40;

/// A schema of a PostgreSQL database.
pub(in super::super) fn schema_name(text: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match (1..=SCHEMA_NAME_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "expected 1 to {SCHEMA_NAME_MAX} characters of a to z, 0 to 9 and _; found {}",
            quoted(text)
        )),
    }
}

/// Longest name of a node: as that of a host.
const NODE_NAME_MAX: usize = 63;

/// The name of a node of a cluster.
pub(in super::super) fn node_name(text: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match (1..=NODE_NAME_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "expected 1 to {NODE_NAME_MAX} letters, digits, `.`, `_` or `-`; found {}",
            quoted(text)
        )),
    }
}

/// Where to listen.
pub(in super::super) fn listen(text: &str) -> Result<(), String> {
    text.parse::<Listen>().map(|_| ())
}

/// A place that a sink can connect to.
pub(in super::super) fn endpoint(text: &str) -> Result<(), String> {
    text.parse::<Endpoint>().map(drop)
}

/// Longest path of a folder, in bytes.
const FOLDER_BYTES_MAX: usize = 500;

/// A folder for files of a sink: relative, or from the root on.
pub(in super::super) fn folder(text: &str) -> Result<(), String> {
    let below = text.strip_prefix('/').unwrap_or(text);
    let is_plain =
        |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
    match text.len() <= FOLDER_BYTES_MAX && below.split('/').all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "expected a directory such as \"out\" or \"/srv/graphics/out\", without `.` and `..` as parts; found {}",
            quoted(text)
        )),
    }
}
