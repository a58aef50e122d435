//! `[[handshakes]]`: what a tool asks before or between deliveries.
//!
//! **Invariant**: no answer repeats a header that holds credentials.

use base::tree::{Data, Node};

use super::reader::{Reader, json, pairs, scalar_text, text_of, wrong};
use super::verification::template;
use super::{FormatError, place};
use crate::place::{Place, header_name};
use crate::preset::{AnswerBody, Handshake, HandshakeAnswer, HandshakeCheck, HandshakeSample};

const METHODS: [&str; 4] = ["POST", "GET", "HEAD", "OPTIONS"];
/// Headers that are no part of an answer.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

pub(super) fn read(node: &Node) -> Result<Handshake, FormatError> {
    let mut one = Handshake {
        method: METHODS[0].to_owned(),
        when: Vec::new(),
        check: HandshakeCheck::Signature,
        secret: None,
        answer: HandshakeAnswer {
            status: 200,
            ..HandshakeAnswer::default()
        },
        subscription: false,
        sample: None,
    };
    let mut reader = Reader::of(node, "handshakes.");
    reader.text("method", &mut one.method)?;
    reader.set("when", |node| when(node).map(|of| one.when = of))?;
    reader.set("secret", |node| place(node).map(|of| one.secret = Some(of)))?;
    if one.secret.is_some() {
        one.check = HandshakeCheck::None;
    }
    reader.set("check", |node| check(node).map(|of| one.check = of))?;
    reader.set("answer", |node| answer(node).map(|of| one.answer = of))?;
    reader.boolean("subscription", &mut one.subscription)?;
    reader.set("sample", |node| {
        sample(node).map(|of| one.sample = Some(of))
    })?;
    reader.finish()?;
    if !METHODS.contains(&one.method.as_str()) {
        let message = format!("handshakes.method: expected one of {}", METHODS.join(", "));
        return Err(FormatError::new(node.line, message));
    }
    let echoed = |place: &Place| {
        place.header().is_some_and(|name| {
            CREDENTIALS
                .iter()
                .any(|other| name.eq_ignore_ascii_case(other))
        })
    };
    let templates = one.answer.templates();
    if templates
        .iter()
        .flat_map(|template| template.places())
        .any(echoed)
    {
        return Err(FormatError::new(
            node.line,
            "handshakes.answer would reveal a header with credentials; remove its placeholder",
        ));
    }
    Ok(one)
}

fn when(node: &Node) -> Result<Vec<(Place, Option<String>)>, FormatError> {
    let fields = pairs(node, |node| Ok((scalar_text(node)?, node.line)))?;
    fields
        .into_iter()
        .map(|(written, (value, line))| {
            let place =
                Place::parse(&written).map_err(|message| FormatError::new(line, message))?;
            Ok((place, (value != "*").then_some(value)))
        })
        .collect()
}

fn check(node: &Node) -> Result<HandshakeCheck, FormatError> {
    if let Some(word) = node.get("verify_token") {
        let mut reader = Reader::of(node, "check.");
        reader.skip(&["verify_token"]);
        reader.finish()?;
        return place(word).map(HandshakeCheck::VerifyToken);
    }
    match &node.data {
        Data::Text(text) => match text.as_str() {
            "signature" => Ok(HandshakeCheck::Signature),
            "signature-if-present" => Ok(HandshakeCheck::SignatureIfPresent),
            "none" => Ok(HandshakeCheck::None),
            _ => Err(wrong(
                node,
                "\"signature\", \"signature-if-present\", \"none\" or { verify_token = \"query:…\" }",
            )),
        },
        _ => Err(wrong(node, "a word, or { verify_token = \"query:…\" }")),
    }
}

fn answer(node: &Node) -> Result<HandshakeAnswer, FormatError> {
    let mut answer = HandshakeAnswer {
        status: 200,
        ..HandshakeAnswer::default()
    };
    let mut reader = Reader::of(node, "answer.");
    reader.set("status", |node| status(node).map(|of| answer.status = of))?;
    let mut body = None;
    reader.set("text", |node| {
        body = Some(AnswerBody::Text(template(node)?));
        Ok(())
    })?;
    reader.set("json", |node| {
        body = Some(AnswerBody::Json(json(node)?));
        templates_in(node)
    })?;
    reader.set("headers", |node| {
        answer.headers = pairs(node, template)?;
        (answer.headers.iter()).try_for_each(|(name, _)| {
            header_name(name)
                .map(drop)
                .map_err(|message| FormatError::new(node.line, message))
        })
    })?;
    reader.finish()?;
    answer.body = body;
    Ok(answer)
}

/// The texts of JSON are templates, each of them. They are read here, so that a mistake is found with the file and not
/// with a question.
fn templates_in(node: &Node) -> Result<(), FormatError> {
    match &node.data {
        Data::Text(_) => template(node).map(drop),
        Data::List(nodes) => nodes.iter().try_for_each(templates_in),
        Data::Table(entries) => entries
            .iter()
            .try_for_each(|entry| templates_in(&entry.node)),
        _ => Ok(()),
    }
}

fn status(node: &Node) -> Result<u16, FormatError> {
    match node.data {
        Data::Integer(status @ 200..=299) => Ok(u16::try_from(status).unwrap_or(200)),
        _ => Err(wrong(node, "a status from 200 to 299")),
    }
}

fn sample(node: &Node) -> Result<HandshakeSample, FormatError> {
    let text = |node: &Node| text_of(node);
    let mut sample = HandshakeSample {
        status: 200,
        ..HandshakeSample::default()
    };
    let mut reader = Reader::of(node, "sample.");
    reader.set("query", |node| {
        pairs(node, text).map(|of| sample.query = of)
    })?;
    reader.set("headers", |node| {
        pairs(node, text).map(|of| sample.headers = of)
    })?;
    reader.text("body", &mut sample.body)?;
    reader.set("expect", |node| {
        let mut reader = Reader::of(node, "expect.");
        reader.set("status", |node| status(node).map(|of| sample.status = of))?;
        reader.optional("text", &mut sample.text)?;
        reader.set("json", |node| json(node).map(|of| sample.json = Some(of)))?;
        reader.set("headers", |node| {
            pairs(node, text).map(|of| sample.answer_headers = of)
        })?;
        reader.finish()
    })?;
    reader.finish()?;
    Ok(sample)
}
