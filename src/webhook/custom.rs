//! The settings of `hmac`, of which `token` shares some, as a [`Layout`].
//!
//! [`Verifier::new`](super::Verifier::new) is the one caller.
//!
//! **Invariant**: a layout covers the body, and names a place for all that it says is signed.

use super::InvalidVerifier;
use super::layout::Layout;
use super::options::{Options, Timestamp};
use super::preset::{Algorithm, Encoding, Part, Place, SecretForm, Source, Time, Unit};

/// What `hmac` is set to.
pub(super) struct Custom {
    pub(super) layout: Layout,
    pub(super) algorithm: Algorithm,
    pub(super) secret: SecretForm,
}

/// The layout of `hmac`.
pub(super) fn layout(options: &Options) -> Result<Custom, InvalidVerifier> {
    let separator = options.separator.as_deref().map(single).transpose()?;
    let timestamp = options.timestamp.as_ref().map(time).transpose()?;
    let message = message(options.signed.as_deref().unwrap_or("{body}"))?;
    let id = source("id", options.id.as_deref())?;
    check_layout(separator, timestamp.as_ref(), &message, id.as_ref())?;
    let prefix = options.prefix.clone().unwrap_or_default();
    Ok(Custom {
        algorithm: choice("hash", options.hash.as_deref(), &HASHES)?,
        secret: choice(
            "secret_encoding",
            options.secret_encoding.as_deref(),
            &SECRETS,
        )?,
        layout: Layout {
            signature: Source::Header(header(options)?),
            separator,
            prefix,
            encoding: choice("encoding", options.encoding.as_deref(), &ENCODINGS)?,
            message,
            timestamp,
            tolerance_seconds: options.tolerance_seconds.unwrap_or(300),
            id,
        },
    })
}

/// The header of `hmac` and `token`.
pub(super) fn header(options: &Options) -> Result<String, InvalidVerifier> {
    match &options.header {
        Some(name) => header_name("header", name),
        None => Err(InvalidVerifier::new(
            "header",
            "it is missing; name the header with the signature or token, such as X-Signature",
        )),
    }
}

/// `header:NAME` or `body:PATH`.
pub(super) fn source(
    field: &'static str,
    text: Option<&str>,
) -> Result<Option<Source>, InvalidVerifier> {
    let Some(text) = text else { return Ok(None) };
    match text.split_once(':') {
        Some(("header", name)) => Ok(Some(Source::Header(header_name(field, name)?))),
        Some(("body", path)) if !path.is_empty() => Ok(Some(Source::Body(path.to_owned()))),
        _ => Err(InvalidVerifier::new(
            field,
            "it is neither `header:NAME` nor `body:PATH`, such as `header:X-Delivery` or `body:data.id`",
        )),
    }
}

/// The first of each is the default.
const HASHES: [(&str, Algorithm); 4] = [
    ("sha256", Algorithm::HmacSha256),
    ("sha1", Algorithm::HmacSha1),
    ("sha384", Algorithm::HmacSha384),
    ("sha512", Algorithm::HmacSha512),
];
const ENCODINGS: [(&str, Encoding); 2] = [("hex", Encoding::Hex), ("base64", Encoding::Base64)];
const SECRETS: [(&str, SecretForm); 3] = [
    ("text", SecretForm::Text),
    ("hex", SecretForm::Hex),
    ("base64", SecretForm::Base64),
];
const UNITS: [(&str, Unit); 3] = [
    ("s", Unit::Seconds),
    ("ms", Unit::Milliseconds),
    ("rfc3339", Unit::Rfc3339),
];

fn choice<T: Copy>(
    field: &'static str,
    given: Option<&str>,
    of: &[(&'static str, T)],
) -> Result<T, InvalidVerifier> {
    let same = |(name, _): &&(&str, T)| given.is_none_or(|given| given == *name);
    let names = || {
        of.iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    match of.iter().find(same) {
        Some((_, value)) => Ok(*value),
        None => Err(InvalidVerifier::new(
            field,
            format!("it is none of {}", names()),
        )),
    }
}

fn check_layout(
    separator: Option<char>,
    timestamp: Option<&Time>,
    message: &[Part],
    id: Option<&Source>,
) -> Result<(), InvalidVerifier> {
    let signed = |part| message.contains(&part);
    let of_headers =
        timestamp.is_some_and(|time| !matches!(time.place, Place::Source(Source::Body(_))));
    let in_part = timestamp.is_some_and(|time| matches!(time.place, Place::Part(_)));
    let wrong = if !signed(Part::Body) {
        (
            "signed",
            "it has no {body}, so that any body would be believed",
        )
    } else if signed(Part::Timestamp) && timestamp.is_none() {
        (
            "signed",
            "it has {ts}; set `timestamp` to where that stands",
        )
    } else if signed(Part::Id) && id.is_none() {
        ("signed", "it has {id}; set `id` to where that stands")
    } else if of_headers && !signed(Part::Timestamp) {
        (
            "timestamp",
            "`signed` has no {ts}, so that anybody could change it; add it or leave it out",
        )
    } else if in_part && separator.is_none() {
        (
            "separator",
            "it is missing; set the character between the parts of the header, such as `,`",
        )
    } else {
        return Ok(());
    };
    Err(InvalidVerifier::new(wrong.0, wrong.1))
}

fn header_name(field: &'static str, name: &str) -> Result<String, InvalidVerifier> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(InvalidVerifier::new(
            field,
            "it is not the name of a header, such as X-Signature",
        ));
    }
    Ok(name.to_owned())
}

fn single(text: &str) -> Result<char, InvalidVerifier> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) => Ok(character),
        _ => Err(InvalidVerifier::new(
            "separator",
            "it is not one character, such as `,`",
        )),
    }
}

fn time(timestamp: &Timestamp) -> Result<Time, InvalidVerifier> {
    let place = match (&timestamp.header, &timestamp.part, &timestamp.body) {
        (Some(name), None, None) => Place::Source(Source::Header(header_name("timestamp", name)?)),
        (None, Some(prefix), None) if !prefix.is_empty() => Place::Part(prefix.clone()),
        (None, None, Some(path)) if !path.is_empty() => Place::Source(Source::Body(path.clone())),
        _ => {
            return Err(InvalidVerifier::new(
                "timestamp",
                "it needs one of `header`, `part` and `body`, such as { header = \"X-Timestamp\" }",
            ));
        }
    };
    let unit = choice("timestamp", timestamp.unit.as_deref(), &UNITS)?;
    Ok(Time { place, unit })
}

/// `{ts}.{body}` as parts. Braces around anything but lower-case letters are text.
fn message(signed: &str) -> Result<Vec<Part>, InvalidVerifier> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = signed;
    while let Some(next) = rest.chars().next() {
        let name = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let placeholder = name.filter(|(name, _)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase())
        });
        let Some((name, after)) = placeholder else {
            text.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        if !text.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut text)));
        }
        parts.push(match name {
            "body" => Part::Body,
            "ts" => Part::Timestamp,
            "id" => Part::Id,
            "url" => Part::Url,
            "method" => Part::Method,
            _ => {
                return Err(InvalidVerifier::new(
                    "signed",
                    "it has an unknown placeholder; known are {body}, {ts}, {id}, {url} and {method}",
                ));
            }
        });
        rest = after;
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}
