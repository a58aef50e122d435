//! Bodies as tools send them, to try a connector without its tool.
//!
//! Whoever sends a test takes one of the samples of a [`Preset`](super::Preset), fills it, and has it signed by
//! [`Verifier::sign`](super::Verifier::sign). The names and numbers in them are invented.
//!
//! **Invariant**: an id is what needs no escape in JSON or a form: letters, digits, `-` and `_`.

use super::clock::written;
use super::preset::{Sample, Unit};
use base::clock::Unix;

impl Sample {
    /// The body of one delivery. The time is that of now, because an old one would be refused.
    pub fn fill(&self, id: &str, now: Unix) -> String {
        filled(self.body.trim_end(), id, now)
    }

    /// A text of what is expected of it.
    pub fn fill_text(text: &str, id: &str, now: Unix) -> String {
        filled(text, id, now)
    }
}

/// The id comes last, so that nothing in it is taken for a place.
fn filled(text: &str, id: &str, now: Unix) -> String {
    text.replace("{now}", &written(Unit::Rfc3339, now))
        .replace("{now_s}", &written(Unit::Seconds, now))
        .replace("{now_ms}", &written(Unit::Milliseconds, now))
        .replace("{id}", id)
}
