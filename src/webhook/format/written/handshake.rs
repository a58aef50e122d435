//! A handshake as a preset says it.
//!
//! **Invariant**: what is written here reads back as the same handshake; what is as usual is left out.

use serde_json::{Value, json};

use super::{Fields, pairs, texts};
use crate::place::Place;
use crate::preset::{AnswerBody, Handshake, HandshakeCheck, HandshakeSample};

pub(super) fn handshake(one: &Handshake) -> Value {
    let mut fields = Fields::default();
    fields.unless("method", one.method.as_str(), "POST");
    let when = one.when.iter().map(|(place, value)| {
        let value = value.as_deref().unwrap_or("*");
        (place.written(), Value::from(value))
    });
    fields.filled("when", Value::Object(when.collect()));
    fields.said("secret", one.secret.as_ref().map(Place::written));
    let usual = match one.secret {
        Some(_) => HandshakeCheck::None,
        None => HandshakeCheck::Signature,
    };
    if one.check != usual {
        fields.put("check", check(&one.check));
    }
    let mut answer = Fields::default();
    answer.unless("status", one.answer.status, 200);
    match &one.answer.body {
        Some(AnswerBody::Text(template)) => answer.put("text", template.written()),
        Some(AnswerBody::Json(json)) => answer.put("json", json.clone()),
        None => {}
    }
    let headers = pairs(&one.answer.headers, |value| value.written().into());
    answer.filled("headers", headers);
    fields.filled("answer", answer.done());
    fields.unless("subscription", one.subscription, false);
    fields.said("sample", one.sample.as_ref().map(question));
    fields.done()
}

fn check(check: &HandshakeCheck) -> Value {
    match check {
        HandshakeCheck::Signature => "signature".into(),
        HandshakeCheck::SignatureIfPresent => "signature-if-present".into(),
        HandshakeCheck::None => "none".into(),
        HandshakeCheck::VerifyToken(place) => json!({ "verify_token": place.written() }),
    }
}

fn question(sample: &HandshakeSample) -> Value {
    let mut expect = Fields::default();
    expect.unless("status", sample.status, 200);
    expect.said("text", sample.text.as_deref());
    expect.said("json", sample.json.clone());
    expect.filled("headers", texts(&sample.answer_headers));
    let mut fields = Fields::default();
    fields.filled("query", texts(&sample.query));
    fields.filled("headers", texts(&sample.headers));
    fields.filled("body", sample.body.as_str());
    fields.filled("expect", expect.done());
    fields.done()
}
