//! Streams: named destinations for items.
//!
//! **Invariant**: a stream without a creation time is defined in the configuration.

use std::ops::Deref;
use std::sync::Arc;

use base::clock::Unix;

/// A named destination for items. What can be set of it is read as its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    pub name: Arc<str>,
    /// What can be set of it, in a file or at run time.
    pub settings: settings::Stream,
    /// When it was made at run time. None: it is declared.
    pub created_at: Option<Unix>,
    /// How many streams of this name were deleted before: what was of theirs is not of this one. Without it, keys and
    /// items of a deleted stream would be those of the new one.
    pub life: u64,
    /// The daemon fills it, and people only read it.
    pub is_built_in: bool,
}

impl Stream {
    pub(super) fn new(settings: settings::Stream, created_at: Option<Unix>) -> Self {
        Self {
            name: settings.name.as_str().into(),
            settings,
            created_at,
            life: 0,
            is_built_in: false,
        }
    }

    /// The stream of the daemon's problems.
    pub(super) fn of_problems(name: &str) -> Self {
        let settings = settings::Stream {
            name: name.to_owned(),
            description: Some("Problems of this daemon".to_owned()),
            ..settings::Stream::default()
        };
        Self {
            is_built_in: true,
            ..Self::new(settings, None)
        }
    }
}

impl Deref for Stream {
    type Target = settings::Stream;

    fn deref(&self) -> &settings::Stream {
        &self.settings
    }
}
