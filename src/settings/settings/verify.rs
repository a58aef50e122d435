//! How the requests of a tool are verified that sends no ingest key, but signs.
//!
//! **Invariant**: `secret` is there, unless the tool sends its own, and fits the scheme; [`load`](crate::load) sees to it for what a file
//! declares, the catalog for what is made at run time.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::Secret;
use crate::checks::kinds;
use crate::record::{Field, rows};
use base::text::hex;
use webhook::{InvalidVerifier, Options, Preset, Verifier};

/// Hex digits that are shown of the SHA-256 of a secret.
const SHOWN_DIGITS: usize = 8;

/// `verify` of an ingest key: the scheme that its tool signs by, and the secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verify {
    /// Signing secret that the tool shows; for some schemes its public key, its certificate, or its key set. None
    /// while the secret of a tool that sends its own is awaited.
    pub secret: Option<Secret>,
    /// What Meta sends before its first delivery.
    pub verify_token: Option<Secret>,
    /// What is a repeat beside what has the same delivery id.
    pub replay: Option<Replay>,
    /// The scheme, and what can be set of it.
    #[serde(flatten)]
    pub options: Options,
}

/// What is the same of most rows below.
const OPTION: Field = Field {
    none: "the usual of the scheme",
    ..Field::PLAIN
};

/// The rows of [`Verify`], which has the options of all schemes in one table: these are of a package below this one. What
/// each scheme takes of them its verifier says.
pub(crate) const VERIFY: &[Field] = rows! { OPTION;
    /// Preset of a provider that signs, `hmac`, or `token` for a fixed secret.
    scheme, Text(kinds::PRESET), required: true, example: r#""hmac""#, none: "", default: || "".into();
    /// Signing secret of the provider, at least 16 bytes. A file is read again when it changes.
    secret, Secret, example: r#""as the provider shows it""#, usual: "required",
        guide: "For some providers it is their public key, [their certificates or their key set][tools-certificates]; for a provider that [sends its own][tools-own-secret] it can be omitted at first.";
    /// Verify token that was entered in Meta's settings; `meta` only.
    verify_token, Secret, example: r#"{ env = "META_WORD" }"#, alternative: true;
    /// Duplicates within 24 hours: `delivery` for the same delivery id, `body` also for the same bytes.
    replay, Choice(&["delivery", "body"]), example: r#""delivery""#, usual: "the preset's, mostly `delivery`",
        guide: "See [repeats and replays][tools-replay].";
    /// Largest difference between a signed time and the daemon's clock, in seconds; 0 ignores the time.
    tolerance_seconds, Integer(0, u32::MAX as u64), example: "300", usual: "the preset's, mostly 300";
    /// URL that the provider signs, if it differs from `server.public_url` and the path.
    url, Text(kinds::URL), example: r#""https://hooks.example.com/x""#, alternative: true, usual: "`server.public_url` and the path";
    /// Status of the response: 200, 202 or 204.
    answer, Integer(200, 204), example: "202", usual: "the preset's, mostly 202";
    /// Header with the signature, or with the secret. `hmac` and `token` need it.
    header, Text(kinds::HEADER_NAME), example: r#""X-Signature""#, usual: "required";
    /// Beginning of a signature in the header, such as `sha256=`.
    prefix, Text(kinds::ANY), example: r#""v1=""#;
    /// Character between several parts of the header.
    separator, Text(kinds::ANY), example: r#"",""#;
    /// Signed text, made of `{body}`, `{ts}`, `{id}`, `{url}`, `{method}`, places such as `{header:X-Nonce}`, and other characters.
    signed, Text(kinds::ANY), example: r#""{ts}.{body}""#, usual: "`{body}`";
    /// Hash function of an HMAC.
    hash, Choice(&["sha1", "sha256", "sha384", "sha512"]), example: r#""sha256""#, usual: "`sha256`";
    /// Encoding of the signature.
    encoding, Choice(&["hex", "base64", "base64url"]), example: r#""hex""#, usual: "`hex`";
    /// Encoding of the secret.
    secret_encoding, Choice(&["text", "hex", "base64", "base64url", "whsec"]), example: r#""text""#, usual: "`text`";
    /// Place of the signed time: `{ header = "X-Timestamp" }`, `{ part = "t=" }` or `{ body = "sent_at" }`.
    timestamp, Table(TIMESTAMP), example: r#"{ header = "X-Timestamp", unit = "s" }"#,
        guide: "A `part` is one of the signature header, a `body` a field of the body. The `unit` is `s` (default), `ms` or `rfc3339`.";
    /// Place of the delivery id, as `header:NAME` or `body:PATH`.
    id, Text(kinds::ANY), example: r#""header:X-Delivery""#;
    /// Place of the event name, as `header:NAME` or `body:PATH`.
    event, Text(kinds::ANY), example: r#""body:type""#;
    /// Algorithm of the signature, such as `ed25519`, in place of `hash`; `hmac` and presets.
    algorithm, Text(kinds::ANY), example: r#""ed25519""#, alternative: true;
    /// Place of the signature, in place of `header`: `header:NAME`, `query:NAME`, `body:PATH` or `item:PATH`.
    signature, Text(kinds::ANY), example: r#""body:signature""#, alternative: true;
    /// `true` if the signature does not cover the body.
    unsigned_body, Boolean, example: "true", usual: "`false`";
    /// Options of single presets, by name, such as `api_key` of `livekit`.
    options, Free, none: "", default: || serde_json::json!({}), example: r#"{ api_key = "APIx" }"#, alternative: true;
    /// ARN of the topic; `sns` only.
    topic, Text(kinds::ANY), example: r#""arn:aws:sns:eu-west-1:123456789012:orders""#, alternative: true, usual: "required";
    /// Id of the webhook; `paypal` only.
    webhook_id, Text(kinds::ANY), example: r#""1JE4291016473214C""#, alternative: true, usual: "required";
    /// Audience of the push subscription; `pubsub` only.
    audience, Text(kinds::ANY), example: r#""https://hooks.example.com""#, alternative: true, usual: "required";
    /// Service account of the push subscription; `pubsub` only.
    email, Text(kinds::ANY), example: r#""push@example.iam.gserviceaccount.com""#, alternative: true, usual: "any",
        guide: "`headgate check` warns if it is missing.";
};

const TIMESTAMP: &[Field] = rows! { OPTION;
    /// Header with the time.
    header, Text(kinds::HEADER_NAME);
    /// Beginning of the part of the signature header with the time.
    part, Text(kinds::ANY);
    /// Field of the body with the time.
    body, Text(kinds::ANY);
    /// Unit of the time: `s`, `ms` or `rfc3339`.
    unit, Choice(&["s", "ms", "rfc3339"]);
};

/// What is taken for a repeat within 24 hours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replay {
    /// A delivery with the id of another.
    #[default]
    Delivery,
    /// And one with the body of another, whatever its id is.
    Body,
}

impl Verify {
    /// What checks deliveries.
    ///
    /// # Errors
    /// What does not fit, by its field.
    pub fn verifier(&self) -> Result<Verifier, InvalidVerifier> {
        if self.awaits_secret() {
            return Verifier::awaiting(&self.options);
        }
        let token = self.verify_token.as_ref().map(Secret::reveal);
        Verifier::new(&self.options, self.secret(), token)
    }

    /// Whether it has no secret yet, because its tool sends one of its own.
    pub fn awaits_secret(&self) -> bool {
        let preset = webhook::preset(&self.options.scheme);
        self.secret.is_none() && preset.and_then(Preset::sends_secret).is_some()
    }

    /// What stands in place of a key's prefix: the scheme, and the beginning of the secret's SHA-256, or `pending`.
    pub fn shown(&self) -> String {
        let mut shown = format!("{}_", self.options.scheme);
        if self.awaits_secret() {
            shown.push_str("pending");
            return shown;
        }
        shown.push_str(&hex(&Sha256::digest(self.secret())[..SHOWN_DIGITS / 2]));
        shown
    }

    /// What a key of this stream is known by that has such a secret: no text that can be sent has it.
    pub fn digest(&self, stream: &str) -> [u8; 32] {
        let mut digest = Sha256::new();
        let parts = ["\0verify", stream, &self.options.scheme, self.secret()];
        // What a tool publishes is the same for all of its customers; these are not.
        let details = self.options.details();
        let set = details.iter().map(|(name, text)| [*name, *text]);
        for part in parts.into_iter().chain(set.flatten()) {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }

    /// With its secrets, as the catalog keeps it.
    pub fn revealed(&self) -> Value {
        let mut whole = serde_json::to_value(self).unwrap_or_default();
        if let Some(secret) = &self.secret {
            whole["secret"] = secret.reveal().into();
        }
        if let Some(token) = &self.verify_token {
            whole["verify_token"] = token.reveal().into();
        }
        whole
    }

    fn secret(&self) -> &str {
        self.secret.as_ref().map_or("", Secret::reveal)
    }
}
