//! Verification of a provider's signatures: the fields that the forms of a connector and of a key share.
//!
//! **Invariant**: a secret is read from the form that was sent, and never shown.

use maud::{Markup, html};

use crate::form::{Field, Typed};
use crate::text::as_sentence;
use settings::{Secret, Verify};
use webhook::{Options, Preset, PresetOption, Timestamp};

/// Initial values of the fields of a signature: the most common ones.
const USUAL: [(&str, &str); 6] = [
    ("signed", "{body}"),
    ("hash", "sha256"),
    ("encoding", "hex"),
    ("secret_encoding", "text"),
    ("timestamp_in", "header"),
    ("unit", "s"),
];
const HASHES: [(&str, &str); 4] = [
    ("sha256", "SHA-256"),
    ("sha1", "SHA-1"),
    ("sha384", "SHA-384"),
    ("sha512", "SHA-512"),
];
const ENCODINGS: [(&str, &str); 3] = [
    ("hex", "hexadecimal"),
    ("base64", "Base64"),
    ("base64url", "Base64 for URLs"),
];
const SECRET_ENCODINGS: [(&str, &str); 3] = [
    ("text", "plain text"),
    ("hex", "hexadecimal"),
    ("base64", "Base64"),
];
const PLACES: [(&str, &str); 3] = [
    ("header", "in a separate header"),
    ("part", "in a part of the signature's header"),
    ("body", "in a field of the body"),
];
const UNITS: [(&str, &str); 3] = [
    ("s", "seconds since 1970"),
    ("ms", "milliseconds since 1970"),
    ("rfc3339", "like 2030-01-31T12:00:00Z"),
];

/// The initial values of the fields.
pub(super) fn initial(preset: &Preset) -> Vec<(&'static str, String)> {
    match preset.name.as_str() {
        "hmac" => USUAL.map(|(name, value)| (name, value.to_owned())).into(),
        _ => Vec::new(),
    }
}

/// The fields for a preset with signatures.
pub(super) fn fields(typed: &Typed, preset: &'static Preset) -> Markup {
    html! {
        @if preset.sends_secret().is_some() { (secret_of_tool(typed, preset)) } @else { (secret(typed, preset, "")) }
        @for option in &preset.options { (self::option(typed, option)) }
        @if preset.asks_for_word() { (verify_token(typed)) }
        @if preset.is_generic() { (header(typed)) }
        @if preset.name == "hmac" { (layout(typed)) }
        @if asks_for_url(preset) { (url(typed)) }
    }
}

/// The field of the secret, or of the published key of the provider. `before` can be `new `, a prefix of the label.
pub(super) fn secret(typed: &Typed, preset: &Preset, before: &str) -> Markup {
    let published = preset.published();
    let label = as_sentence(&[before, published.unwrap_or("secret")].concat());
    let field = Field {
        name: "secret",
        label: label.trim_end_matches('.'),
        hint: &preset.secret_hint,
    };
    match published {
        None => typed.secret_input(field),
        Some(_) => typed.lines_input(field),
    }
}

/// The field of a secret that the provider sends itself if the field stays empty.
fn secret_of_tool(typed: &Typed, preset: &Preset) -> Markup {
    let hint = format!(
        "{} Leave this empty: the page of the connector says when it has come.",
        preset.secret_hint
    );
    typed.known_secret_input(Field {
        name: "secret",
        label: "Secret (optional)",
        hint: &hint,
    })
}

fn option(typed: &Typed, option: &'static PresetOption) -> Markup {
    let (label, hint) = match &option.without {
        _ if option.required => (option.label.clone(), option.hint.clone()),
        None => (format!("{} (optional)", option.label), option.hint.clone()),
        Some(without) => (
            format!("{} (optional)", option.label),
            format!("{} Without it {without}.", option.hint),
        ),
    };
    let field = Field {
        name: &option.name,
        label: &label,
        hint: &hint,
    };
    typed.input(field, 256, option.required)
}

pub(super) fn read_secret(typed: &Typed) -> Secret {
    Secret::new(typed.text("secret"))
}

/// Reads the fields; `None`: the preset has no signatures.
pub(super) fn read(typed: &mut Typed, preset: &Preset) -> Option<Verify> {
    if !preset.signed() {
        return None;
    }
    let verify_token = preset.asks_for_word().then(|| {
        let word = typed.text("verify_token");
        if word.is_empty() {
            typed.reject("verify_token", "Choose a word.");
        }
        Secret::new(word)
    });
    Some(Verify {
        secret: match preset.sends_secret() {
            Some(_) => typed.optional("secret").map(Secret::new),
            None => Some(read_secret(typed)),
        },
        verify_token,
        options: options(typed, preset),
        ..Verify::default()
    })
}

/// The field that shows errors of the whole scheme.
pub(super) fn named(preset: &Preset) -> [(&'static str, &'static str); 1] {
    let field = if asks_for_url(preset) {
        "url"
    } else {
        "secret"
    };
    [("scheme", field)]
}

fn options(typed: &Typed, preset: &Preset) -> Options {
    let mut options = Options {
        url: typed.optional("url").filter(|_| asks_for_url(preset)),
        ..Options::of(&preset.name)
    };
    for option in &preset.options {
        options.set_detail(&option.name, typed.optional(&option.name));
    }
    if preset.is_generic() {
        options.header = typed.optional("header");
    }
    if preset.name == "hmac" {
        options.prefix = typed.optional("prefix");
        options.separator = separator(typed);
        options.signed = typed.optional("signed");
        options.hash = typed.optional("hash");
        options.encoding = typed.optional("encoding");
        options.secret_encoding = typed.optional("secret_encoding");
        options.timestamp = (typed.optional("timestamp")).map(|name| timestamp(typed, name));
        options.id = typed.optional("id").map(|name| format!("header:{name}"));
    }
    options
}

/// The separator, one character, which can be a space.
fn separator(typed: &Typed) -> Option<String> {
    let text = match typed.text("separator") {
        text if text.is_empty() => typed.raw("separator").to_owned(),
        text => text,
    };
    Some(text).filter(|text| !text.is_empty())
}

/// Where the timestamp is, and its format.
fn timestamp(typed: &Typed, name: String) -> Timestamp {
    let unit = typed.optional("unit");
    let place = Timestamp {
        unit,
        ..Timestamp::default()
    };
    let name = Some(name);
    match typed.raw("timestamp_in") {
        "part" => Timestamp {
            part: name,
            ..place
        },
        "body" => Timestamp {
            body: name,
            ..place
        },
        _ => Timestamp {
            header: name,
            ..place
        },
    }
}

fn asks_for_url(preset: &Preset) -> bool {
    preset.signs_url() || preset.name == "hmac"
}

fn verify_token(typed: &Typed) -> Markup {
    typed.secret_input(Field {
        name: "verify_token",
        label: "Verify token",
        hint: "A word that you choose. Enter the same word in the tool, next to the URL.",
    })
}

fn header(typed: &Typed) -> Markup {
    let field = Field {
        name: "header",
        label: "Header",
        hint: "Where the tool sends its signature or its secret, such as X-Signature.",
    };
    typed.input(field, 256, true)
}

fn layout(typed: &Typed) -> Markup {
    let prefix = Field {
        name: "prefix",
        label: "Signature prefix (optional)",
        hint: "Text before the signature in the header, such as sha256=.",
    };
    let signed = Field {
        name: "signed",
        label: "Signed text",
        hint: "Text with {body}, and with {ts}, {id}, {url} or {method} where the tool signs them, such as {ts}.{body}.",
    };
    let field = |name, label| Field {
        name,
        label,
        hint: "",
    };
    let separator = Field {
        name: "separator",
        label: "Part separator (optional)",
        hint: "The character between the parts of the header, such as the comma of t=…,v1=…. Default: none, the header has one part.",
    };
    let timestamp = Field {
        name: "timestamp",
        label: "Timestamp (optional)",
        hint: "The name of its header or field, or how its part begins, such as t=. Needed for {ts}.",
    };
    let id = Field {
        name: "id",
        label: "Delivery ID header (optional)",
        hint: "Deliveries with the same ID are duplicates. Needed for {id}.",
    };
    html! {
        (typed.input(prefix, 256, false))
        (typed.input(separator, 1, false))
        (typed.input(signed, 256, false))
        div.fields {
            (typed.select(field("hash", "Hash"), &HASHES))
            (typed.select(field("encoding", "Signature encoding"), &ENCODINGS))
            (typed.select(field("secret_encoding", "Secret encoding"), &SECRET_ENCODINGS))
        }
        (typed.input(timestamp, 256, false))
        div.fields {
            (typed.select(field("timestamp_in", "Timestamp location"), &PLACES))
            (typed.select(field("unit", "Timestamp format"), &UNITS))
        }
        (typed.input(id, 256, false))
    }
}

fn url(typed: &Typed) -> Markup {
    let field = Field {
        name: "url",
        label: "URL in the tool (optional)",
        hint: "The whole URL, if the tool signs another one than server.public_url and the path.",
    };
    typed.input(field, 2_048, false)
}
