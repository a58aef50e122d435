//! Inputs that look like a request: lines of a head, an empty line, a body.
//!
//! **Invariant**: every input is a request; what does not fit is left out.

/// A request as the input has it.
pub(super) struct Request<'a> {
    /// The first line, its words.
    pub(super) words: Vec<&'a str>,
    /// The headers, names in lower case, values without spaces around them.
    pub(super) headers: Vec<(String, &'a [u8])>,
    /// What follows the empty line.
    pub(super) body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The parts of an input.
    pub(super) fn of(input: &'a [u8]) -> Self {
        let (first, mut rest) = line(input);
        let words = std::str::from_utf8(first).unwrap_or_default();
        let mut headers = Vec::new();
        loop {
            let (header, after) = line(rest);
            rest = after;
            if header.is_empty() {
                break;
            }
            let colon = header.iter().position(|byte| *byte == b':');
            let (name, value) = header.split_at(colon.unwrap_or(header.len()));
            let name = String::from_utf8_lossy(name).to_lowercase();
            headers.push((name, value.get(1..).unwrap_or_default().trim_ascii()));
        }
        Self {
            words: words.split(' ').collect(),
            headers,
            body: rest,
        }
    }

    /// A word of the first line; empty if there are fewer.
    pub(super) fn word(&self, at: usize) -> &'a str {
        self.words.get(at).copied().unwrap_or_default()
    }

    /// The first header of this name.
    pub(super) fn header(&self, name: &str) -> Option<&'a [u8]> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(given, _)| given == name);
        found.map(|(_, value)| *value)
    }
}

/// The first line of a text, and what follows it.
pub(super) fn line(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}
