//! Google Pub/Sub: a token in the header `Authorization` (an OpenID Connect ID token, RFC 7519) that says who pushes.
//!
//! The [`Verifier`](super::Verifier) calls [`Pubsub::check`] before the body is read: the token says nothing of it.
//!
//! **Invariant**: only RS256 with a key of the settings counts, whatever the token says of itself.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::key_set::KeySet;
use super::layout::Layout;
use super::preset::{Preset, Unit};
use super::{Because, Headers, InvalidVerifier, Options, Refused, clock};
use base::clock::Unix;

const ALGORITHM: &str = "RS256";
/// Google names itself in both ways.
const ISSUERS: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];
const SHOWN_CHARS_MAX: usize = 200;

/// What tokens of one subscription must have.
pub(super) struct Pubsub {
    keys: KeySet,
    /// Google signs for every customer, so that only this and the account say who sent it.
    audience: String,
    email: Option<String>,
    tolerance_seconds: u64,
}

impl Pubsub {
    pub(super) fn new(
        preset: &Preset,
        options: &Options,
        layout: &Layout,
        keys: &str,
    ) -> Result<Pubsub, InvalidVerifier> {
        Ok(Pubsub {
            keys: KeySet::of(preset, keys)?,
            audience: options.audience.clone().unwrap_or_default(),
            email: options.email.clone(),
            tolerance_seconds: layout.verify.tolerance_seconds,
        })
    }

    /// The signature comes first, because nothing a token says counts before it.
    pub(super) fn check(&self, headers: Headers<'_>, now: Unix) -> Result<(), Refused> {
        let Some(value) = headers.once("Authorization")? else {
            return Err(Refused::header(
                "the header Authorization is missing; enable authentication for the push subscription",
            ));
        };
        let Some(token) = bearer(value) else {
            return Err(Refused::header(
                "the header Authorization has no token of three parts, `Bearer …`",
            ));
        };
        let head = json(token.head).unwrap_or_default();
        // A token that needs something understood beside that is not understood (RFC 7515, section 4.1.11).
        if text(&head, "alg") != Some(ALGORITHM) || head.get("crit").is_some() {
            return Err(Refused::signature(format!(
                "the token is not signed with {ALGORITHM}"
            )));
        }
        let signature = URL_SAFE_NO_PAD.decode(token.signature).unwrap_or_default();
        let message = token.message.as_bytes();
        self.keys.check(text(&head, "kid"), message, &signature)?;
        let claims = json(token.claims).unwrap_or_default();
        self.check_time(&claims, now)?;
        self.check_claims(&claims)
    }

    fn check_time(&self, claims: &Value, now: Unix) -> Result<(), Refused> {
        let time = |name: &str| {
            let missing = || {
                let message = format!("the token has no time `{name}`");
                Refused::new(Because::Timestamp, message)
            };
            claims.get(name).and_then(Value::as_u64).ok_or_else(missing)
        };
        let (begins, ends) = (time("iat")?, time("exp")?);
        let seconds = now.seconds();
        // Inside of both it is as good as now.
        let nearest = seconds.clamp(begins.min(ends), ends);
        clock::check(
            &nearest.to_string(),
            Unit::Seconds,
            self.tolerance_seconds,
            now,
        )
    }

    /// What the token says is Google's word by now.
    fn check_claims(&self, claims: &Value) -> Result<(), Refused> {
        let issuer = text(claims, "iss").unwrap_or_default();
        if !ISSUERS.contains(&issuer) {
            return Err(Refused::signature("Google did not issue the token"));
        }
        let other = |what: &str, came: Option<&str>, wanted: &str| {
            let came: String = came
                .unwrap_or_default()
                .chars()
                .take(SHOWN_CHARS_MAX)
                .collect();
            let came = came.escape_debug();
            Refused::signature(format!("the token's {what} is `{came}`, not `{wanted}`"))
        };
        let audience = text(claims, "aud");
        if audience != Some(&self.audience) {
            return Err(other("audience", audience, &self.audience));
        }
        let Some(wanted) = &self.email else {
            return Ok(());
        };
        let email = text(claims, "email");
        if email != Some(wanted) {
            return Err(other("service account", email, wanted));
        }
        match claims.get("email_verified") {
            Some(Value::Bool(true)) => Ok(()),
            _ => Err(Refused::signature(
                "the token's service account is not verified",
            )),
        }
    }
}

/// A token in its compact form (RFC 7515, section 7.1), with what its signature is of.
struct Token<'a> {
    message: &'a str,
    head: &'a str,
    claims: &'a str,
    signature: &'a str,
}

fn bearer(value: &str) -> Option<Token<'_>> {
    let (scheme, token) = value.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (message, signature) = token.trim().rsplit_once('.')?;
    let (head, claims) = message.split_once('.')?;
    (!claims.contains('.')).then_some(Token {
        message,
        head,
        claims,
        signature,
    })
}

fn json(part: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}
