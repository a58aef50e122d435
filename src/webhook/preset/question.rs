//! What a tool asks before or between deliveries, as its preset says it.
//!
//! **Invariant**: a question is data; [`handshake`](crate::handshake) answers it.

use crate::place::Place;
use crate::template::{Braces, Piece, Template};

/// What a tool asks before or between deliveries.
#[derive(Clone, Debug, PartialEq)]
pub struct Handshake {
    /// The method of the request.
    pub(crate) method: String,
    /// What stands at places; all must hold. `None`: something stands there.
    pub(crate) when: Vec<(Place, Option<String>)>,
    pub(crate) check: HandshakeCheck,
    /// Where a secret stands that the tool makes.
    pub(crate) secret: Option<Place>,
    pub(crate) answer: HandshakeAnswer,
    /// SNS' word that a subscription begins or ends, signed in a layout of its own.
    pub(crate) subscription: bool,
    pub(crate) sample: Option<HandshakeSample>,
}

/// What is checked of a question before it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeCheck {
    /// The signature of a delivery; for tools without one, the key.
    Signature,
    /// The same, if there is one.
    SignatureIfPresent,
    None,
    /// The word that was agreed on stands at this place.
    VerifyToken(Place),
}

/// What a tool's question is answered with.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HandshakeAnswer {
    pub(crate) status: u16,
    pub(crate) body: Option<AnswerBody>,
    pub(crate) headers: Vec<(String, Template)>,
}

/// The body of such an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AnswerBody {
    Text(Template),
    /// JSON whose texts are templates; they are read when the preset is.
    Json(serde_json::Value),
}

impl HandshakeAnswer {
    pub(crate) fn templates(&self) -> Vec<Template> {
        let mut all: Vec<Template> = (self.headers.iter())
            .map(|(_, template)| template.clone())
            .collect();
        match &self.body {
            Some(AnswerBody::Text(template)) => all.push(template.clone()),
            Some(AnswerBody::Json(json)) => templates_of(json, &mut all),
            None => {}
        }
        all
    }

    /// Whether it signs a text for whoever asks. A delivery must then not look like such a text.
    pub(crate) fn signs(&self) -> bool {
        let signs = |piece: &Piece| matches!(piece, Piece::Signed(..));
        (self.templates().iter()).any(|template| template.pieces.iter().any(signs))
    }
}

fn templates_of(json: &serde_json::Value, all: &mut Vec<Template>) {
    use serde_json::Value;
    match json {
        // It was read once, so it can be read.
        Value::String(text) => all.extend(Template::parse(text, Braces::Strict)),
        Value::Array(values) => values.iter().for_each(|value| templates_of(value, all)),
        Value::Object(fields) => fields.values().for_each(|value| templates_of(value, all)),
        _ => {}
    }
}

/// A question of a tool as `preset test` asks it, and what is expected.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HandshakeSample {
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) status: u16,
    pub(crate) text: Option<String>,
    pub(crate) json: Option<serde_json::Value>,
    pub(crate) answer_headers: Vec<(String, String)>,
}
