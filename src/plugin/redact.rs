//! Masks the secrets of a sink in the texts of its plugin.
//!
//! A plugin can repeat a receiver's response, which can contain the request with its secret headers. Reasons are stored
//! with dead letters, logged and shown.
//!
//! **Invariant**: no text of a plugin leaves `plugin` with a secret of its sink, or with the beginning of a secret that
//! was cut off.

use settings::{MASK, Secret};

/// Shorter secrets cannot be distinguished from other words.
const SECRET_BYTES_MIN: usize = 6;
/// This many bytes of a secret's beginning are masked even if the rest was cut off. A receiver may repeat a header and
/// cut it.
const BEGINNING_BYTES: usize = 12;

#[derive(Clone, Default)]
pub struct Redactor(Vec<String>);

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Redactor({})", self.0.len())
    }
}

impl Redactor {
    /// Masks all secrets in the settings of a sink. Parts of secrets count as well, because a receiver may repeat a
    /// password without its URL.
    pub fn of(sink: &settings::Sink) -> Self {
        let headers = sink.http.iter().flat_map(|http| http.headers.values());
        let words_of_headers = headers.flat_map(|header| words(header.reveal()));
        let given = sink.secrets.values().map(Secret::reveal);
        let paths = given.clone().filter_map(behind_host);
        let urls = sink.postgres.iter().map(|postgres| postgres.url.reveal());
        let passwords = urls.clone().filter_map(password);
        let settings = settings::hidden(&sink.config);
        let settings = settings.into_iter().flat_map(words);
        let all = words_of_headers.chain(given).chain(urls).chain(passwords);
        let all = all.chain(settings).chain(paths);
        let long = all.filter(|secret| secret.len() >= SECRET_BYTES_MIN);
        let mut secrets: Vec<String> = long.map(str::to_owned).collect();
        // The longest first: one may be a part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// The text without the secrets.
    pub fn redact(&self, mut text: String) -> String {
        for secret in &self.0 {
            text = covered(text, secret);
        }
        text
    }
}

/// The value of a header without the scheme before the credential. `Bearer` is no secret, and would be masked in every
/// text.
fn words(header: &str) -> impl Iterator<Item = &str> {
    let words = header.split_ascii_whitespace();
    let scheme = usize::from(words.clone().count() > 1);
    words.skip(scheme)
}

/// The part of a URL after its host: receivers repeat it without the host.
fn behind_host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.find(['/', '?']).map(|at| &rest[at..])
}

fn password(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let (user, _) = rest.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

fn covered(text: String, secret: &str) -> String {
    let beginning = &secret[..secret.floor_char_boundary(BEGINNING_BYTES)];
    if !text.contains(beginning) {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, _)) = rest.split_once(beginning) {
        let found = &rest[before.len()..];
        let same = found
            .chars()
            .zip(secret.chars())
            .take_while(|(a, b)| a == b);
        let bytes: usize = same.map(|(character, _)| character.len_utf8()).sum();
        shown.push_str(before);
        shown.push_str(MASK);
        rest = &found[bytes..];
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests;
