//! Questions of a tool, asked as their samples say.
//!
//! **Invariant**: a question that has to be signed is.

use super::{PUBLIC_URL, Trial, Tried, options_of, with_request};
use crate::handshake::{self, Challenge};
use crate::place::Place;
use crate::preset::{Handshake, HandshakeCheck, HandshakeSample, Preset};
use crate::{Draft, InvalidVerifier, Verifier};
use base::clock::Unix;

/// Each question of the tool that has a sample, asked.
pub fn questions(preset: &'static Preset) -> Vec<Tried> {
    let asked = preset.handshakes.iter().filter_map(|one| {
        let sample = one.sample.as_ref()?;
        let method = &one.method;
        Some(Tried::of(
            format!("challenge by {method}: answered"),
            answer_to(preset, one, sample)
                .and_then(|answer| compare(&answer, sample))
                .err(),
        ))
    });
    asked.collect()
}

fn answer_to(
    preset: &'static Preset,
    one: &Handshake,
    sample: &HandshakeSample,
) -> Result<Challenge, String> {
    let now = Unix::now();
    let url = url_of(sample);
    let body = sample.body.as_bytes();
    let none = || "it is not recognized as a challenge".to_owned();
    if !preset.signed() {
        return with_request(&one.method, &url, &sample.headers, body, now, |of| {
            handshake::of_keyed(Some(preset), of).ok_or_else(none)
        });
    }
    let invalid = |error: InvalidVerifier| error.to_string();
    let asked = |verifier: &Verifier, url: &str, headers: &[(String, String)], body: &[u8]| {
        with_request(&one.method, url, headers, body, now, |of| {
            match verifier.handshake(of) {
                Ok(Some(answer)) => Ok(answer),
                Ok(None) => Err(none()),
                Err(refused) => Err(refused.message),
            }
        })
    };
    if one.secret.is_some() {
        let verifier = Verifier::awaiting(&options_of(preset)).map_err(invalid)?;
        return asked(&verifier, &url, &sample.headers, body);
    }
    let Some(trial) = Trial::all(preset)?.into_iter().next() else {
        return Err("only the provider can sign it".to_owned());
    };
    match &one.check {
        HandshakeCheck::VerifyToken(place) => {
            let word = said(sample, place);
            let verifier = Verifier::new(&trial.options, &trial.secret, word).map_err(invalid)?;
            asked(&verifier, &url, &sample.headers, body)
        }
        HandshakeCheck::Signature => {
            let mut ids = (preset.id.iter()).flat_map(|id| id.0.iter().flatten());
            let signed = trial.verifier.sign(Draft {
                method: &one.method,
                url: &url,
                body,
                content_type: "application/json",
                headers: &sample.headers,
                id: ids.find_map(|place| said(sample, place)).unwrap_or("1"),
                event: "",
                now,
            });
            let signed = signed.map_err(|error| error.to_string())?;
            let url = signed.target(&url);
            asked(&trial.verifier, &url, &signed.headers, &signed.body)
        }
        _ => asked(&trial.verifier, &url, &sample.headers, body),
    }
}

fn url_of(sample: &HandshakeSample) -> String {
    let url = format!("{PUBLIC_URL}/api/webhook/trial/trial");
    if sample.query.is_empty() {
        return url;
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(&sample.query);
    format!("{url}?{}", query.finish())
}

/// What a sample has at a place outside of its body.
fn said<'s>(sample: &'s HandshakeSample, place: &Place) -> Option<&'s str> {
    let (pairs, name) = match place {
        Place::Query(name) => (&sample.query, name),
        Place::Header(name) => (&sample.headers, name),
        Place::Body(_) | Place::Item(_) | Place::Part(_) => return None,
    };
    let mut found = pairs
        .iter()
        .filter(|(own, _)| own.eq_ignore_ascii_case(name));
    found.next().map(|(_, text)| text.as_str())
}

/// Whether the answer is the one that is expected.
fn compare(answer: &Challenge, sample: &HandshakeSample) -> Result<(), String> {
    if answer.status != sample.status {
        return Err(format!("the status is {}", answer.status));
    }
    if (sample.text.as_ref()).is_some_and(|text| *text != answer.body) {
        return Err(format!("the answer is `{}`", answer.body.escape_debug()));
    }
    if let Some(json) = &sample.json
        && serde_json::from_str::<serde_json::Value>(&answer.body)
            .ok()
            .as_ref()
            != Some(json)
    {
        return Err(format!("the answer is `{}`", answer.body.escape_debug()));
    }
    for (name, value) in &sample.answer_headers {
        let is_same =
            |(own, given): &(String, String)| own.eq_ignore_ascii_case(name) && given == value;
        let kind = answer.content_type.as_deref();
        let is_kind = name.eq_ignore_ascii_case("content-type") && kind == Some(value.as_str());
        if !is_kind && !answer.headers.iter().any(is_same) {
            return Err(format!("the answer has no header {name}: {value}"));
        }
    }
    Ok(())
}
