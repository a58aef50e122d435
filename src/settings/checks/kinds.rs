//! The kinds of texts that records hold.
//!
//! **Invariant**: a text that the check of a kind takes has the length and fits the pattern that the kind says.

use super::{
    DESCRIPTION_CHARS_MAX, ITEM_KEY_BYTES_MAX, LINE, NAME_BYTES_MAX, PAGE_CHARS_MAX,
    STREAM_NAME_CHARS_MAX, absolute_path, admin_host, any, collector, conditions, connector_name,
    description, endpoint, fields, fingerprint, folder, header_name, host, item_key, items_path,
    key_conditions, key_fields, listen, log_filter, name, network, node_name, origin, page, path,
    pattern, place, pool_mode, preset, problem_stream, public_url, schema_name, sha256_of_file,
    sha256_of_key, sha256_of_token, stream_name, url,
};
use crate::record::TextKind;

/// The name of a connector, key, token or sink.
pub(crate) const NAME: TextKind = TextKind {
    pattern: "^[A-Za-z0-9_.-]{1,64}$",
    ..TextKind::of(name)
};
/// The name of a connector.
pub(crate) const CONNECTOR_NAME: TextKind = TextKind {
    check: connector_name,
    ..NAME
};
/// The name of a stream that is made.
pub(crate) const STREAM_NAME: TextKind = TextKind {
    chars: Some((1, STREAM_NAME_CHARS_MAX)),
    pattern: LINE,
    ..TextKind::of(stream_name)
};
/// The name of a stream that the daemon fills; empty for none.
pub(crate) const PROBLEM_STREAM: TextKind = TextKind {
    chars: Some((0, STREAM_NAME_CHARS_MAX)),
    pattern: r"^(_[^\u0000-\u001f\u007f-\u009f]*)?$",
    ..TextKind::of(problem_stream)
};
/// The name of a stream that there is, whatever it is called.
pub(crate) const STREAM: TextKind = TextKind {
    any_start: true,
    ..STREAM_NAME
};
pub(crate) const DESCRIPTION: TextKind = TextKind {
    chars: Some((1, DESCRIPTION_CHARS_MAX)),
    pattern: LINE,
    ..TextKind::of(description)
};
/// The name of a field of an item.
pub(crate) const FIELD: TextKind = TextKind {
    chars: Some((1, ITEM_KEY_BYTES_MAX)),
    ..TextKind::of(item_key)
};
/// The path of an array or an object.
pub(crate) const ITEMS_PATH: TextKind = TextKind {
    chars: Some((1, ITEM_KEY_BYTES_MAX)),
    ..TextKind::of(items_path)
};
/// What a screen shows.
pub(crate) const PAGE: TextKind = TextKind {
    chars: Some((1, PAGE_CHARS_MAX)),
    pattern: r"^[^\u0000-\u001f\u007f-\u009f#]*$",
    ..TextKind::of(page)
};
/// The name of a preset.
pub(crate) const PRESET: TextKind = TextKind {
    words: presets,
    ..TextKind::of(preset)
};
/// A text that a scheme is made of, or a value of a field.
pub(crate) const ANY: TextKind = TextKind {
    chars: Some((0, NAME_BYTES_MAX * 4)),
    pattern: LINE,
    any_start: true,
    ..TextKind::of(any)
};
pub(crate) const HEADER_NAME: TextKind = TextKind {
    any_start: true,
    ..TextKind::of(header_name)
};
pub(crate) const ORIGIN: TextKind = TextKind {
    pattern: r#"^(\*|null|[a-z-]+://[!-"$-.0->\[-~]+)$"#,
    ..TextKind::of(origin)
};
/// `where` of a sink.
pub(crate) const CONDITIONS: TextKind = TextKind {
    any_start: true,
    ..TextKind::of(conditions)
};
/// `fields` of a sink.
pub(crate) const FIELDS: TextKind = TextKind {
    any_start: true,
    ..TextKind::of(fields)
};
/// `where` of a read key.
pub(crate) const KEY_CONDITIONS: TextKind = TextKind {
    any_start: true,
    ..TextKind::of(key_conditions)
};
/// `fields` of a read key.
pub(crate) const KEY_FIELDS: TextKind = TextKind {
    any_start: true,
    ..TextKind::of(key_fields)
};
pub(crate) const NODE_NAME: TextKind = TextKind::of(node_name);
pub(crate) const SCHEMA_NAME: TextKind = TextKind::of(schema_name);
pub(crate) const LISTEN: TextKind = TextKind::of(listen);
pub(crate) const PUBLIC_URL: TextKind = TextKind::of(public_url);
pub(crate) const PLACE: TextKind = TextKind::of(place);
pub(crate) const ADMIN_HOST: TextKind = TextKind::of(admin_host);
pub(crate) const PATH: TextKind = TextKind::of(path);
pub(crate) const ABSOLUTE_PATH: TextKind = TextKind::of(absolute_path);
pub(crate) const FOLDER: TextKind = TextKind::of(folder);
pub(crate) const ENDPOINT: TextKind = TextKind::of(endpoint);
pub(crate) const POOL_MODE: TextKind = TextKind::of(pool_mode);
pub(crate) const LOG_FILTER: TextKind = TextKind::of(log_filter);
pub(crate) const PATTERN: TextKind = TextKind {
    any_start: true,
    ..TextKind::of(pattern)
};
pub(crate) const FINGERPRINT: TextKind = TextKind::of(fingerprint);
pub(crate) const SHA256_OF_KEY: TextKind = TextKind::of(sha256_of_key);
pub(crate) const SHA256_OF_TOKEN: TextKind = TextKind::of(sha256_of_token);
pub(crate) const SHA256_OF_FILE: TextKind = TextKind::of(sha256_of_file);
pub(crate) const COLLECTOR: TextKind = TextKind::of(collector);
pub(crate) const HOST: TextKind = TextKind::of(host);
pub(crate) const NETWORK: TextKind = TextKind::of(network);
pub(crate) const URL: TextKind = TextKind::of(url);

/// By their titles; the generic ones last.
fn presets() -> Vec<(&'static str, &'static str)> {
    let mut known = webhook::presets();
    known.sort_by_key(|preset| (preset.is_generic(), preset.title.to_lowercase()));
    let words = (known.into_iter()).map(|preset| (preset.name.as_str(), preset.title.as_str()));
    words.collect()
}
