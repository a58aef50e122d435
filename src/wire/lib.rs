//! Answers of the API: the daemon writes them, the command line reads them.
//!
//! **Invariant**: plain data. It names no other package, so that both sides can use it. The feature `schema` describes
//! the answers for OpenAPI; only the daemon turns it on.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod acts;
mod audit;
mod cluster;
mod requests;
mod resources;
mod sinks;
mod status;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use acts::*;
pub use audit::*;
pub use cluster::*;
pub use requests::*;
pub use resources::*;
pub use sinks::*;
pub use status::*;

/// Declares answers: structs whose fields are public. Daemons of version 0.1.0 leave out what has a default.
macro_rules! answers {
    ($(
        $(#[doc = $about:literal])+
        pub struct $Answer:ident { $( $(#[$($attribute:tt)*])* $field:ident: $kind:ty, )* }
    )*) => { $(
        $(#[doc = $about])+
        #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(salvo_oapi::ToSchema))]
        pub struct $Answer { $( $(#[$($attribute)*])* pub $field: $kind, )* }
    )* };
}

use answers;

/// What can be set of a record, by the names of its rows. The OpenAPI documents have the rows in the schema around it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShownSettings(pub Map<String, Value>);

impl ShownSettings {
    /// A setting that is a text; `None`: it is null, or there is no such row.
    pub fn text(&self, name: &str) -> Option<&str> {
        self[name].as_str()
    }
}

impl std::ops::Index<&str> for ShownSettings {
    type Output = Value;

    /// Null: there is no such row.
    fn index(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }
}

#[cfg(feature = "schema")]
impl salvo_oapi::ToSchema for ShownSettings {
    fn to_schema(_: &mut salvo_oapi::Components) -> salvo_oapi::RefOr<salvo_oapi::schema::Schema> {
        salvo_oapi::RefOr::Type(salvo_oapi::schema::Schema::Object(Box::default()))
    }
}

#[cfg(feature = "schema")]
impl salvo_oapi::ComposeSchema for ShownSettings {
    fn compose(
        components: &mut salvo_oapi::Components,
        _: Vec<salvo_oapi::RefOr<salvo_oapi::schema::Schema>>,
    ) -> salvo_oapi::RefOr<salvo_oapi::schema::Schema> {
        <Self as salvo_oapi::ToSchema>::to_schema(components)
    }
}

/// The status of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Stored, not yet delivered to every sink.
    Accepted,
    /// Delivered to every sink that receives its stream.
    Processed,
    /// Delivered to every sink, but no item changed the data pool, which had higher versions.
    Stale,
    /// A sink could not deliver some of its items.
    Failed,
    /// A sink could not deliver some of its items, and an operator discarded them.
    Discarded,
    /// Rejected.
    Rejected,
    /// A repeat.
    Duplicate,
    /// Came with a test key.
    Test,
    /// Removed an item.
    Removed,
    /// A challenge of a provider, or an event without items: answered, with nothing to store.
    Handshake,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 10] = [
        Status::Accepted,
        Status::Processed,
        Status::Stale,
        Status::Failed,
        Status::Discarded,
        Status::Rejected,
        Status::Duplicate,
        Status::Test,
        Status::Removed,
        Status::Handshake,
    ];

    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Processed => "processed",
            Self::Stale => "stale",
            Self::Failed => "failed",
            Self::Discarded => "discarded",
            Self::Rejected => "rejected",
            Self::Duplicate => "duplicate",
            Self::Test => "test",
            Self::Removed => "removed",
            Self::Handshake => "handshake",
        }
    }

    /// The status with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}
