//! How to send to a stream, ready to paste.
//!
//! **Invariant**: a snippet holds no secret but a key that was just issued. The name of a stream is percent-encoded
//! in it, so that it is part of the URL and of nothing else.

use std::net::IpAddr;

use salvo_core::Request;

use super::host;
use super::text::segment;
use crate::catalog::key::KeyText;
use crate::operate::Operator;
use crate::text::shell_quoted as quoted;

/// Where callers reach the service listener.
#[derive(Debug)]
pub(super) struct Address {
    /// `http://127.0.0.1:8080`
    base: String,
    /// The path of the Unix socket, if it listens on one.
    socket: Option<String>,
}

impl Address {
    /// The path of the Unix socket, if the service listens on one.
    pub(super) fn socket(&self) -> Option<&str> {
        self.socket.as_deref()
    }

    /// Where a stream's data is posted to.
    pub(super) fn url(&self, stream: &str) -> String {
        format!("{}/api/webhook/{}", self.base, segment(stream))
    }

    /// Where data is posted to whose stream the key says.
    pub(super) fn ingest_url(&self) -> String {
        format!("{}/api/ingest", self.base)
    }

    /// The page that shows a stream; without the key, which goes into its fragment.
    pub(super) fn render_url(&self, stream: &str) -> String {
        format!("{}/render/{}", self.base, segment(stream))
    }
}

/// The service's address as the visitor reaches it: where it listens on all addresses, the one that these pages were
/// requested under.
pub(super) fn address(operator: &Operator, req: &Request) -> Address {
    let listen = &operator.about.service_address;
    if let Some(path) = listen.strip_prefix("unix:") {
        return Address {
            base: "http://localhost".to_owned(),
            socket: Some(path.to_owned()),
        };
    }
    let bare = listen.strip_prefix("http://").unwrap_or(listen);
    let base = bare.rsplit_once(':').and_then(|(host, port)| {
        let address: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
        let (asked, _) = host::host(req.headers()).filter(|_| address.is_unspecified())?;
        Some(match asked.contains(':') {
            true => format!("http://[{asked}]:{port}"),
            false => format!("http://{asked}:{port}"),
        })
    });
    Address {
        base: base.unwrap_or_else(|| listen.clone()),
        socket: None,
    }
}

/// Language and code. Over a Unix socket curl only: the others need an address. Without a key they take it from the
/// variable `HEADGATE_KEY`.
pub(super) fn all(
    address: &Address,
    stream: &str,
    key: Option<&KeyText>,
) -> Vec<(&'static str, String)> {
    let mut snippets = without_key(address, stream);
    if let Some(key) = key {
        for (_, code) in &mut snippets {
            for (from_variable, as_text) in KEY {
                *code = code.replace(from_variable, &as_text.replace("{key}", key.expose()));
            }
        }
    }
    snippets
}

/// How each language reads the key from the variable, and how the key is written there as a literal. Nothing in a key needs
/// quoting.
const KEY: [(&str, &str); 7] = [
    ("${process.env.HEADGATE_KEY}", "{key}"),
    ("$HEADGATE_KEY", "{key}"),
    (
        "\"Bearer \" + os.environ[\"HEADGATE_KEY\"]",
        "\"Bearer {key}\"",
    ),
    (
        "import json, os, urllib.request",
        "import json, urllib.request",
    ),
    (
        "Environment.GetEnvironmentVariable(\"HEADGATE_KEY\")",
        "\"{key}\"",
    ),
    (
        "\"Bearer \"+os.Getenv(\"HEADGATE_KEY\")",
        "\"Bearer {key}\"",
    ),
    ("\t\"os\"\n", ""),
];

fn without_key(address: &Address, stream: &str) -> Vec<(&'static str, String)> {
    let url = address.url(stream);
    if let Some(socket) = &address.socket {
        let socket = quoted(socket);
        let code = CURL.replace("curl -i", &format!("curl -i --unix-socket {socket}"));
        return vec![("curl", code.replace("{url}", &url))];
    }
    [
        ("curl", CURL),
        ("Node.js", NODE),
        ("Python", PYTHON),
        ("C#", C_SHARP),
        ("Go", GO),
    ]
    .map(|(language, code)| (language, code.replace("{url}", &url)))
    .into()
}

const CURL: &str = include_str!("snippets/curl.sh");
const NODE: &str = include_str!("snippets/node.mjs");
const PYTHON: &str = include_str!("snippets/python.py");
const C_SHARP: &str = include_str!("snippets/csharp.cs");
const GO: &str = include_str!("snippets/go.go");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::key::{KeyKind, generate};

    #[test]
    fn a_key_takes_the_place_of_the_variable_in_every_language() {
        let key = generate(KeyKind::Ingest).expect("random numbers");
        let address = Address {
            base: "http://127.0.0.1:8080".to_owned(),
            socket: None,
        };
        for (language, code) in all(&address, "orders", Some(&key)) {
            assert_eq!(code.matches(key.expose()).count(), 1, "{language}: {code}");
            for left in ["HEADGATE_KEY", "{key}", "os."] {
                assert!(!code.contains(left), "{language}: {code}");
            }
        }
        for (language, code) in all(&address, "orders", None) {
            assert_eq!(code.matches("HEADGATE_KEY").count(), 1, "{language}");
        }
    }
}
