//! The answer to a question of a tool, as its preset describes it.
//!
//! **Invariant**: what is echoed is plain text of bounded length; what is signed is a plain token.

use serde_json::Value;

use super::{Challenge, ECHO_LEN_MAX, JSON, TEXT, TOKEN_LEN_MAX, is_plain_token, text_at};
use crate::key::encode;
use crate::place::Place;
use crate::preset::{AnswerBody, Handshake, HandshakeCheck};
use crate::template::{Braces, Piece, Template};
use crate::{Delivery, Refused, Verifier, layout};

/// The answer to a question that was checked.
pub(super) fn answered(
    one: &Handshake,
    delivery: &Delivery<'_>,
    verifier: Option<&Verifier>,
) -> Result<Challenge, Refused> {
    let filled = |template: &Template| filled(template, one, delivery, verifier);
    let mut challenge = Challenge::empty(one.answer.status);
    match &one.answer.body {
        None => {}
        Some(AnswerBody::Text(template)) => {
            challenge.body = filled(template)?;
            challenge.content_type = Some(TEXT.into());
            let nosniff = ("X-Content-Type-Options".to_owned(), "nosniff".to_owned());
            challenge.headers.push(nosniff);
        }
        Some(AnswerBody::Json(json)) => {
            challenge.body = filled_json(json, &filled)?.to_string();
            challenge.content_type = Some(JSON.into());
        }
    }
    for (name, template) in &one.answer.headers {
        let value = filled(template)?;
        if !value
            .bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic())
        {
            return Err(Refused::body(
                "the text to echo in a header is not visible ASCII",
            ));
        }
        match name.eq_ignore_ascii_case("content-type") {
            true => challenge.content_type = Some(value.into()),
            false => challenge.headers.push((name.clone(), value)),
        }
    }
    Ok(challenge)
}

fn filled_json(
    json: &Value,
    filled: &dyn Fn(&Template) -> Result<String, Refused>,
) -> Result<Value, Refused> {
    Ok(match json {
        Value::String(text) => match Template::parse(text, Braces::Strict) {
            Ok(template) => filled(&template)?.into(),
            Err(_) => json.clone(),
        },
        Value::Array(values) => {
            let values = values.iter().map(|value| filled_json(value, filled));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let fields = (fields.iter())
                .map(|(name, value)| Ok((name.clone(), filled_json(value, filled)?)));
            Value::Object(fields.collect::<Result<_, Refused>>()?)
        }
        other => other.clone(),
    })
}

fn filled(
    template: &Template,
    one: &Handshake,
    delivery: &Delivery<'_>,
    verifier: Option<&Verifier>,
) -> Result<String, Refused> {
    let signs = one.answer.signs();
    let mut text = String::new();
    for piece in &template.pieces {
        match piece {
            Piece::Text(plain) => text.push_str(plain),
            Piece::At(place) => text.push_str(&echoed(place, one, delivery, signs)?),
            Piece::Signed(encoding, place) => {
                let token = text_at(place, delivery).filter(|token| is_plain_token(token));
                let key = verifier.and_then(Verifier::key);
                let tag = token.and_then(|token| key?.sign(&[token.as_bytes().into()]));
                let tag = tag.ok_or_else(|| no_plain_token(place))?;
                text.push_str(&encode(&tag, *encoding));
            }
            _ => {}
        }
    }
    Ok(text)
}

/// A text of the sender, as it is given back. Markup in it could otherwise run in a browser as a page of this address.
fn echoed(
    place: &Place,
    one: &Handshake,
    delivery: &Delivery<'_>,
    signs: bool,
) -> Result<String, Refused> {
    let Some(text) = text_at(place, delivery) else {
        return Err(no_text(place));
    };
    if text.len() > ECHO_LEN_MAX {
        return Err(Refused::body(format!(
            "the text to echo has more than {ECHO_LEN_MAX} bytes"
        )));
    }
    let is_for_known = matches!(one.check, HandshakeCheck::VerifyToken(_));
    if (signs || is_for_known) && !is_plain_token(&text) {
        return Err(no_plain_token(place));
    }
    if one.check == HandshakeCheck::None && text.chars().any(char::is_control) {
        return Err(Refused::body("the text to echo has a control character"));
    }
    Ok(text)
}

pub(super) fn no_text(place: &Place) -> Refused {
    match place {
        Place::Query(name) => Refused::body(format!("the URL has no parameter {name}")),
        place => Refused::body(format!("the request has no text at {}", place.written())),
    }
}

fn no_plain_token(place: &Place) -> Refused {
    Refused::body(format!(
        "the handshake's {} is not 1 to {TOKEN_LEN_MAX} letters, digits, `-` and `_`",
        layout::shown(place)
    ))
}
