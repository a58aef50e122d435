//! Streams, connectors and keys that are made at run time: by the admin API, at once, for good.

mod api; // what the routes do, and what they refuse
mod described; // descriptions, on every face
mod keys; // rotation, expiry, revocation, also under load
mod lasting;
mod lives; // streams that are deleted, and made again // kill -9, reloads, and where secrets are not
