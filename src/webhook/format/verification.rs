//! `[verify]`: how deliveries are verified.
//!
//! **Invariant**: a field that is extended and not named stays as it is.

use base::tree::{Data, Node};

use super::reader::{Reader, choice, pairs, text_of, wrong};
use super::{FormatError, places};
use crate::preset::{
    ALGORITHMS, BodyHash, Digest, Encoding, Preset, SecretForm, Unit, Verification,
};
use crate::template::{Braces, Template};

pub(crate) const ENCODINGS: [(&str, Encoding); 3] = [
    ("hex", Encoding::Hex),
    ("base64", Encoding::Base64),
    ("base64url", Encoding::Base64Url),
];
pub(crate) const SECRET_FORMS: [(&str, SecretForm); 5] = [
    ("text", SecretForm::Text),
    ("hex", SecretForm::Hex),
    ("base64", SecretForm::Base64),
    ("base64url", SecretForm::Base64Url),
    ("whsec", SecretForm::Whsec),
];
pub(crate) const UNITS: [(&str, Unit); 3] = [
    ("s", Unit::Seconds),
    ("ms", Unit::Milliseconds),
    ("rfc3339", Unit::Rfc3339),
];
pub(crate) const DIGESTS: [(&str, Digest); 4] = [
    ("sha256", Digest::Sha256),
    ("sha1", Digest::Sha1),
    ("sha384", Digest::Sha384),
    ("sha512", Digest::Sha512),
];

impl Default for Verification {
    fn default() -> Verification {
        Verification {
            algorithm: ALGORITHMS[0].1,
            signature: Vec::new(),
            separator: None,
            prefix: String::new(),
            encoding: Encoding::Hex,
            signed: Template::of_body(),
            unsigned_body: false,
            timestamp: Vec::new(),
            unit: Unit::Seconds,
            tolerance_seconds: 300,
            in_step: false,
            by_secret: Vec::new(),
            secret_encoding: SecretForm::Text,
            secret_prefix: String::new(),
            body_hash: None,
            claims: Vec::new(),
        }
    }
}

pub(super) fn read(node: &Node, preset: &mut Preset) -> Result<(), FormatError> {
    let mut verify = preset.verify.take().unwrap_or_default();
    let mut reader = Reader::of(node, "verify.");
    reader.choice("algorithm", &ALGORITHMS, &mut verify.algorithm)?;
    reader.set("signature", |node| {
        places(node).map(|of| verify.signature = of)
    })?;
    reader.set("separator", |node| {
        let text = text_of(node)?;
        let mut characters = text.chars();
        verify.separator = characters.next();
        match characters.next().is_some() || verify.separator.is_none() {
            true => Err(wrong(node, "one character, such as \",\"")),
            false => Ok(()),
        }
    })?;
    reader.text("prefix", &mut verify.prefix)?;
    reader.choice("encoding", &ENCODINGS, &mut verify.encoding)?;
    reader.set("signed", |node| template(node).map(|of| verify.signed = of))?;
    reader.boolean("unsigned_body", &mut verify.unsigned_body)?;
    reader.set("timestamp", |node| {
        places(node).map(|of| verify.timestamp = of)
    })?;
    reader.choice("timestamp_unit", &UNITS, &mut verify.unit)?;
    reader.number("tolerance_seconds", &mut verify.tolerance_seconds)?;
    reader.boolean("in_step", &mut verify.in_step)?;
    reader.set("by_secret", |node| {
        verify.by_secret = pairs(node, text_of)?;
        Ok(())
    })?;
    reader.choice(
        "secret_encoding",
        &SECRET_FORMS,
        &mut verify.secret_encoding,
    )?;
    reader.text("secret_prefix", &mut verify.secret_prefix)?;
    reader.set("body_hash", |node| {
        body_hash(node).map(|of| verify.body_hash = Some(of))
    })?;
    reader.set("claims", |node| {
        verify.claims = pairs(node, template)?;
        Ok(())
    })?;
    reader.finish()?;
    preset.verify = Some(verify);
    Ok(())
}

pub(super) fn template(node: &Node) -> Result<Template, FormatError> {
    let text = text_of(node)?;
    Template::parse(&text, Braces::Strict).map_err(|message| FormatError::new(node.line, message))
}

fn body_hash(node: &Node) -> Result<BodyHash, FormatError> {
    let mut hash = BodyHash {
        claim: String::new(),
        hash: Digest::Sha256,
        encoding: Encoding::Hex,
    };
    let mut reader = Reader::of(node, "body_hash.");
    reader.text("claim", &mut hash.claim)?;
    reader.choice("hash", &DIGESTS, &mut hash.hash)?;
    reader.set("encoding", |node| {
        choice(node, &ENCODINGS).map(|of| hash.encoding = of)
    })?;
    reader.finish()?;
    match (hash.claim.is_empty(), &node.data) {
        (false, Data::Table(_)) => Ok(hash),
        _ => Err(wrong(
            node,
            "`claim`, the name of the claim with the digest of the body",
        )),
    }
}
