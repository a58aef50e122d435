//! What `Content-Type` and `Content-Encoding` say about a body. Read by the pipeline before the body.
//!
//! **Invariant**: a header that is not understood is refused with a sentence that says what to send, never ignored.

use super::shown;

/// The content codings that are taken, as `Accept-Encoding` says them.
pub const ENCODINGS: &str = "gzip, deflate, zstd";

/// The media types that are taken, for messages.
const TYPES: &str = "application/json, application/x-ndjson or application/x-www-form-urlencoded";

/// How a body is written, from the headers Content-Type and Content-Encoding. Known before the body is read. A body
/// that cannot be read is refused so before it is received.
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

/// Why the headers name no form. Each is a sentence for the caller that says what to send instead.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum FormError {
    /// The media type, or its charset; the status is 400.
    #[error("{0}")]
    Media(String),
    /// The content coding; the status is 415.
    #[error("{0}")]
    Encoding(String),
}

impl Form {
    /// The form of what must be JSON by its headers, the values as they came: `application/json` or any `*/*+json`, in
    /// UTF-8. Encodings are those of [`Form::of`].
    ///
    /// # Errors
    /// See [`FormError`].
    pub fn json(
        content_type: Option<&[u8]>,
        content_encoding: Option<&[u8]>,
    ) -> Result<Self, FormError> {
        check_json(content_type).map_err(FormError::Media)?;
        Ok(Self {
            media: Media::Json,
            encoding: encoding(content_encoding)?,
        })
    }

    /// The form that the headers declare; the values as they came, `None` if the header is absent.
    ///
    /// Media types are `application/json`, every `*/*+json`, `application/x-www-form-urlencoded`,
    /// `application/x-ndjson`, `application/ndjson`, `application/jsonl`, `text/plain` and none at all. Encodings are
    /// `identity`, `gzip`, `x-gzip`, `deflate` and `zstd`, one of them.
    ///
    /// # Errors
    /// See [`FormError`].
    pub fn of(
        content_type: Option<&[u8]>,
        content_encoding: Option<&[u8]>,
    ) -> Result<Self, FormError> {
        let text = String::from_utf8_lossy(content_type.unwrap_or_default());
        Ok(Self {
            media: media(&text).map_err(FormError::Media)?,
            encoding: encoding(content_encoding)?,
        })
    }
}

impl Form {
    /// Whether it is written as one of these media types is; of none, all. What turns out to be JSON is JSON, whatever it
    /// is called.
    pub fn is_of(self, types: &[String]) -> bool {
        let kind = |name: &str| match media(name) {
            Ok(Media::Text | Media::None) => Some(Media::Json),
            Ok(media) => Some(media),
            Err(_) => None,
        };
        let own = match self.media {
            Media::Text | Media::None => Media::Json,
            media => media,
        };
        types.is_empty() || types.iter().any(|name| kind(name) == Some(own))
    }
}

/// `application/json`, with or without parameters, or any type whose name ends in `+json`.
fn check_json(content_type: Option<&[u8]>) -> Result<(), String> {
    let Some(value) = content_type else {
        return Err(
            "the header Content-Type is missing; send `Content-Type: application/json`".to_owned(),
        );
    };
    let text = String::from_utf8_lossy(value);
    let (essence, parameters) = text.split_once(';').unwrap_or((&text, ""));
    let essence = essence.trim();
    if !essence.eq_ignore_ascii_case("application/json")
        && !is_json_suffixed(&essence.to_ascii_lowercase())
    {
        return Err(format!(
            "the header Content-Type is `{}`; send `Content-Type: application/json`",
            shown(essence)
        ));
    }
    check_charset(parameters)
}

fn media(content_type: &str) -> Result<Media, String> {
    let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let essence = essence.trim();
    let lower = essence.to_ascii_lowercase();
    let media = match lower.as_str() {
        "" => Media::None,
        "application/json" => Media::Json,
        "text/plain" => Media::Text,
        "application/x-www-form-urlencoded" => Media::Fields,
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Media::Lines,
        "multipart/form-data" => {
            return Err(
                "forms with files (multipart/form-data) are not accepted; configure the sender to send JSON with `Content-Type: application/json`"
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
    check_charset(parameters).map(|()| media)
}

/// Whether the parameters of a media type name no charset that UTF-8 does not cover. A body in another one would be
/// refused as damaged JSON, which does not say why.
fn check_charset(parameters: &str) -> Result<(), String> {
    let parameters = parameters
        .split(';')
        .filter_map(|part| part.split_once('='));
    for (name, value) in parameters {
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
    Ok(())
}

/// A structured syntax suffix of RFC 6839: `application/cloudevents+json`.
fn is_json_suffixed(essence: &str) -> bool {
    essence
        .strip_suffix("+json")
        .and_then(|name| name.split_once('/'))
        .is_some_and(|(kind, subtype)| !kind.is_empty() && !subtype.is_empty())
}

fn encoding(content_encoding: Option<&[u8]>) -> Result<Encoding, FormError> {
    let Some(value) = content_encoding else {
        return Ok(Encoding::Identity);
    };
    let text = String::from_utf8_lossy(value);
    let name = text.trim();
    let message = match name.to_ascii_lowercase().as_str() {
        "" | "identity" => return Ok(Encoding::Identity),
        "gzip" | "x-gzip" => return Ok(Encoding::Gzip),
        "deflate" => return Ok(Encoding::Deflate),
        "zstd" => return Ok(Encoding::Zstd),
        list if list.contains(',') => format!(
            "the header Content-Encoding is the list `{}`; compress the body once, with gzip, deflate or zstd",
            shown(name)
        ),
        _ => format!(
            "the header Content-Encoding is `{}`; compress the body with gzip, deflate or zstd, or leave the header out",
            shown(name)
        ),
    };
    Err(FormError::Encoding(message))
}
