//! JSON Web Tokens (RFC 7519) that vouch for a delivery, and say the digest of its body.
//!
//! The [`Verifier`](super::Verifier) calls [`check_head`] before the body is read, and [`check`] after.
//!
//! **Invariant**: the token's own word about its algorithm decides nothing: it must be the one that is set.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use serde_json::{Map, Value, json};

use super::key::{Key, encode, hashed};
use super::layout::{Layout, Outside};
use super::preset::{Algorithm, BodyHash, Encoding, JwtAlgorithm, Unit};
use super::sign::CannotSign;
use super::template::{Piece, Template};
use super::{Because, Delivery, Refused, clock};
use base::clock::Unix;

const TOKEN_LEN_MAX: usize = 64 * 1_024;
const SHOWN_CHARS_MAX: usize = 200;
/// How long a token counts that is made here.
const LIFE_SECONDS: u64 = 300;

/// A token whose signature and times are good: what it says. `None` if it stands in the URL, which is not known yet. A
/// delivery without a good token is refused so before its body is received.
pub(super) fn check_head(
    layout: &Layout,
    key: &Key,
    of: Outside<'_>,
) -> Result<Option<Value>, Refused> {
    let mut name = String::new();
    let given = layout.given(of, &layout.verify.signature, &mut name)?;
    let Some(given) = given.first() else {
        return Ok(None);
    };
    let Some(token) = layout.without_prefix(given.trim()) else {
        let prefix = layout.verify.prefix.trim();
        return Err(Refused::header(format!(
            "{name} has no token after `{prefix}`"
        )));
    };
    let claims = signed_claims(layout.verify.algorithm, key, token.trim())?;
    check_times(&claims, layout.verify.tolerance_seconds, of.now)?;
    Ok(Some(claims))
}

pub(super) fn check(
    layout: &Layout,
    key: &Key,
    delivery: &Delivery<'_>,
    url: &str,
) -> Result<(), Refused> {
    let claims = check_head(layout, key, Outside::of(delivery))?
        .ok_or_else(|| Refused::header("the delivery has no token"))?;
    for (name, template) in &layout.verify.claims {
        check_claim(&claims, name, &expected(layout, template, url))?;
    }
    let Some(hash) = &layout.verify.body_hash else {
        return Ok(());
    };
    let said = claims
        .get(&hash.claim)
        .and_then(Value::as_str)
        .unwrap_or_default();
    let ours = body_hash(hash, delivery.body);
    let is_same = match hash.encoding {
        Encoding::Hex => said.eq_ignore_ascii_case(&ours),
        _ => said.trim_end_matches('=') == ours.trim_end_matches('='),
    };
    match is_same {
        true => Ok(()),
        false => Err(Refused::signature(format!(
            "the digest of the body is not the one in the token's `{}`; a proxy must forward the body unchanged",
            hash.claim
        ))),
    }
}

fn expected(layout: &Layout, template: &Template, url: &str) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Url => url.to_owned(),
        Piece::Option(name) => layout.option(name).to_owned(),
        _ => String::new(),
    };
    template.pieces.iter().map(piece).collect()
}

fn check_claim(claims: &Value, name: &str, wanted: &str) -> Result<(), Refused> {
    let is_wanted = |value: &Value| value.as_str() == Some(wanted);
    let fits = match claims.get(name) {
        // A token may be for several (RFC 7519, section 4.1.3).
        Some(Value::Array(several)) if name == "aud" => several.iter().any(is_wanted),
        Some(value) => is_wanted(value),
        None => false,
    };
    if fits {
        return Ok(());
    }
    let came = claims.get(name).map_or_else(String::new, Value::to_string);
    let came: String = came.chars().take(SHOWN_CHARS_MAX).collect();
    Err(Refused::signature(format!(
        "the token's `{name}` is `{}`, not `{wanted}`",
        came.escape_debug()
    )))
}

/// The claims of a token, if its signature is good. The algorithm of the head is compared and never used, because a
/// sender could choose a weaker one.
fn signed_claims(algorithm: Algorithm, key: &Key, token: &str) -> Result<Value, Refused> {
    let parts = token
        .rsplit_once('.')
        .filter(|_| token.len() <= TOKEN_LEN_MAX);
    let parts = parts.and_then(|(message, signature)| {
        let (head, claims) = message.split_once('.')?;
        (!claims.contains('.')).then_some((message, head, claims, signature))
    });
    let Some((message, head, claims, signature)) = parts else {
        return Err(Refused::header(format!(
            "the delivery has no token with three parts and at most {TOKEN_LEN_MAX} bytes"
        )));
    };
    let wanted = name_of(algorithm);
    let head = json_of(head).unwrap_or_default();
    let text = |name: &str| head.get(name).and_then(Value::as_str);
    // A token that needs something understood beside that is not understood (RFC 7515, section 4.1.11).
    if text("alg") != Some(wanted) || head.get("crit").is_some() {
        return Err(Refused::signature(format!(
            "the token is not signed with {wanted}"
        )));
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
    let is_good = match key {
        Key::Public(..) => key.is_signed(text("kid"), message.as_bytes(), &signature),
        _ => key.fits(&signature) && key.matches(&[message.as_bytes().into()], &[signature]),
    };
    match (is_good, json_of(claims)) {
        (true, Some(claims @ Value::Object(_))) => Ok(claims),
        (true, _) => Err(Refused::signature(
            "the claims of the token are not a JSON object",
        )),
        (false, _) => Err(Refused::signature(
            "the signature of the token does not match",
        )),
    }
}

/// What the head of a token calls its algorithm.
fn name_of(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Jwt(JwtAlgorithm::Es256) => "ES256",
        Algorithm::Jwt(JwtAlgorithm::Rs256) => "RS256",
        _ => "HS256",
    }
}

/// Its times against the clock; one of them that ends it must be there, because a token without an end could be sent
/// again forever.
fn check_times(claims: &Value, tolerance_seconds: u64, now: Unix) -> Result<(), Refused> {
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(seconds) if (0.0..253_402_300_800.0).contains(&seconds) => {
                Ok(Some(seconds as u64))
            }
            _ => {
                let message = format!("the token's `{name}` is not a time");
                Err(Refused::new(Because::Timestamp, message))
            }
        },
    };
    let (begins, ends, made) = (time("nbf")?, time("exp")?, time("iat")?);
    if ends.is_none() && made.is_none() {
        let message = "the token has neither `exp` nor `iat`, so it would never expire";
        return Err(Refused::new(Because::Timestamp, message));
    }
    let seconds = now.seconds();
    let against = |at: u64| clock::check(&at.to_string(), Unit::Seconds, tolerance_seconds, now);
    let begins = begins.or(made.filter(|_| ends.is_some()));
    if let Some(begins) = begins.filter(|begins| *begins > seconds) {
        against(begins)?;
    }
    match (ends, made) {
        (Some(ends), _) if ends < seconds => against(ends),
        (None, Some(made)) => against(made),
        _ => Ok(()),
    }
}

fn body_hash(hash: &BodyHash, body: &[u8]) -> String {
    let digest = hashed(hash.hash, &[Cow::Borrowed(body)]);
    encode(digest.as_ref(), hash.encoding)
}

/// What a token that is signed here has that no other has. The signature is left out, because some algorithms have
/// several for the same message.
pub(super) fn digest(layout: &Layout, of: Outside<'_>) -> Option<digest::Digest> {
    let given = layout
        .given(of, &layout.verify.signature, &mut String::new())
        .ok()?;
    let (message, _) = given.first()?.rsplit_once('.')?;
    Some(digest::digest(&digest::SHA256, message.as_bytes()))
}

/// A token for a delivery.
pub(super) fn sign(
    layout: &Layout,
    key: &Key,
    body: &[u8],
    url: &str,
    now: Unix,
) -> Result<String, CannotSign> {
    let mut claims = Map::new();
    claims.insert("iat".to_owned(), now.seconds().into());
    claims.insert("exp".to_owned(), (now.seconds() + LIFE_SECONDS).into());
    for (name, template) in &layout.verify.claims {
        claims.insert(name.clone(), expected(layout, template, url).into());
    }
    if let Some(hash) = &layout.verify.body_hash {
        claims.insert(hash.claim.clone(), body_hash(hash, body).into());
    }
    let head = json!({"alg": name_of(layout.verify.algorithm), "typ": "JWT"}).to_string();
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let message = format!(
        "{}.{}",
        part(&head),
        part(&Value::Object(claims).to_string())
    );
    let tag = key
        .sign(&[message.as_bytes().into()])
        .ok_or_else(CannotSign::public_key)?;
    Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag)))
}

fn json_of(part: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}
