//! Paths of the pages, and parameters of the path of a request.
//!
//! **Invariant**: names are percent-encoded, so that each is one segment of the path.

use salvo_core::Request;

use super::text::segment;
use catalog::IngestKey;

/// A parameter of the path.
pub(super) fn param(req: &Request, name: &str) -> String {
    req.param::<String>(name).unwrap_or_default()
}

/// The page of a stream.
pub(super) fn stream(name: &str) -> String {
    format!("/streams/{}", segment(name))
}

/// The page of a connector.
pub(super) fn connector(name: &str) -> String {
    format!("/connectors/{}", segment(name))
}

/// The page of an ingest key.
pub(super) fn ingest_key(key: &IngestKey) -> String {
    format!("{}/keys/{}", connector(&key.connector), segment(&key.name))
}

/// The page of a read key.
pub(super) fn read_key(name: &str) -> String {
    format!("/read-keys/{}", segment(name))
}

/// The page of a sink.
pub(super) fn sink(name: &str) -> String {
    format!("/sinks/{}", segment(name))
}

/// The page of a request.
pub(super) fn request(id: &str) -> String {
    format!("/requests/{}", segment(id))
}
