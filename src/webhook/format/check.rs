//! What a preset cannot say, though each of its fields is well written.
//!
//! The settings of keys are judged by [`verification`], too.
//!
//! **Invariant**: a preset that passes believes nobody who lacks the secret, and lets no stranger choose what is removed.

use base::tree::Node;

use super::FormatError;
use crate::place::{Place, Source};
use crate::preset::{Algorithm, Preset, Verification};
use crate::template::{Piece, Template};

/// The line of a field, or of the table that it belongs to. An author otherwise searches a long file for the mistake.
fn line_of(node: &Node, table: Option<&str>, field: &str) -> Option<usize> {
    let table = table.and_then(|name| node.get(name)).unwrap_or(node);
    table.get(field).map_or(table.line, |field| field.line)
}

pub(super) fn check(preset: &Preset, node: &Node) -> Result<(), FormatError> {
    let at =
        |field: &str, message: String| Err(FormatError::new(line_of(node, None, field), message));
    if preset.title.is_empty() {
        return at(
            "title",
            "`title` is missing; set the name of the provider that pages show".to_owned(),
        );
    }
    if let Some(verify) = &preset.verify {
        if verify.signature.is_empty() && !preset.is_generic() {
            let line = node.get("verify").and_then(|verify| verify.line);
            let message = "verify.signature is missing; set the place of the signature, such as \"header:X-Signature\"";
            return Err(FormatError::new(line, message));
        }
        verification(verify, preset.id.as_ref(), &names(preset)).map_err(|(field, message)| {
            let line = line_of(node, Some("verify"), field);
            FormatError::new(line, format!("verify.{field}: {message}"))
        })?;
    }
    answers(preset, node)?;
    let by_header = preset
        .event
        .as_ref()
        .is_some_and(|event| !is_signed(event, preset.verify.as_ref()));
    if !preset.removals.is_empty() && by_header && preset.signed() && !preset.unsigned_event {
        let message = "delete_when uses the event, which is not signed: anyone who replays a delivery could turn it into a removal; to allow this, set `unsigned_event = true`";
        return at("delete_when", message.to_owned());
    }
    if preset.event_field && preset.event.is_none() {
        return at("event_field", "`event_field` needs `event`".to_owned());
    }
    if preset
        .content
        .as_ref()
        .is_some_and(|path| path.walks_arrays())
    {
        return at(
            "content",
            "`content` passes through an array; name one value of an element".to_owned(),
        );
    }
    Ok(())
}

/// What an answer to a question can say. An unknown placeholder would be an empty text in the answer.
fn answers(preset: &Preset, node: &Node) -> Result<(), FormatError> {
    let at =
        |field: &str, message: String| Err(FormatError::new(line_of(node, None, field), message));
    for handshake in &preset.handshakes {
        let options = names(preset);
        for template in handshake.answer.templates() {
            let odd = |piece: &Piece| match piece {
                Piece::Text(_) | Piece::At(_) | Piece::Signed(..) => false,
                Piece::Option(name) => !options.contains(&name.as_str()),
                _ => true,
            };
            if template.pieces.iter().any(odd) {
                let message = format!(
                    "handshakes: the answer `{}` has an unknown placeholder; known are {{header:…}}, {{query:…}}, {{body:…}}, {{hmac:hex:…}} and options of the preset",
                    template.written().escape_debug()
                );
                return at("handshakes", message);
            }
        }
        let is_keyed = preset.verify.is_none();
        if is_keyed && (handshake.answer.signs() || handshake.secret.is_some()) {
            let message = "handshakes: without [verify] there is no secret to sign with or to accept; add [verify]";
            return at("handshakes", message.to_owned());
        }
    }
    Ok(())
}

fn names(preset: &Preset) -> Vec<&str> {
    preset
        .options
        .iter()
        .map(|option| option.name.as_str())
        .collect()
}

/// Whether what stands there is part of what is signed. What is not signed can be changed by anybody who has seen a
/// delivery.
fn is_signed(source: &Source, verify: Option<&Verification>) -> bool {
    let signed = |place: &Place| match place {
        Place::Body(_) | Place::Item(_) | Place::Part(_) => true,
        Place::Header(_) | Place::Query(_) => {
            let has = |template: &Template| template.places().any(|other| other == place);
            verify.is_some_and(|verify| has(&verify.signed))
        }
    };
    source.0.iter().flatten().all(signed)
}

/// What cannot be of a verification: the field, and what is wrong with it. `options` are the names of the preset's options.
pub(crate) fn verification(
    verify: &Verification,
    id: Option<&Source>,
    options: &[&str],
) -> Result<(), (&'static str, String)> {
    let err = |field, message: &str| Err((field, message.to_owned()));
    let has = |piece: Piece| verify.signed.has(&piece);
    let places = [&verify.signature, &verify.timestamp];
    if places.iter().any(|places| places.len() > 8) {
        return err("signature", "it has more than 8 places");
    }
    if (verify.signature.iter()).any(|place| matches!(place, Place::Part(_))) {
        return err(
            "signature",
            "`part:` names a part of the signature's header, not a place of a signature; use `header:`, `query:` or `body:`",
        );
    }
    placeholders(verify, options)?;
    if signs(verify.algorithm) && !verify.signed.covers_body() && !verify.unsigned_body {
        return err(
            "signed",
            "it has no {body}, so any body would be accepted; add {body}, or set `unsigned_body = true`",
        );
    }
    if has(Piece::Time) && verify.timestamp.is_empty() {
        return err("signed", "it has {ts}; set `timestamp` to its place");
    }
    if has(Piece::Id) && id.is_none() {
        return err("signed", "it has {id}; set `id` to its place");
    }
    let in_part = verify
        .timestamp
        .iter()
        .any(|place| matches!(place, Place::Part(_)));
    if in_part && verify.separator.is_none() {
        return err(
            "separator",
            "it is missing; set the character between the parts of the header, such as `,`",
        );
    }
    in_step(verify, id)?;
    match verify.algorithm {
        Algorithm::Hash(_) => plain_hash(&verify.signed)?,
        _ if has(Piece::Secret) => {
            return err(
                "signed",
                "{secret} is allowed in plain hashes only; remove it",
            );
        }
        _ => {}
    }
    of_algorithm(verify)
}

/// What stands in braces is known. An unknown one would be empty text, and no delivery would ever pass.
fn placeholders(verify: &Verification, options: &[&str]) -> Result<(), (&'static str, String)> {
    let unknown = (verify.signed.pieces.iter())
        .chain(verify.claims.iter().flat_map(|(_, claim)| &claim.pieces))
        .any(|piece| match piece {
            Piece::Option(name) => !options.contains(&name.as_str()),
            Piece::Signed(..) => true,
            _ => false,
        });
    if unknown {
        return Err((
            "signed",
            "it has an unknown placeholder; known are {body}, {ts}, {id}, {url}, {method}, {path}, {secret}, {sha256:hex}, places such as {header:X-Nonce}, and options of the preset"
                .to_owned(),
        ));
    }
    Ok(())
}

fn of_algorithm(verify: &Verification) -> Result<(), (&'static str, String)> {
    let err = |field, message: &str| Err((field, message.to_owned()));
    match verify.algorithm {
        Algorithm::Twilio | Algorithm::Sns | Algorithm::Paypal | Algorithm::Pubsub => Ok(()),
        Algorithm::Token if !verify.unsigned_body => err(
            "unsigned_body",
            "a fixed secret does not sign the body; set `unsigned_body = true`",
        ),
        Algorithm::Token => Ok(()),
        Algorithm::Jwt(_) => {
            if verify.signed != Template::of_body() {
                return err("signed", "a token defines what it signs; omit `signed`");
            }
            match verify.body_hash.is_none() && !verify.unsigned_body {
                true => err(
                    "body_hash",
                    "it is missing, so the token does not cover the body; set it, or `unsigned_body = true`",
                ),
                false => Ok(()),
            }
        }
        _ => timed(verify),
    }
}

/// Whether it is a signature over the template.
fn signs(algorithm: Algorithm) -> bool {
    !matches!(
        algorithm,
        Algorithm::Twilio
            | Algorithm::Sns
            | Algorithm::Paypal
            | Algorithm::Pubsub
            | Algorithm::Token
            | Algorithm::Jwt(_)
    )
}

/// Whether a time that is believed is signed. Otherwise an old delivery with a new time would pass.
fn timed(verify: &Verification) -> Result<(), (&'static str, String)> {
    let outside = |place: &Place| !matches!(place, Place::Body(_) | Place::Item(_));
    let signs_time = verify.signed.has(&Piece::Time);
    if verify.timestamp.iter().any(outside) && !signs_time {
        let message = "`signed` has no {ts}, so anyone could change the timestamp; add {ts} to `signed`, or omit `timestamp`";
        return Err(("timestamp", message.to_owned()));
    }
    Ok(())
}

/// The secret must be there, and not before what a sender chooses: who saw a delivery could lengthen it.
fn plain_hash(signed: &Template) -> Result<(), (&'static str, String)> {
    let at = |wanted: fn(&Piece) -> bool| signed.pieces.iter().position(wanted);
    let secret = at(|piece| *piece == Piece::Secret);
    let last = signed.pieces.len().saturating_sub(1);
    let message = match secret {
        None => "without {secret}, anyone can compute a plain hash; add {secret} at the end",
        Some(secret) if secret < last => {
            "{secret} is before a value that the sender chooses, so anyone with one delivery could extend it; put {secret} last"
        }
        Some(_) => return Ok(()),
    };
    Err(("signed", message.to_owned()))
}

/// Lists of different lengths would pair a signature with the time of another scheme.
fn in_step(verify: &Verification, id: Option<&Source>) -> Result<(), (&'static str, String)> {
    if !verify.in_step {
        return Ok(());
    }
    let len = verify.signature.len();
    let times = verify.timestamp.len();
    let ids = id
        .filter(|_| verify.signed.has(&Piece::Id))
        .map_or(len, |id| id.0.len());
    match (times == 0 || times == len) && ids == len {
        true => Ok(()),
        false => Err((
            "in_step",
            "signature, timestamp and id have lists of different lengths; give each as many places"
                .to_owned(),
        )),
    }
}
