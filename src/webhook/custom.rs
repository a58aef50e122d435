//! The `[verify]` of a preset with what is set of a key over it, as a [`Layout`].
//!
//! [`Verifier::new`](super::Verifier::new) is the one caller.
//!
//! **Invariant**: a layout covers the body, and names a place for all that it says is signed.

use super::format::verification::{DIGESTS, ENCODINGS, SECRET_FORMS, UNITS};
use super::format::{self};
use super::layout::Layout;
use super::options::{Options, Timestamp};
use super::path::Path;
use super::place::{Place, Source, header_name};
use super::preset::{ALGORITHMS, Algorithm, Preset, Verification};
use super::template::{Braces, Template};
use super::{InvalidVerifier, preset};

/// The layout for a secret: some secrets are checked as another preset says.
pub(super) fn layout(
    own: &Preset,
    options: &Options,
    secret: &str,
) -> Result<Layout, InvalidVerifier> {
    let mut verify = own.verify.clone().unwrap_or_default();
    if let Some((_, name)) = (verify.by_secret.iter()).find(|(start, _)| secret.starts_with(start))
        && let Some(other) = preset(name).and_then(|other| other.verify.clone())
    {
        verify = other;
    }
    set(&mut verify, own, options)?;
    let id = match source("id", options.id.as_deref())? {
        None => own.id.clone(),
        set => set,
    };
    let names: Vec<&str> = own
        .options
        .iter()
        .map(|option| option.name.as_str())
        .collect();
    format::verification(&verify, id.as_ref(), &names)
        .map_err(|(field, message)| InvalidVerifier::new(field, message))?;
    let options = options.details().into_iter();
    Ok(Layout {
        verify,
        id,
        items: own.items.clone(),
        options: options
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .collect(),
    })
}

fn set(verify: &mut Verification, own: &Preset, options: &Options) -> Result<(), InvalidVerifier> {
    if let Some(seconds) = options.tolerance_seconds {
        verify.tolerance_seconds = seconds;
    }
    if let Some(name) = &options.algorithm {
        verify.algorithm = choice("algorithm", name, &ALGORITHMS)?;
    }
    if let Some(name) = &options.hash {
        verify.algorithm = Algorithm::Hmac(choice("hash", name, &DIGESTS)?);
    }
    if let Some(text) = &options.signature {
        let place = Place::parse(text);
        verify.signature =
            vec![place.map_err(|message| InvalidVerifier::new("signature", message))?];
    }
    if let Some(name) = &options.header {
        verify.signature = vec![Place::Header(header("header", name)?)];
    }
    if verify.signature.is_empty()
        || (own.is_generic() && options.header.is_none() && options.signature.is_none())
    {
        return Err(InvalidVerifier::new(
            "header",
            "it is missing; name the header with the signature or token, such as X-Signature",
        ));
    }
    if let Some(prefix) = &options.prefix {
        verify.prefix.clone_from(prefix);
    }
    if let Some(text) = &options.separator {
        verify.separator = Some(single(text)?);
    }
    if let Some(text) = &options.signed {
        let signed = Template::parse(text, Braces::Text);
        verify.signed = signed.map_err(|message| InvalidVerifier::new("signed", message))?;
    }
    if let Some(unsigned) = options.unsigned_body {
        verify.unsigned_body = unsigned;
    }
    if let Some(name) = &options.encoding {
        verify.encoding = choice("encoding", name, &ENCODINGS)?;
    }
    if let Some(name) = &options.secret_encoding {
        verify.secret_encoding = choice("secret_encoding", name, &SECRET_FORMS)?;
    }
    if let Some(timestamp) = &options.timestamp {
        verify.timestamp = vec![time(timestamp)?];
        verify.unit = match &timestamp.unit {
            Some(unit) => choice("timestamp", unit, &UNITS)?,
            None => UNITS[0].1,
        };
    }
    Ok(())
}

/// `header:NAME` or `body:PATH`.
pub(super) fn source(
    field: &'static str,
    text: Option<&str>,
) -> Result<Option<Source>, InvalidVerifier> {
    let Some(text) = text else { return Ok(None) };
    match Place::parse(text) {
        Ok(Place::Part(_)) | Err(_) => Err(InvalidVerifier::new(
            field,
            "expected `header:NAME` or `body:PATH`, such as `header:X-Delivery` or `body:data.id`",
        )),
        Ok(place) => Ok(Some(Source::of(place))),
    }
}

fn choice<T: Copy>(
    field: &'static str,
    given: &str,
    of: &[(&'static str, T)],
) -> Result<T, InvalidVerifier> {
    match of.iter().find(|(name, _)| given == *name) {
        Some((_, value)) => Ok(*value),
        None => {
            let names: Vec<&str> = of.iter().map(|(name, _)| *name).collect();
            let message = format!("expected one of {}", names.join(", "));
            Err(InvalidVerifier::new(field, message))
        }
    }
}

fn header(field: &'static str, name: &str) -> Result<String, InvalidVerifier> {
    header_name(name).map_err(|_| {
        InvalidVerifier::new(field, "expected the name of a header, such as X-Signature")
    })
}

fn single(text: &str) -> Result<char, InvalidVerifier> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) => Ok(character),
        _ => Err(InvalidVerifier::new(
            "separator",
            "expected one character, such as `,`",
        )),
    }
}

fn time(timestamp: &Timestamp) -> Result<Place, InvalidVerifier> {
    match (&timestamp.header, &timestamp.part, &timestamp.body) {
        (Some(name), None, None) => Ok(Place::Header(header("timestamp", name)?)),
        (None, Some(prefix), None) if !prefix.is_empty() => Ok(Place::Part(prefix.clone())),
        (None, None, Some(path)) if !path.is_empty() => Path::parse(path)
            .map(Place::Body)
            .map_err(|message| InvalidVerifier::new("timestamp", message)),
        _ => Err(InvalidVerifier::new(
            "timestamp",
            "it needs one of `header`, `part` and `body`, such as { header = \"X-Timestamp\" }",
        )),
    }
}
