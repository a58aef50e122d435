//! A connector with its first key, and a stream for it if there is none, in one change.
//!
//! The admin pages call it.
//!
//! **Invariant**: all of it is made, with an entry in the audit log for each part, or nothing.

use std::sync::Arc;

use super::change::connector::{build_connector, insert_connector};
use super::change::key::{NewKey, insert_key, reload_key, require_own_secret};
use super::change::stream::{build_stream, insert_stream};
use super::change::{Changed, check_stream};
use super::{Actor, Catalog, CatalogError, IngestKey};
use crate::key::KeyText;
use settings::{Patch, Verify};

/// The name of a first key.
pub const FIRST_KEY: &str = "main";

/// What is to be made together. With three changes instead of one, a failure in the middle would leave a part that
/// blocks the next attempt.
#[derive(Debug, Clone)]
pub struct SetUp {
    pub connector: Patch,
    /// Name of its first key.
    pub key: String,
    /// Where the key submits to.
    pub stream: FirstStream,
    /// Whether the key may stand in a URL.
    pub allow_in_url: bool,
    /// How what the tool signs is verified, in place of a key's text.
    pub verify: Option<Verify>,
}

/// The stream of a first key.
#[derive(Debug, Clone)]
pub enum FirstStream {
    /// One that there is, by its name.
    Existing(String),
    /// One of this name that is to be made. What is wrong with the name is told of the field `new_stream`.
    New(String),
}

impl FirstStream {
    /// The name of the stream that is to be made.
    pub fn made(&self) -> Option<&str> {
        match self {
            Self::New(name) => Some(name),
            Self::Existing(_) => None,
        }
    }
}

impl Catalog {
    /// Makes a connector with a key. The key's text, if it has one, is in the answer and nowhere else.
    ///
    /// # Errors
    /// See [`CatalogError`]; nothing was changed then.
    pub fn set_up(&self, new: SetUp, actor: &Actor) -> Changed<(Option<KeyText>, Arc<IngestKey>)> {
        let connector = build_connector(&new.connector)?;
        let (name, stream) = match new.stream {
            FirstStream::Existing(name) => (name, None),
            FirstStream::New(name) => {
                let settings = settings::Stream {
                    name,
                    ..settings::Stream::default()
                };
                let stream = build_stream(settings).map_err(of_new_stream)?;
                (stream.name.to_string(), Some(stream))
            }
        };
        let (text, key) = self.build_key(NewKey {
            connector: connector.name.to_string(),
            settings: settings::Key {
                name: new.key,
                stream: name,
                allow_in_url: new.allow_in_url,
                verify: new.verify,
                ..settings::Key::default()
            },
            test: false,
        })?;
        let ((), entries) = self.commit_all(actor, |database, entries| {
            let mut changes = Vec::new();
            match stream.clone() {
                Some(stream) => changes.extend(insert_stream(database, entries, stream)?.1),
                None => check_stream(entries, "stream", &key.stream)?,
            }
            changes.push(insert_connector(database, entries, &connector)?);
            require_own_secret(entries, &key)?;
            changes.push(insert_key(database, &key)?);
            Ok(((), changes))
        })?;
        Ok((text, reload_key(&entries, &key)?))
    }
}

fn of_new_stream(error: CatalogError) -> CatalogError {
    match error {
        CatalogError::Invalid {
            field: "name",
            fault,
        } => fault.of("new_stream"),
        error => error,
    }
}
