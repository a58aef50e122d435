//! A new key, for the one page that shows it.
//!
//! **Invariant**: its text leaves memory only sealed.

use serde::{Deserialize, Serialize};

use base::clock::Unix;
use catalog::key::KeyText;

/// A new key, for the one page that shows it.
#[derive(Debug)]
pub struct IssuedKey {
    /// Path and query of that page. Another page of the session does not show the key, so that it is not lost on the
    /// wrong one.
    pub path: String,
    /// Name of the key.
    pub key: String,
    /// The key itself.
    pub secret: KeyText,
    /// After a rotation: the name of the previous key, and its expiry.
    pub previous: Option<(String, Unix)>,
}

/// The same as text, in milliseconds since 1970.
#[derive(Serialize, Deserialize)]
struct Written {
    path: String,
    key: String,
    secret: String,
    previous: Option<(String, u64)>,
}

impl IssuedKey {
    /// A key without a previous one.
    pub fn new(path: String, key: &str, secret: KeyText) -> Self {
        Self {
            path,
            key: key.to_owned(),
            secret,
            previous: None,
        }
    }

    /// The path of the page, without its query.
    pub(super) fn page(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// To be sealed.
    pub(super) fn write(&self) -> Vec<u8> {
        let previous = self.previous.as_ref();
        let written = Written {
            path: self.path.clone(),
            key: self.key.clone(),
            secret: self.secret.expose().to_owned(),
            previous: previous.map(|(name, ends_at)| (name.clone(), ends_at.ms())),
        };
        // Of texts and numbers JSON can always be made.
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// What was unsealed.
    pub(super) fn read(written: &[u8]) -> Option<Self> {
        let written: Written = serde_json::from_slice(written).ok()?;
        let previous = written.previous;
        Some(Self {
            path: written.path,
            key: written.key,
            secret: KeyText::of_tool(&written.secret),
            previous: previous.map(|(name, ends_at)| (name, Unix::from_ms(ends_at))),
        })
    }
}
