//! `[[samples]]` and `[[vectors]]`: deliveries by which a preset is tried.
//!
//! **Invariant**: a body stands in the file itself, so that a preset is one file.

use base::tree::{Data, Node};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::FormatError;
use super::reader::{Reader, json, missing, pairs, text_of, wrong};
use crate::preset::{Expectation, Sample, SentDelivery};

fn text(node: &Node) -> Result<String, FormatError> {
    text_of(node)
}

pub(super) fn sample(node: &Node) -> Result<Sample, FormatError> {
    let mut sample = Sample {
        event: String::new(),
        body: String::new(),
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        expect: Expectation::default(),
    };
    let mut reader = Reader::of(node, "samples.");
    reader.text("event", &mut sample.event)?;
    reader.text("content_type", &mut sample.content_type)?;
    reader.set("headers", |node| {
        pairs(node, text).map(|of| sample.headers = of)
    })?;
    reader.text("body", &mut sample.body)?;
    reader.set("expect", |node| {
        expectation(node).map(|of| sample.expect = of)
    })?;
    reader.finish()?;
    match (sample.event.is_empty(), sample.body.is_empty()) {
        (true, _) => Err(missing(node, "event", "the name of the event")),
        (_, true) => Err(missing(node, "body", "the body that the provider sends")),
        _ => Ok(sample),
    }
}

fn expectation(node: &Node) -> Result<Expectation, FormatError> {
    let mut expect = Expectation::default();
    let (mut keys, mut removed) = (Vec::new(), Vec::new());
    let mut reader = Reader::of(node, "expect.");
    reader.texts("keys", &mut keys)?;
    reader.texts("removed", &mut removed)?;
    reader.boolean("ignored", &mut expect.ignored)?;
    reader.set("fields", |node| {
        pairs(node, json).map(|of| expect.fields = of)
    })?;
    reader.finish()?;
    expect.keys = node.get("keys").map(|_| keys);
    expect.removed = node.get("removed").map(|_| removed);
    Ok(expect)
}

pub(super) fn vector(node: &Node) -> Result<SentDelivery, FormatError> {
    let mut vector = SentDelivery {
        valid: true,
        ..SentDelivery::default()
    };
    let (mut body, mut encoded) = (None, None);
    let mut reader = Reader::of(node, "vectors.");
    reader.text("secret", &mut vector.secret)?;
    reader.set("now", |node| match node.data {
        Data::Integer(seconds @ 0..=253_402_300_799) => {
            vector.now = Some(seconds.unsigned_abs());
            Ok(())
        }
        _ => Err(wrong(node, "Unix seconds")),
    })?;
    reader.optional("method", &mut vector.method)?;
    reader.optional("url", &mut vector.url)?;
    reader.set("headers", |node| {
        pairs(node, text).map(|of| vector.headers = of)
    })?;
    reader.optional("body", &mut body)?;
    reader.optional("body_base64", &mut encoded)?;
    reader.set("options", |node| {
        pairs(node, text).map(|of| vector.options = of)
    })?;
    reader.boolean("valid", &mut vector.valid)?;
    reader.finish()?;
    vector.body = match (body, encoded) {
        (Some(body), None) => body.into_bytes(),
        (None, Some(encoded)) => (STANDARD.decode(encoded))
            .map_err(|_| FormatError::new(node.line, "body_base64 is not padded Base64"))?,
        _ => return Err(missing(node, "body", "either `body` or `body_base64`")),
    };
    match vector.secret.is_empty() {
        true => Err(missing(node, "secret", "the secret that signed it")),
        false => Ok(vector),
    }
}
