//! How SaaS tools sign, name and greet: what a webhook delivery must show before it is believed.
//!
//! The webhook endpoint calls [`Verifier::check_head`] before it reads a body, [`Verifier::handshake`] and
//! [`Verifier::check`] after; the settings, the command line and the pages list [`presets()`]. To try a connector,
//! [`Verifier::sign`] signs one of [`Preset::samples`] as the tool would.
//!
//! A tool is a [`Preset`], which is a file. Only what no file can say has code: `special` (Twilio), `certified` (Amazon
//! SNS, PayPal) and `pubsub`.
//!
//! **Invariant**: nothing in this module knows HTTP libraries, storage, settings files or the clock, and none of its
//! texts holds a secret, a digest or a signature that was sent.
#![deny(unsafe_code)]

use std::borrow::Cow;

pub mod body;
mod certificate;
mod certified;
mod clock;
mod compare;
mod custom;
mod edit;
mod field;
mod fit;
pub mod format;
pub mod handshake;
mod jwt;
mod key;
mod key_set;
mod layout;
mod md5;
mod options;
mod pair;
mod path;
mod place;
mod preset;
mod presets;
mod public_key;
mod pubsub;
mod rsa;
mod samples;
mod secret;
mod setup;
mod sign;
mod special;
mod template;
mod trial;
mod verify;

pub use certificate::validity;
pub use fit::{PresetFit, fitting};
pub use options::{Options, Timestamp};
pub use path::Path;
pub use place::{Place, Source, joined_key};
pub use preset::{
    Algorithm, DeliveryAnswer, Digest, Encoding, Handshake, ItemKey, JwtAlgorithm, KeyFields,
    Preset, PresetOption, PresetOrigin, Sample, SecretForm, SecretFrom, SentDelivery, SetupPlaces,
    ToolSetup, Unit, Verification,
};
pub use presets::{own, preset, presets, resolve_own, restore_own, set_own};
pub use sign::{CannotSign, Draft, Signed};
pub use trial::{Trial, Tried, questions, vectors};
pub use verify::Verifier;

use base::clock::Unix;
use base::text::percent_encoded;

/// Secrets that one delivery is tried with, at most. Each costs a check of every delivery, also of those that nobody
/// has signed.
pub const CANDIDATES_MAX: usize = 4;

/// The most header names that a message lists, and the most characters of each. The sender chooses them, and a log line
/// should stay short.
const NAMES_LISTED_MAX: usize = 12;
const NAME_CHARS_MAX: usize = 64;

/// Headers of a request; names in lower case, values as they came, repeated ones repeated. They are no type of an HTTP
/// library, so that tests and the command line need none.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a>(pub &'a [(&'a str, &'a [u8])]);

impl<'a> Headers<'a> {
    /// The first value of this name, if it is text without control characters.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.all(name).next().and_then(text)
    }

    /// The value of a header that must stand there once: `None` if it is missing; an error if it stands there twice or is
    /// no text. Two values could be read by different programs as different deliveries.
    pub fn once(&self, name: &str) -> Result<Option<&'a str>, Refused> {
        let mut values = self.all(name);
        let Some(value) = values.next() else {
            return Ok(None);
        };
        if values.next().is_some() {
            return Err(Refused::header(format!(
                "the header {name} is sent more than once"
            )));
        }
        match text(value) {
            Some(value) => Ok(Some(value)),
            None => Err(Refused::header(format!("the header {name} is not text"))),
        }
    }

    /// The value of a header without which nothing can be checked.
    fn needed(&self, name: &str) -> Result<&'a str, Refused> {
        match self.once(name)? {
            Some(value) if !value.is_empty() => Ok(value),
            Some(_) => Err(Refused::header(format!("the header {name} is empty"))),
            None => Err(Refused::header(format!(
                "the header {name} is missing; received headers: {}",
                self.names()
            ))),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    fn all<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let same = move |(given, _): &&(&str, &[u8])| given.eq_ignore_ascii_case(name);
        self.0.iter().filter(same).map(|(_, value)| *value)
    }

    /// The names that came, for a message; each once. They show what the sender has sent in place of the missing one.
    fn names(&self) -> String {
        let mut names: Vec<String> = Vec::new();
        for (name, _) in self.0 {
            let shown: String = name.chars().take(NAME_CHARS_MAX).collect();
            let shown = shown.escape_debug().to_string();
            if names.contains(&shown) {
                continue;
            }
            if names.len() == NAMES_LISTED_MAX {
                names.push("…".to_owned());
                break;
            }
            names.push(shown);
        }
        if names.is_empty() {
            return "none".to_owned();
        }
        names.join(", ")
    }
}

/// A header's value, if it is text without control characters.
fn text(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// A request as it came, its body before any decoding.
#[derive(Debug, Clone, Copy)]
pub struct Delivery<'a> {
    /// `GET`, `POST`, `HEAD` or `OPTIONS`.
    pub method: &'a str,
    /// The URL as the sender was given it, with the query of this request. A [`Verifier`] with a URL of its own signs
    /// with that one, and still reads the query here.
    pub url: &'a str,
    pub headers: Headers<'a>,
    /// The bytes of the body; compressed if they came so. Signatures are over these bytes.
    pub body: &'a [u8],
    /// This machine's clock. It is given instead of read, so that vectors of another year can be checked.
    pub now: Unix,
}

impl Delivery<'_> {
    /// The body as JSON, where it is a form; else as it came.
    fn json(&self) -> Cow<'_, [u8]> {
        if !special::is_form(self) {
            return self.body.into();
        }
        match body::form_to_json(self.body) {
            Some(json) => Cow::Owned(json.to_vec()),
            None => self.body.into(),
        }
    }

    /// What stands at a path of the body.
    fn field(&self, path: &Path) -> Option<String> {
        path.find(&self.json())
    }
}

/// The path that a tool sends to: that of the stream, or of a connector below it.
pub fn path(stream: &str, connector: Option<&str>) -> String {
    let stream = percent_encoded(stream);
    match connector {
        None => format!("/api/webhook/{stream}"),
        Some(connector) => format!("/api/webhook/{stream}/{}", percent_encoded(connector)),
    }
}

/// Why the settings of a verification cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct InvalidVerifier {
    /// The field of the settings that does not fit.
    pub field: &'static str,
    /// What is wrong with it and what to do.
    pub message: String,
}

impl InvalidVerifier {
    fn new(field: &'static str, message: impl Into<String>) -> InvalidVerifier {
        InvalidVerifier {
            field,
            message: message.into(),
        }
    }
}

/// What a delivery was refused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Because {
    /// A header is missing, stands there twice, or has no part that could be checked.
    Header,
    /// The timestamp is none, or too far from this machine's clock.
    Timestamp,
    /// The signature or token does not match.
    Signature,
    /// The body or the query lacks what the check needs.
    Body,
}

/// Why a delivery is not believed.
///
/// Displayed as a sentence part for the user's log: never a digest, a secret or a signature that was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    pub because: Because,
    /// The reason, in words that a user can act on.
    pub message: String,
    /// For [`Because::Timestamp`]: how many seconds the sender's clock is ahead (+) or behind (-), where it is known.
    /// The status shows a wrong clock by it.
    pub seconds_off: Option<i64>,
}

impl Refused {
    fn new(because: Because, message: impl Into<String>) -> Refused {
        Refused {
            because,
            message: message.into(),
            seconds_off: None,
        }
    }

    fn header(message: impl Into<String>) -> Refused {
        Refused::new(Because::Header, message)
    }

    fn signature(message: impl Into<String>) -> Refused {
        Refused::new(Because::Signature, message)
    }

    fn body(message: impl Into<String>) -> Refused {
        Refused::new(Because::Body, message)
    }
}

#[cfg(test)]
mod tests;
