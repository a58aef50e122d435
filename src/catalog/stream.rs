//! Streams: named destinations for items.
//!
//! **Invariant**: what was not made at run time is declared.

use std::ops::Deref;
use std::sync::Arc;

use crate::clock::Unix;
use crate::config;

/// A named destination for items. What can be set of it is read as its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Its name.
    pub name: Arc<str>,
    /// What can be set of it, in a file or at run time.
    pub settings: config::Stream,
    /// When it was made at run time. None: it is declared.
    pub created_at: Option<Unix>,
}

impl Stream {
    pub(super) fn new(settings: config::Stream, created_at: Option<Unix>) -> Self {
        Self {
            name: settings.name.as_str().into(),
            settings,
            created_at,
        }
    }
}

impl Deref for Stream {
    type Target = config::Stream;

    fn deref(&self) -> &config::Stream {
        &self.settings
    }
}
