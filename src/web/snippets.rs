//! Example requests for a stream, ready to paste.
//!
//! **Invariant**: an example contains no secret except a new key. The name of a stream is percent-encoded, so that it
//! is only a segment of the URL.

mod library; // the same with the client libraries

use std::net::IpAddr;

use salvo_core::Request;

use super::text::{segment, visible_json};
use base::text::shell_quoted as quoted;
use catalog::IngestKey;
use catalog::key::KeyText;
use http::host;
use operate::Operator;
use webhook::Path;

/// The URL of the service listener for senders.
#[derive(Debug)]
pub(super) struct Address {
    /// `http://127.0.0.1:8080`
    base: String,
    /// The base of the URLs for providers, if the configuration sets one.
    public: Option<String>,
    /// The path of the Unix socket, if the service listens on one.
    socket: Option<String>,
}

/// The path and the item of an example request.
#[derive(Debug)]
pub(super) struct Sample<'a> {
    path: String,
    /// The field that identifies the item, if it is not `id`.
    item_key: Option<&'a str>,
    /// The path of the item in the body, if the item is not the whole body.
    items: Option<&'a str>,
    /// The body is the item, and the request is not signed: a client library can send it.
    is_plain: bool,
}

/// A first request in one language.
#[derive(Debug)]
pub(super) struct Snippet {
    pub(super) language: &'static str,
    /// The code with the standard library.
    pub(super) code: String,
    /// The code with the client library, if there is one.
    pub(super) library: Option<String>,
}

impl<'a> Sample<'a> {
    /// An example for a key.
    pub(super) fn of(key: &'a IngestKey) -> Self {
        let usual = || key.preset?.item_key.as_ref()?.single().map(Path::text);
        let item_key = key.settings.item_key.as_deref().or_else(usual);
        Self {
            path: key.path(),
            item_key: item_key
                .filter(|field| !matches!(*field, "id" | "@delivery") && !field.contains(',')),
            items: (key.settings.items.as_deref())
                .or_else(|| key.preset?.items.as_ref().map(Path::text)),
            is_plain: key.signing.is_none() && key.preset.is_none() && key.settings.items.is_none(),
        }
    }
}

impl Address {
    /// The path of the Unix socket, if the service listens on one.
    pub(super) fn socket(&self) -> Option<&str> {
        self.socket.as_deref()
    }

    /// The URL of a path of the service.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The URL of a path for providers, which send from other networks.
    pub(super) fn for_tools(&self, path: &str) -> String {
        format!("{}{path}", self.public.as_deref().unwrap_or(&self.base))
    }

    /// The URL for data; the key determines its stream.
    pub(super) fn ingest_url(&self) -> String {
        format!("{}/api/ingest", self.base)
    }

    /// The URL of a stream's feeds, without the extension of the format.
    pub(super) fn feed_base(&self, stream: &str) -> String {
        format!(
            "{}/feed/{}",
            self.public.as_ref().unwrap_or(&self.base),
            segment(stream)
        )
    }

    /// The page that shows a stream; without the key, which belongs in its fragment.
    pub(super) fn render_url(&self, stream: &str) -> String {
        format!("{}/render/{}", self.base, segment(stream))
    }

    /// The page that operates a stream; without the key, which belongs in its fragment.
    pub(super) fn operate_url(&self, stream: &str) -> String {
        format!("{}/operate/{}", self.base, segment(stream))
    }
}

/// The service's URL as the visitor reaches it. If the service listens on all addresses, its host is the host of this
/// request.
pub(super) fn address(operator: &Operator, req: &Request) -> Address {
    let listen = &operator.about.service_address;
    let public = operator.catalog.public_url().map(str::to_owned);
    if let Some(path) = listen.strip_prefix("unix:") {
        return Address {
            base: "http://localhost".to_owned(),
            public,
            socket: Some(path.to_owned()),
        };
    }
    let (scheme, bare) = listen.split_once("://").unwrap_or(("http", listen));
    let base = bare.rsplit_once(':').and_then(|(host, port)| {
        let address: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
        let (asked, _) = host::host(req.headers()).filter(|_| address.is_unspecified())?;
        Some(match asked.contains(':') {
            true => format!("{scheme}://[{asked}]:{port}"),
            false => format!("{scheme}://{asked}:{port}"),
        })
    });
    Address {
        base: base.unwrap_or_else(|| listen.clone()),
        public,
        socket: None,
    }
}

/// The examples in all languages; for a Unix socket only curl, because the others need a host. Without a key, the code
/// reads the variable `HEADGATE_KEY`.
pub(super) fn all(address: &Address, sample: &Sample<'_>, key: Option<&KeyText>) -> Vec<Snippet> {
    let with_key = |(language, mut code): (&'static str, String)| {
        if let Some(key) = key {
            for (from_variable, as_text) in KEY {
                code = code.replace(from_variable, &as_text.replace("{key}", key.expose()));
            }
        }
        Snippet {
            language,
            code,
            library: library::of(language, address, sample, key),
        }
    };
    let snippets = without_key(address, sample).into_iter();
    snippets.map(with_key).collect()
}

/// How each language reads the key from the variable, and how the key is written as a literal. A key contains no
/// characters that need quoting.
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

/// How each language writes the item, and the same with `{field}` in place of `id`: a JSON string, which is a valid
/// literal in all of them. `{quoted}` is the whole body as a word of a shell, `{literal}` as a literal of Go.
const ITEM: [(&str, &str); 5] = [
    ("'{\"id\": 1, \"name\": \"first\"}'", "{quoted}"),
    (
        "{ id: 1, name: \"first\" }",
        "{ {field}: 1, name: \"first\" }",
    ),
    (
        "{\"id\": 1, \"name\": \"first\"})",
        "{{field}: 1, \"name\": \"first\"})",
    ),
    (
        "new { id = 1, name = \"first\" }",
        "new Dictionary<string, object> { [{field}] = 1, [\"name\"] = \"first\" }",
    ),
    ("`{\"id\": 1, \"name\": \"first\"}`", "{literal}"),
];

/// An example with this identifying field, and with the item at this path.
fn with_item(code: &str, field: Option<&str>, items: Option<&str>) -> String {
    let Some((usual, named)) = ITEM.iter().find(|(usual, _)| code.contains(usual)) else {
        return code.to_owned();
    };
    let field = json(field.unwrap_or("id"));
    let body = within(
        &format!("{{{field}: 1, \"name\": \"first\"}}"),
        items,
        false,
    );
    let item = match *named {
        "{quoted}" => quoted(&body),
        // Raw string literals of Go cannot contain backquotes.
        "{literal}" if body.contains('`') => json(&body),
        "{literal}" => format!("`{body}`"),
        named => {
            let item = match &*field {
                "\"id\"" => (*usual).to_owned(),
                field => named.replace("{field}", field),
            };
            match item.strip_suffix(')') {
                Some(item) => format!("{})", within(item, items, false)),
                None => within(&item, items, item.starts_with("new ")),
            }
        }
    };
    code.replace(usual, &item)
}

/// Wraps an object into an array at a path, in the syntax of C# or of the others.
fn within(object: &str, items: Option<&str>, c_sharp: bool) -> String {
    let Some(path) = items else {
        return object.to_owned();
    };
    let array = match c_sharp {
        true => format!("new[] {{ {object} }}"),
        false => format!("[{object}]"),
    };
    path.rsplit('.').fold(array, |inner, name| match c_sharp {
        true => format!(
            "new Dictionary<string, object> {{ [{}] = {inner} }}",
            json(name)
        ),
        false => format!("{{{}: {inner}}}", json(name)),
    })
}

fn json(text: &str) -> String {
    visible_json(&serde_json::Value::from(text).to_string()).into_owned()
}

fn without_key(address: &Address, sample: &Sample<'_>) -> Vec<(&'static str, String)> {
    let url = address.at(&sample.path);
    let filled = |code: &str| with_item(code, sample.item_key, sample.items).replace("{url}", &url);
    if let Some(socket) = &address.socket {
        let socket = quoted(socket);
        let code = CURL.replace("curl -i", &format!("curl -i --unix-socket {socket}"));
        return vec![("curl", filled(&code))];
    }
    [
        ("curl", CURL),
        ("Node.js", NODE),
        ("Python", PYTHON),
        ("C#", C_SHARP),
        ("Go", GO),
    ]
    .map(|(language, code)| (language, filled(code)))
    .into()
}

const CURL: &str = include_str!("snippets/curl.sh");
const NODE: &str = include_str!("snippets/node.mjs");
const PYTHON: &str = include_str!("snippets/python.py");
const C_SHARP: &str = include_str!("snippets/csharp.cs");
const GO: &str = include_str!("snippets/go.go");

#[cfg(test)]
mod tests;
