//! What is set up in a tool: a file or steps, with the address and the key of the connector in them.
//!
//! **Invariant**: only the known places are replaced; other braces stay.

/// What is set up in the tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSetup {
    /// The tool's file.
    pub file: Option<String>,
    pub language: Option<String>,
    /// What to write there, with the places of [`SetupPlaces`].
    pub snippet: Option<String>,
    /// What to do, in order, with the same places.
    pub steps: Vec<String>,
}

/// What stands in a tool's settings in place of `{url}`, `{key}` and `{stream}`; and of `{host}`, `{port}` and `{path}`,
/// for tools that ask for the parts of a URL.
#[derive(Clone, Copy, Debug)]
pub struct SetupPlaces<'a> {
    /// The address of the connector, without its key.
    pub url: &'a str,
    pub key: &'a str,
    pub stream: &'a str,
}

impl SetupPlaces<'_> {
    /// A text of the tool's settings with them. Other braces stay. Other braces may belong to the tool's own language.
    pub fn fill(&self, text: &str) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("https", self.url));
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, format!("/{path}")),
            None => (rest, "/".to_owned()),
        };
        let usual = if scheme == "http" { "80" } else { "443" };
        // The colons of an IPv6 address stand in brackets.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port),
            _ => (authority, usual),
        };
        [
            ("{url}", self.url),
            ("{key}", self.key),
            ("{stream}", self.stream),
            ("{host}", host),
            ("{port}", port),
            ("{path}", &path),
        ]
        .iter()
        .fold(text.to_owned(), |text, (place, value)| {
            text.replace(place, value)
        })
    }
}
