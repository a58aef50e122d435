//! What `Content-Type` and `Content-Encoding` say about a body. Read by the webhook handler before the body.
//!
//! **Invariant**: a header that is not understood is refused with a sentence that says what to send, never ignored.

use super::shown;

/// The media types that are taken, for messages.
const TYPES: &str = "application/json, application/x-ndjson or application/x-www-form-urlencoded";

/// How a body is written, from the headers Content-Type and Content-Encoding. Known before the body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    pub(super) media: Media,
    pub(super) encoding: Encoding,
}

/// What the body is once it is decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    /// `text/plain`: must turn out to be JSON.
    Text,
    /// No Content-Type: must turn out to be JSON.
    None,
    /// `application/x-www-form-urlencoded`.
    Fields,
    /// NDJSON, also called JSON Lines.
    Lines,
}

/// How the body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    /// Zlib as RFC 9110 has it, or raw deflate as many send it.
    Deflate,
    Zstd,
}

impl Encoding {
    /// The name of the content coding, for messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
        }
    }
}

impl Form {
    /// JSON as it is.
    pub const JSON: Form = Form {
        media: Media::Json,
        encoding: Encoding::Identity,
    };

    /// The form that the headers declare; the values as they came, `None` if the header is absent.
    ///
    /// Media types are `application/json`, every `*/*+json`, `application/x-www-form-urlencoded`,
    /// `application/x-ndjson`, `application/ndjson`, `application/jsonl`, `text/plain` and none at all. Encodings are
    /// `identity`, `gzip`, `x-gzip`, `deflate` and `zstd`, one of them.
    ///
    /// # Errors
    /// A sentence for the caller that says what to send instead; the status is 400.
    pub fn of(
        content_type: Option<&[u8]>,
        content_encoding: Option<&[u8]>,
    ) -> Result<Self, String> {
        Ok(Self {
            media: media(&String::from_utf8_lossy(content_type.unwrap_or_default()))?,
            encoding: encoding(&String::from_utf8_lossy(
                content_encoding.unwrap_or_default(),
            ))?,
        })
    }
}

fn media(content_type: &str) -> Result<Media, String> {
    let mut parts = content_type.split(';');
    let essence = parts.next().unwrap_or_default().trim();
    let lower = essence.to_ascii_lowercase();
    let media = match lower.as_str() {
        "" => Media::None,
        "application/json" => Media::Json,
        "text/plain" => Media::Text,
        "application/x-www-form-urlencoded" => Media::Fields,
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Media::Lines,
        "multipart/form-data" => {
            return Err(
                "forms with files (multipart/form-data) cannot be taken; set the tool to send JSON with `Content-Type: application/json`"
                    .to_owned(),
            );
        }
        other if is_json_suffixed(other) => Media::Json,
        _ => {
            return Err(format!(
                "the header Content-Type is `{}`; send {TYPES}",
                shown(essence)
            ));
        }
    };
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        let value = value.trim().trim_matches('"');
        let known = ["utf-8", "utf8", "us-ascii", "ascii"];
        if name.trim().eq_ignore_ascii_case("charset")
            && !known.iter().any(|known| value.eq_ignore_ascii_case(known))
        {
            return Err(format!(
                "the header Content-Type names the charset `{}`; send UTF-8, with `charset=utf-8` or without a charset",
                shown(value)
            ));
        }
    }
    Ok(media)
}

/// A structured syntax suffix of RFC 6839: `application/cloudevents+json`.
fn is_json_suffixed(essence: &str) -> bool {
    essence
        .strip_suffix("+json")
        .and_then(|name| name.split_once('/'))
        .is_some_and(|(kind, subtype)| !kind.is_empty() && !subtype.is_empty())
}

fn encoding(content_encoding: &str) -> Result<Encoding, String> {
    let name = content_encoding.trim();
    match name.to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Encoding::Identity),
        "gzip" | "x-gzip" => Ok(Encoding::Gzip),
        "deflate" => Ok(Encoding::Deflate),
        "zstd" => Ok(Encoding::Zstd),
        list if list.contains(',') => Err(format!(
            "the header Content-Encoding is the list `{}`; compress the body once, with gzip, deflate or zstd",
            shown(name)
        )),
        _ => Err(format!(
            "the header Content-Encoding is `{}`; compress the body with gzip, deflate or zstd, or leave the header out",
            shown(name)
        )),
    }
}
