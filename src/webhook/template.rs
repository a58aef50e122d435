//! Texts with places in braces: what is signed, and what is answered.
//!
//! **Invariant**: what is put in is what came. Nothing in it is taken for a place.

use super::place::Place;
use super::preset::Encoding;

/// Pieces of one text.
const PIECES_MAX: usize = 64;

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// The body as it came.
    Body,
    /// The timestamp as it came.
    Time,
    Id,
    /// The URL that the sender was given, with the query.
    Url,
    /// The URL with some escapes undone, as HubSpot has it.
    UrlUnescaped,
    /// The path of the URL, with the query.
    UrlPath,
    Method,
    Secret,
    /// The SHA-256 of the body.
    BodyDigest(Encoding),
    /// What stands at a place.
    At(Place),
    /// What is set of an option of the preset.
    Option(String),
    /// In answers: a text that stands at a place, signed.
    Signed(Encoding, Place),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) pieces: Vec<Piece>,
    written: String,
}

/// How braces are read around what is no place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Braces {
    /// A misspelled place would otherwise be signed as text.
    Strict,
    /// As text, unless a lower-case letter follows.
    Text,
}

impl Template {
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn parse(text: &str, braces: Braces) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if braces == Braces::Strict && (rest.starts_with("{{") || rest.starts_with("}}")) {
                plain.push(next);
                rest = &rest[2..];
                continue;
            }
            let inside = (rest.strip_prefix('{')).and_then(|rest| rest.split_once('}'));
            let named = inside.filter(|(name, _)| braces == Braces::Strict || is_name(name));
            match named {
                Some((name, after)) => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(piece(name)?);
                    rest = after;
                }
                None if braces == Braces::Strict && matches!(next, '{' | '}') => {
                    return Err(
                        "it has a brace without its pair; write `{{` or `}}` for a brace"
                            .to_owned(),
                    );
                }
                None => {
                    plain.push(next);
                    rest = &rest[next.len_utf8()..];
                }
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        if pieces.len() > PIECES_MAX {
            return Err(format!("it has more than {PIECES_MAX} pieces"));
        }
        let written = text.to_owned();
        Ok(Template { pieces, written })
    }

    /// `{body}`
    pub(crate) fn of_body() -> Template {
        Template {
            pieces: vec![Piece::Body],
            written: "{body}".to_owned(),
        }
    }

    pub(crate) fn written(&self) -> &str {
        &self.written
    }

    pub(crate) fn has(&self, piece: &Piece) -> bool {
        self.pieces.contains(piece)
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::At(place) | Piece::Signed(_, place) => Some(place),
            _ => None,
        })
    }

    /// Whether the body, or its digest, is in it.
    pub(crate) fn covers_body(&self) -> bool {
        (self.pieces.iter()).any(|piece| matches!(piece, Piece::Body | Piece::BodyDigest(_)))
    }

    pub(crate) fn has_url(&self) -> bool {
        let url =
            |piece: &Piece| matches!(piece, Piece::Url | Piece::UrlUnescaped | Piece::UrlPath);
        self.pieces.iter().any(url)
    }
}

/// Whether this is meant as a place, and not as text in braces.
fn is_name(text: &str) -> bool {
    const PLACES: [&str; 5] = ["header:", "query:", "body:", "item:", "sha256:"];
    let word = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let is_word = !text.is_empty() && text.bytes().all(word);
    is_word || PLACES.iter().any(|place| text.starts_with(place))
}

fn piece(name: &str) -> Result<Piece, String> {
    Ok(match name {
        "body" => Piece::Body,
        "ts" => Piece::Time,
        "id" => Piece::Id,
        "url" => Piece::Url,
        "url_unescaped" => Piece::UrlUnescaped,
        "path" => Piece::UrlPath,
        "method" => Piece::Method,
        "secret" => Piece::Secret,
        "sha256:hex" => Piece::BodyDigest(Encoding::Hex),
        "sha256:base64" => Piece::BodyDigest(Encoding::Base64),
        _ => {
            if let Some(place) = name.strip_prefix("hmac:hex:") {
                Piece::Signed(Encoding::Hex, Place::parse(place)?)
            } else if let Some(place) = name.strip_prefix("hmac:base64:") {
                Piece::Signed(Encoding::Base64, Place::parse(place)?)
            } else if name.contains(':') {
                Piece::At(Place::parse(name)?)
            } else if !name.is_empty()
                && (name.bytes()).all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            {
                Piece::Option(name.to_owned())
            } else {
                return Err(format!(
                    "`{{{}}}` is not a place; write `{{{{` or `}}}}` for a brace",
                    name.escape_debug()
                ));
            }
        }
    })
}
