//! Fields of a body that a check or a greeting needs before the body is parsed as data.
//!
//! The messages of SNS are read with [`parse`]; presets have [`Path`](super::Path)s.
//!
//! **Invariant**: what is no JSON, or lacks the field, is `None`; nothing here fails otherwise.

use serde_json::Value;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The body as JSON.
pub(super) fn parse(body: &[u8]) -> Option<Value> {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    serde_json::from_slice(body).ok()
}
